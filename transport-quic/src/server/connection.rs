//! One connection and the calls on it.

use std::net::SocketAddr;

use datafusion::common::runtime::JoinSet;
use datafusion_tributary_core::protocol::Peer;
use datafusion_tributary_core::transport::byte_stream::StreamKind;
use datafusion_tributary_tls::names;
use quinn::{Connection, RecvStream, SendStream};
use rustls::pki_types::CertificateDer;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::SHUT_DOWN_REASON;
use super::accept::Port;
use crate::error::{REFUSED, SHUT_DOWN, connection_text};
use crate::{frame, greeting};

/// Serves the calls of a connection until it is lost, or until it is stopped and they are over.
pub(super) async fn serve(
    port: &Port,
    connection: Connection,
    io: Handle,
    mut stopped: watch::Receiver<()>,
) {
    let peer = peer(&connection);
    let address = connection.remote_address();
    // They end with the connection.
    let mut calls = JoinSet::new();
    calls.spawn_on(greeting::send(connection.clone(), port.ports.clone()), &io);
    let mut is_stopped = false;
    loop {
        tokio::select! {
            accepted = connection.accept_bi() => match accepted {
                Ok((send, receive)) if is_stopped => refuse(send, receive),
                Ok((send, receive)) => {
                    let stream = frame::duplex(send, receive, StreamKind::Data, ());
                    let call = port.streams.clone().serve(stream, Some(peer.clone()));
                    calls.spawn_on(call, &io);
                }
                Err(error) => {
                    log::debug!("the connection of {address} ended: {}", connection_text(&error));
                    return;
                }
            },
            Some(_) = calls.join_next() => {}
            Err(_) = stopped.changed(), if !is_stopped => is_stopped = true,
        }
        if is_stopped && calls.is_empty() {
            // What was answered was also acknowledged, so nothing is taken back.
            connection.close(SHUT_DOWN, SHUT_DOWN_REASON);
            return;
        }
    }
}

/// Who is at the other end, as its socket and certificate say.
fn peer(connection: &Connection) -> Peer {
    let address = connection.remote_address();
    // A socket for both kinds of addresses writes those of IPv4 as those of IPv6.
    let address = SocketAddr::new(address.ip().to_canonical(), address.port());
    let identity = connection.peer_identity();
    let chain = identity.and_then(|chain| chain.downcast::<Vec<CertificateDer<'static>>>().ok());
    let names = chain.and_then(|chain| chain.first().map(names)).unwrap_or_default();
    Peer { address: Some(address), names }
}

/// Tells a caller at once that it comes too late.
fn refuse(mut send: SendStream, mut receive: RecvStream) {
    // Both fail for streams that are over.
    let _ = send.reset(REFUSED);
    let _ = receive.stop(REFUSED);
}
