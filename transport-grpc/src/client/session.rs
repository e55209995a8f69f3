//! The client's side of a control session.

use std::sync::Arc;

use datafusion::common::runtime::JoinSet;
use datafusion_tributary_core::error::{Result, TransportError};
use datafusion_tributary_core::limits::{LEASE, MAX_CONTROL_BYTES};
use datafusion_tributary_core::protocol::{
    OpenQuery, QuerySession, SessionCommand, SessionEvent, SessionPeer,
};
use datafusion_tributary_core::transport::CommandMessages;
use datafusion_tributary_core::wire::{
    Call, SessionMessage, decode_error, decode_session_message, encode_call, encode_command,
};
use http_body_util::BodyExt;
use prost::Message;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tonic::body::Body;

use super::call::Outgoing;
use super::pool::{Lease, Pool};
use crate::error::{cause, refusal};
use crate::frame::{MessageReader, protocol};
use crate::proto::{Down, DownKind, UpKind};
use crate::server::SESSION;

/// Opens a session. Dropping the future before it is ready resets the call.
pub(super) async fn open(pool: &Arc<Pool>, mut open: OpenQuery) -> Result<QuerySession> {
    let mut first = Vec::new();
    for command in open.first.drain(..) {
        first.extend(encode_command(command)?);
    }
    let call = encode_call(&Call::OpenQuery(open));
    let begin = move || {
        let outgoing = Outgoing::beginning_with(call.clone());
        first.iter().for_each(|command| outgoing.push(UpKind::Command(command.clone())));
        outgoing
    };
    let opening = {
        let pool = Arc::clone(pool);
        async move {
            let (lease, outgoing, body) = pool.start(false, SESSION, begin).await?;
            let reader = MessageReader::default();
            let mut session = Session { lease, body, reader, is_open: false };
            match session.next().await? {
                Some(SessionMessage::Opened) => Ok((session, outgoing)),
                Some(_) => Err(protocol("an event before the session was open")),
                None => Err(session.lost("the session ended as it began")),
            }
        }
    };
    let reason = format!("it opened no session within {LEASE:?}");
    let silent = TransportError::Unavailable { worker: pool.worker().to_owned(), reason };
    let (opened, is_open) = oneshot::channel();
    let mut running = JoinSet::new();
    let run = async move {
        // Pings of HTTP/2 are answered by the nearest proxy, not by the worker.
        let opening = timeout(LEASE, opening).await;
        let (session, outgoing) = match opening.unwrap_or_else(|_| Err(silent)) {
            Ok(opened) => opened,
            Err(error) => {
                // Who doesn't wait any more doesn't need it.
                let _ = opened.send(Err(error));
                return;
            }
        };
        let (caller, peer) = QuerySession::pair();
        if opened.send(Ok(caller)).is_ok() {
            session.run(outgoing, peer).await;
        }
    };
    running.spawn_on(run, &pool.env().io());
    let session = is_open.await;
    // It ends with the session's halves, which the caller owns from here on.
    running.detach_all();
    session.unwrap_or_else(|_| Err(TransportError::internal("the I/O runtime has ended")))
}

struct Session {
    lease: Lease,
    body: Body,
    reader: MessageReader,
    is_open: bool,
}

impl Session {
    async fn run(mut self, outgoing: Outgoing, peer: SessionPeer) {
        self.is_open = true;
        let SessionPeer { commands, events } = peer;
        // When all commands are sent, the worker's last event is still waited for.
        let ended = tokio::select! {
            ended = self.pass_events(&events) => ended,
            Err(error) = send_commands(&outgoing, commands) => Err(error),
            // The caller has dropped the events' half, which ends the session.
            () = events.closed() => return,
        };
        if let Err(error) = ended {
            let _ = events.send(SessionEvent::Failed(error)).await;
        }
    }

    async fn pass_events(&mut self, events: &mpsc::Sender<SessionEvent>) -> Result<()> {
        while let Some(message) = self.next().await? {
            match message {
                SessionMessage::Event(event) => {
                    if events.send(event).await.is_err() {
                        return Ok(());
                    }
                }
                _ => return Err(protocol("a second opening of a session")),
            }
        }
        Ok(())
    }

    /// The next message, or none after the end marker.
    ///
    /// # Errors
    /// The worker's, and that of a connection which was lost.
    async fn next(&mut self) -> Result<Option<SessionMessage>> {
        loop {
            if let Some(message) = self.reader.next(MAX_CONTROL_BYTES)? {
                return match Down::decode(message).map_err(protocol)?.kind {
                    Some(DownKind::Event(event)) => decode_session_message(event).map(Some),
                    Some(DownKind::Error(error)) => Err(decode_error(&error)),
                    Some(DownKind::End(_)) => Ok(None),
                    None => Err(protocol("a message of no known kind")),
                };
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    frame.data_ref().into_iter().for_each(|data| self.reader.push(data));
                    let trailers = frame.trailers_ref();
                    let refusal =
                        trailers.and_then(|trailers| refusal(self.lease.worker(), trailers));
                    if let Some(error) = refusal {
                        return Err(error);
                    }
                }
                Some(Err(status)) => return Err(self.lost(&cause(&status))),
                None => return Err(self.lost("the session ended without its marker")),
            }
        }
    }

    fn lost(&self, reason: &str) -> TransportError {
        let reason = self.lease.explain(reason.to_owned());
        let worker = self.lease.worker().to_owned();
        match self.is_open {
            true => TransportError::ConnectionLost { worker, reason },
            false => TransportError::Unavailable { worker, reason },
        }
    }
}

/// Passes commands on; the end of the commands is the end of the request.
///
/// # Errors
/// That of a command that can't be sent.
async fn send_commands(
    outgoing: &Outgoing,
    commands: mpsc::Receiver<SessionCommand>,
) -> Result<()> {
    let mut messages = CommandMessages::new(commands);
    while let Some(message) = messages.next().await? {
        outgoing.room().await;
        outgoing.push(UpKind::Command(message));
    }
    outgoing.finish();
    Ok(())
}
