//! Sends everything through the wire encoding, without a wire.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::config::Compression;
use crate::error::{Result, TransportError};
use crate::protocol::{
    FetchRequest, OpenQuery, QuerySession, SessionCommand, SessionEvent, SessionPeer, WorkerInfo,
};
use crate::transport::{BatchStream, WorkerChannel};
use crate::wire::{
    BatchDecoder, BatchEncoder, Call, CommandDecoder, SessionMessage, decode_call, decode_error,
    decode_info, decode_session_message, encode_call, encode_command, encode_error, encode_info,
    encode_session_message,
};

/// Encodes and decodes every message and batch, so that what can't travel shows in one process.
#[derive(Debug)]
pub struct EncodedChannel {
    inner: Arc<dyn WorkerChannel>,
}

impl EncodedChannel {
    /// Wraps a channel.
    pub fn new(inner: Arc<dyn WorkerChannel>) -> Self {
        Self { inner }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl WorkerChannel for EncodedChannel {
    async fn open_query(&self, open: OpenQuery) -> Result<QuerySession> {
        let first = commands_through_wire(open.first.clone())?;
        let peer = open.peer.clone();
        let Call::OpenQuery(open) = decode_call(encode_call(&Call::OpenQuery(open)))? else {
            return Err(TransportError::internal("a call became another one"));
        };
        let open = OpenQuery { first, peer, ..open };
        let inner = self.inner.open_query(open).await.map_err(through_wire)?;
        let (session, outer) = QuerySession::pair();
        let (commands, events) = pumps(inner, outer);
        // Detached: each ends with the session's halves, which the caller owns.
        let runtime = Handle::current();
        drop(runtime.spawn(commands));
        drop(runtime.spawn(events));
        Ok(session)
    }

    fn fetch(&self, request: FetchRequest) -> Vec<BatchStream> {
        let n_outputs = request.outputs.len();
        let compression = request.compression;
        match decode_call(encode_call(&Call::Fetch(request))) {
            Ok(Call::Fetch(request)) => {
                let streams = self.inner.fetch(request).into_iter();
                streams.map(|stream| encoded_stream(stream, compression)).collect()
            }
            Ok(_) => {
                failed_streams(n_outputs, &TransportError::internal("a call became another one"))
            }
            Err(error) => failed_streams(n_outputs, &error),
        }
    }

    async fn info(&self) -> Result<WorkerInfo> {
        decode_info(encode_info(&self.inner.info().await.map_err(through_wire)?))
    }
}

fn commands_through_wire(commands: Vec<SessionCommand>) -> Result<Vec<SessionCommand>> {
    let mut decoder = CommandDecoder::default();
    let mut arrived = Vec::with_capacity(commands.len());
    for command in commands {
        for message in encode_command(command)? {
            arrived.extend(decoder.decode(message)?);
        }
    }
    Ok(arrived)
}

fn through_wire(error: TransportError) -> TransportError {
    decode_error(&encode_error(&error))
}

fn failed_streams(n_outputs: usize, error: &TransportError) -> Vec<BatchStream> {
    let failed = || -> BatchStream { Box::pin(futures::stream::iter([Err(error.clone())])) };
    std::iter::repeat_with(failed).take(n_outputs).collect()
}

fn encoded_stream(inner: BatchStream, compression: Compression) -> BatchStream {
    let mut encoder = BatchEncoder::new(compression);
    let mut decoder = BatchDecoder::new();
    let through = move |item: Result<_>| {
        let batch = item.map_err(through_wire)?;
        decoder.decode(encoder.encode(&batch)?)
    };
    // The first error is the last item, also where it is the encoding's.
    let until_error = inner.map(through).scan(false, |is_over, item| {
        let item = (!*is_over).then_some(item);
        *is_over = matches!(item, None | Some(Err(_)));
        std::future::ready(item)
    });
    Box::pin(until_error)
}

/// The two directions of a session, each of which ends with the half that it reads from or writes
/// to.
fn pumps(
    inner: QuerySession,
    outer: SessionPeer,
) -> (impl Future<Output = ()>, impl Future<Output = ()>) {
    let failures = outer.events.clone();
    let commands = async move {
        let ended = pump_commands(outer.commands, inner.commands).await;
        if let Err(error) = ended {
            // Nobody may be there to hear it.
            let _ = failures.try_send(SessionEvent::Failed(error));
        }
    };
    (commands, pump_events(inner.events, outer.events))
}

async fn pump_commands(
    mut from: mpsc::Receiver<SessionCommand>,
    to: mpsc::Sender<SessionCommand>,
) -> Result<()> {
    let mut decoder = CommandDecoder::default();
    loop {
        let command = tokio::select! {
            command = from.recv() => command,
            () = to.closed() => return Ok(()),
        };
        let Some(command) = command else { return Ok(()) };
        for message in encode_command(command)? {
            if let Some(command) = decoder.decode(message)?
                && to.send(command).await.is_err()
            {
                return Ok(());
            }
        }
    }
}

async fn pump_events(mut from: mpsc::Receiver<SessionEvent>, to: mpsc::Sender<SessionEvent>) {
    loop {
        let event = tokio::select! {
            event = from.recv() => event,
            () = to.closed() => return,
        };
        let Some(event) = event else { return };
        let event = match decode_session_message(encode(event)) {
            Ok(SessionMessage::Event(event)) => event,
            Ok(SessionMessage::Opened) => continue,
            Err(error) => SessionEvent::Failed(error),
        };
        if to.send(event).await.is_err() {
            return;
        }
    }
}

fn encode(event: SessionEvent) -> Bytes {
    encode_session_message(&SessionMessage::Event(event))
}
