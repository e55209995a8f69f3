//! Both sides of a control session.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::fetch::Link;
use super::frame::{FrameReader, Kind, write_error, write_small};
use super::{CUT, Io, LivenessConfig, lost, silent_for};
use crate::error::{Result, TransportError};
use crate::protocol::{OpenQuery, QuerySession, SessionCommand, SessionEvent, SessionPeer};
use crate::transport::{CommandMessages, WorkerChannel};
use crate::wire::{
    Call, CommandDecoder, SessionMessage, decode_error, decode_session_message, encode_call,
    encode_session_message,
};

/// Opens a session from the client's side.
pub(super) async fn open(
    link: &Link,
    mut io: Box<dyn Io>,
    open: OpenQuery,
) -> Result<QuerySession> {
    let lease = link.liveness.lease;
    let call = encode_call(&Call::OpenQuery(open));
    let mut reader = FrameReader::default();
    let answer = async {
        write_small(&mut io, Kind::Call, call).await?;
        loop {
            match reader.next(&mut io).await? {
                Some((Kind::KeepAlive, _)) => {}
                other => return io::Result::Ok(other),
            }
        }
    };
    match timeout(lease, answer).await {
        Err(_) => return Err(lost(&link.worker, false, silent_for(lease))),
        Ok(Err(error)) => return Err(lost(&link.worker, false, error)),
        Ok(Ok(None)) => return Err(lost(&link.worker, false, CUT)),
        Ok(Ok(Some((Kind::Error, error)))) => return Err(decode_error(&error)),
        Ok(Ok(Some((Kind::Event, event)))) => match decode_session_message(event)? {
            SessionMessage::Opened => {}
            SessionMessage::Event(_) => {
                return Err(unexpected("an event before the session was open"));
            }
        },
        Ok(Ok(Some((other, _)))) => {
            return Err(unexpected(&format!("a {other:?} frame for an opened session")));
        }
    }
    let (session, peer) = QuerySession::pair();
    let run = run_client(link.clone(), io, reader, peer);
    // Detached: it ends with the session's halves, which the caller owns.
    drop(link.io.spawn(run));
    Ok(session)
}

async fn run_client(link: Link, io: Box<dyn Io>, mut reader: FrameReader, peer: SessionPeer) {
    let (mut from, mut to) = tokio::io::split(io);
    let SessionPeer { commands, events } = peer;
    // When all commands are written, the peer's last event is still waited for.
    let ended = tokio::select! {
        ended = read_events(&link, &mut from, &mut reader, &events) => ended,
        Err(error) = write_commands(&mut to, commands) => Err(error),
        // The caller has dropped the events' half, which ends the session.
        () = events.closed() => return,
    };
    if let Err(error) = ended {
        let _ = events.send(SessionEvent::Failed(error)).await;
    }
}

/// Passes events on until the end frame.
async fn read_events(
    link: &Link,
    from: &mut (impl AsyncRead + Unpin),
    reader: &mut FrameReader,
    events: &mpsc::Sender<SessionEvent>,
) -> Result<()> {
    let lease = link.liveness.lease;
    loop {
        let frame = timeout(lease, reader.next(from)).await;
        match frame {
            Err(_) if reader.take_progress() => {}
            Err(_) => return Err(lost(&link.worker, true, silent_for(lease))),
            Ok(Err(error)) => return Err(lost(&link.worker, true, error)),
            Ok(Ok(None)) => return Err(lost(&link.worker, true, CUT)),
            Ok(Ok(Some((Kind::KeepAlive, _)))) => {}
            Ok(Ok(Some((Kind::End, _)))) => return Ok(()),
            Ok(Ok(Some((Kind::Error, error)))) => return Err(decode_error(&error)),
            Ok(Ok(Some((Kind::Event, event)))) => match decode_session_message(event)? {
                SessionMessage::Event(event) => {
                    if events.send(event).await.is_err() {
                        return Ok(());
                    }
                }
                SessionMessage::Opened => return Err(unexpected("a second opening of a session")),
            },
            Ok(Ok(Some((other, _)))) => {
                return Err(unexpected(&format!("a {other:?} frame in a session")));
            }
        }
    }
}

/// Passes commands on; the end of the commands is the end of what is written.
///
/// # Errors
/// That of a command that can't be sent; a broken connection is the reader's to report.
async fn write_commands(
    to: &mut (impl AsyncWrite + Unpin),
    commands: mpsc::Receiver<SessionCommand>,
) -> Result<()> {
    let mut messages = CommandMessages::new(commands);
    while let Some(message) = messages.next().await? {
        if write_small(to, Kind::Command, message).await.is_err() {
            return Ok(());
        }
    }
    let _ = to.shutdown().await;
    Ok(())
}

/// Serves a session.
pub(super) async fn serve(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    mut reader: FrameReader,
    worker: Arc<dyn WorkerChannel>,
    open: OpenQuery,
    liveness: LivenessConfig,
) -> io::Result<()> {
    let session = match worker.open_query(open).await {
        Ok(session) => session,
        Err(error) => return write_error(to, &error).await,
    };
    let opened = encode_session_message(&SessionMessage::Opened);
    write_small(to, Kind::Event, opened).await?;
    let QuerySession { commands, events } = session;
    // When no more commands come, what the worker says to that is still passed on.
    tokio::select! {
        written = write_events(to, events, liveness) => written,
        Err(error) = read_commands(from, &mut reader, commands) => Err(error),
    }
}

/// Passes commands on until the client sends no more, which is the end of the session or, without
/// a finish, its abort.
///
/// # Errors
/// A broken connection, at which nobody hears more.
async fn read_commands(
    from: &mut (impl AsyncRead + Unpin),
    reader: &mut FrameReader,
    commands: mpsc::Sender<SessionCommand>,
) -> io::Result<()> {
    let invalid = |error: TransportError| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut decoder = CommandDecoder::default();
    while let Some((kind, message)) = reader.next(from).await? {
        if kind != Kind::Command {
            return Err(invalid(unexpected(&format!("a {kind:?} frame among commands"))));
        }
        if let Some(command) = decoder.decode(message).map_err(invalid)?
            && commands.send(command).await.is_err()
        {
            return Ok(());
        }
    }
    Ok(())
}

async fn write_events(
    to: &mut (impl AsyncWrite + Unpin),
    mut events: mpsc::Receiver<SessionEvent>,
    liveness: LivenessConfig,
) -> io::Result<()> {
    loop {
        match timeout(liveness.ping_interval, events.recv()).await {
            Err(_) => write_small(to, Kind::KeepAlive, Bytes::new()).await?,
            Ok(Some(event)) => {
                let event = encode_session_message(&SessionMessage::Event(event));
                write_small(to, Kind::Event, event).await?;
            }
            Ok(None) => return write_small(to, Kind::End, Bytes::new()).await,
        }
    }
}

fn unexpected(what: &str) -> TransportError {
    TransportError::Protocol(format!("the peer sent {what}"))
}
