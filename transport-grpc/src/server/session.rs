//! The server's side of a control session, and the answer to `info`.

use std::sync::Arc;

use bytes::Bytes;
use datafusion_tributary_core::error::{Result, TransportError};
use datafusion_tributary_core::limits::{LEASE, MAX_CONTROL_BYTES};
use datafusion_tributary_core::protocol::{
    OpenQuery, Peer, QuerySession, SessionCommand, SessionEvent,
};
use datafusion_tributary_core::wire::{
    Call, CommandDecoder, SessionMessage, decode_call, encode_error, encode_info,
    encode_session_message,
};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::Serving;
use super::body::{Incoming, Outgoing};
use crate::frame::{self, protocol};
use crate::proto::{Down, DownKind, Nothing, UpKind};

/// Answers with what the worker says of itself.
pub(super) async fn serve_info(serving: Arc<Serving>, out: Outgoing) {
    let answer = match serving.worker.info().await {
        Ok(info) => Ok(DownKind::Event(encode_info(&info))),
        Err(error) => Err(error),
    };
    finish(&out, answer).await;
}

/// Serves a session until either side ends it.
pub(super) async fn serve(
    serving: Arc<Serving>,
    peer: Option<Peer>,
    mut incoming: Incoming,
    out: Outgoing,
) {
    let ended = match open(&serving, peer, &mut incoming).await {
        Ok(session) => run(session, incoming, &out).await,
        Err(error) => Err(error),
    };
    finish(&out, ended.map(|()| DownKind::End(Nothing {}))).await;
}

async fn open(
    serving: &Serving,
    peer: Option<Peer>,
    incoming: &mut Incoming,
) -> Result<QuerySession> {
    match first_call(incoming).await? {
        Call::OpenQuery(open) => serving.worker.open_query(OpenQuery { peer, ..open }).await,
        _ => Err(protocol("another call than that of the method")),
    }
}

/// The call that a request begins with. A client that opens a call and says nothing doesn't keep it.
pub(super) async fn first_call(incoming: &mut Incoming) -> Result<Call> {
    let first = timeout(LEASE, incoming.next(MAX_CONTROL_BYTES)).await;
    match first.unwrap_or(Ok(None))? {
        Some(UpKind::Call(call)) => decode_call(call),
        Some(_) => Err(protocol("a request that doesn't begin with its call")),
        None => Err(protocol("a request without its call")),
    }
}

async fn run(session: QuerySession, incoming: Incoming, out: &Outgoing) -> Result<()> {
    let QuerySession { commands, events } = session;
    send(out, DownKind::Event(encode_session_message(&SessionMessage::Opened))).await;
    // When no more commands come, what the worker says to that is still passed on.
    tokio::select! {
        () = send_events(events, out) => Ok(()),
        Err(error) = receive_commands(incoming, commands) => Err(error),
    }
}

/// Passes commands on until the client sends no more, which is the end of the session or, without a
/// finish, its abort.
async fn receive_commands(
    mut incoming: Incoming,
    commands: mpsc::Sender<SessionCommand>,
) -> Result<()> {
    let mut decoder = CommandDecoder::default();
    while let Some(message) = incoming.next(MAX_CONTROL_BYTES).await? {
        let UpKind::Command(command) = message else {
            return Err(protocol("something else among the commands of a session"));
        };
        if let Some(command) = decoder.decode(command)?
            && commands.send(command).await.is_err()
        {
            return Ok(());
        }
    }
    Ok(())
}

async fn send_events(mut events: mpsc::Receiver<SessionEvent>, out: &Outgoing) {
    while let Some(event) = events.recv().await {
        let event = encode_session_message(&SessionMessage::Event(event));
        if !send(out, DownKind::Event(event)).await {
            return;
        }
    }
}

async fn send(out: &Outgoing, kind: DownKind) -> bool {
    out.send(message(kind)).await
}

/// The last message and the trailers.
async fn finish(out: &Outgoing, answer: Result<DownKind, TransportError>) {
    let error = answer.as_ref().err().cloned();
    let last = answer.unwrap_or_else(|error| DownKind::Error(encode_error(&error)));
    if send(out, last).await {
        out.end(error.as_ref()).await;
    }
}

fn message(kind: DownKind) -> Bytes {
    frame::message(&Down { kind: Some(kind) })
}
