//! Both sides of a control session.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::fetch::Link;
use super::frame::Kind;
use super::read::FrameReader;
use super::write::FrameWriter;
use super::{CUT, Duplex, LivenessConfig, broken, lost, silent_for};
use crate::error::{Result, TransportError};
use crate::protocol::{OpenQuery, QuerySession, SessionCommand, SessionEvent};
use crate::transport::{CommandMessages, WorkerChannel};
use crate::wire::{
    Call, CommandDecoder, SessionMessage, decode_error, decode_session_message, encode_call,
    encode_error, encode_session_message,
};

/// Opens a session from the client's side.
pub(super) async fn open(link: &Link, stream: Duplex, mut open: OpenQuery) -> Result<QuerySession> {
    let lease = link.liveness.lease;
    let (session, peer) = QuerySession::pair();
    let first = std::mem::take(&mut open.first);
    let mut to = FrameWriter::new(stream.to);
    to.put(Kind::Call, &encode_call(&Call::OpenQuery(open)));
    let messages = CommandMessages::new(peer.commands).with_first(first);
    let mut commands = Commands { to, messages };
    let mut events = Events { link: link.clone(), from: FrameReader::new(stream.from) };
    // The call and the first commands are written while the answer is waited for, which may be that
    // nobody reads them.
    let opened = async {
        tokio::select! {
            opened = events.opened() => opened,
            Err(error) = commands.write() => Err(error),
        }
    };
    let opened = timeout(lease, opened).await;
    opened.unwrap_or_else(|_| Err(lost(&link.worker, false, silent_for(lease))))?;
    let run = run_client(events, commands, peer.events);
    // Detached: it ends with the session's halves, which the caller owns.
    drop(link.io.spawn(run));
    Ok(session)
}

async fn run_client(mut from: Events, mut to: Commands, events: mpsc::Sender<SessionEvent>) {
    // When all commands are written, the peer's last event is still waited for.
    let ended = tokio::select! {
        ended = from.pass(&events) => ended,
        Err(error) = to.write() => Err(error),
        // The caller has dropped the events' half, which ends the session.
        () = events.closed() => return,
    };
    if let Err(error) = ended {
        let _ = events.send(SessionEvent::Failed(error)).await;
    }
}

/// What the client hears.
struct Events {
    link: Link,
    from: FrameReader,
}

impl Events {
    /// Waits for the answer to the opening.
    async fn opened(&mut self) -> Result<()> {
        match self.next(false).await? {
            Some(SessionMessage::Opened) => Ok(()),
            Some(SessionMessage::Event(_)) => {
                Err(unexpected("an event before the session was open"))
            }
            None => Err(unexpected("an end before the session was open")),
        }
    }

    /// Passes events on until the end frame.
    async fn pass(&mut self, events: &mpsc::Sender<SessionEvent>) -> Result<()> {
        while let Some(message) = self.next(true).await? {
            let SessionMessage::Event(event) = message else {
                return Err(unexpected("a second opening of a session"));
            };
            if events.send(event).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The next message, or none after the end frame.
    async fn next(&mut self, is_open: bool) -> Result<Option<SessionMessage>> {
        loop {
            match self.frame(is_open).await? {
                (Kind::KeepAlive, _) => {}
                (Kind::Event, event) => return decode_session_message(event).map(Some),
                (Kind::Error, error) => return Err(decode_error(&error)),
                (Kind::End, _) => return Ok(None),
                (other, _) => return Err(unexpected(&format!("a {other:?} frame in a session"))),
            }
        }
    }

    async fn frame(&mut self, is_open: bool) -> Result<(Kind, Bytes)> {
        let LivenessConfig { lease, in_band, .. } = self.link.liveness;
        loop {
            self.from.take_progress();
            let frame = match is_open && in_band {
                true => timeout(lease, self.from.next()).await,
                false => Ok(self.from.next().await),
            };
            let worker = &self.link.worker;
            return match frame {
                Ok(Ok(Some(frame))) => Ok(frame),
                Ok(Ok(None)) => Err(lost(worker, is_open, CUT)),
                Ok(Err(error)) => Err(broken(worker, is_open, &error)),
                Err(_) if self.from.take_progress() => continue,
                Err(_) => Err(lost(worker, is_open, silent_for(lease))),
            };
        }
    }
}

/// What the client says.
struct Commands {
    to: FrameWriter,
    messages: CommandMessages,
}

impl Commands {
    /// Passes commands on, those that are there together; the end of the commands is the end of
    /// what is written. Cancel-safe.
    ///
    /// # Errors
    /// That of a command that can't be sent; a broken stream is the reader's to report.
    async fn write(&mut self) -> Result<()> {
        loop {
            let message = match self.messages.next().now_or_never() {
                Some(message) => message?,
                None => {
                    if self.to.flush().await.is_err() {
                        return Ok(());
                    }
                    self.messages.next().await?
                }
            };
            let Some(message) = message else {
                let _ = self.to.finish().await;
                return Ok(());
            };
            self.to.put(Kind::Command, &message);
            if self.to.write_full().await.is_err() {
                return Ok(());
            }
        }
    }
}

/// Serves a session.
pub(super) async fn serve(
    from: &mut FrameReader,
    to: &mut FrameWriter,
    worker: Arc<dyn WorkerChannel>,
    open: OpenQuery,
    liveness: LivenessConfig,
) -> io::Result<()> {
    let session = match worker.open_query(open).await {
        Ok(session) => session,
        Err(error) => return to.send(Kind::Error, &encode_error(&error)).await,
    };
    to.send(Kind::Event, &encode_session_message(&SessionMessage::Opened)).await?;
    let QuerySession { commands, events } = session;
    // When no more commands come, what the worker says to that is still passed on.
    tokio::select! {
        written = write_events(to, events, liveness) => written,
        Err(error) = read_commands(from, commands) => Err(error),
    }
}

/// Passes commands on until the client sends no more, which is the end of the session or, without
/// a finish, its abort.
///
/// # Errors
/// A broken stream, at which nobody hears more.
async fn read_commands(
    from: &mut FrameReader,
    commands: mpsc::Sender<SessionCommand>,
) -> io::Result<()> {
    let invalid = |error: TransportError| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut decoder = CommandDecoder::default();
    while let Some((kind, message)) = from.next().await? {
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
    to: &mut FrameWriter,
    mut events: mpsc::Receiver<SessionEvent>,
    liveness: LivenessConfig,
) -> io::Result<()> {
    loop {
        let event = match liveness.in_band {
            true => timeout(liveness.ping_interval, events.recv()).await,
            false => Ok(events.recv().await),
        };
        match event {
            Err(_) => to.send(Kind::KeepAlive, &[]).await?,
            Ok(Some(event)) => {
                let event = encode_session_message(&SessionMessage::Event(event));
                to.send(Kind::Event, &event).await?;
            }
            Ok(None) => return to.send(Kind::End, &[]).await,
        }
    }
}

fn unexpected(what: &str) -> TransportError {
    TransportError::Protocol(format!("the peer sent {what}"))
}
