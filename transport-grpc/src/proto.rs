//! The messages of our own service; `proto/tributary_grpc.proto` describes them for other programs.
//!
//! What `core` encodes is embedded as bytes, which on the wire is the same as an embedded message.

use bytes::Bytes;

/// Client to worker, in every call.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Up {
    #[prost(oneof = "UpKind", tags = "1, 2, 3, 4, 5")]
    pub(crate) kind: Option<UpKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum UpKind {
    /// What is asked for; the first message, and only that.
    #[prost(bytes = "bytes", tag = "1")]
    Call(Bytes),
    /// A command of a session.
    #[prost(bytes = "bytes", tag = "2")]
    Command(Bytes),
    /// Bytes that the worker may send of an output.
    #[prost(message, tag = "3")]
    Credit(Credit),
    /// One message of any length that the worker may send of this output: its reader waits.
    #[prost(uint32, tag = "4")]
    Turn(u32),
    /// Nobody will read this output.
    #[prost(uint32, tag = "5")]
    Release(u32),
}

/// Outputs are numbered by their place in the request.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct Credit {
    #[prost(uint32, tag = "1")]
    pub(crate) output: u32,
    #[prost(uint64, tag = "2")]
    pub(crate) n_bytes: u64,
}

/// Worker to client, in a session.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Down {
    #[prost(oneof = "DownKind", tags = "1, 2, 3")]
    pub(crate) kind: Option<DownKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum DownKind {
    #[prost(bytes = "bytes", tag = "1")]
    Event(Bytes),
    /// Why nothing follows.
    #[prost(bytes = "bytes", tag = "2")]
    Error(Bytes),
    /// Nothing follows, and all was well.
    #[prost(message, tag = "3")]
    End(Nothing),
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct Nothing {}

/// What a `FlightData` message of a fetch is about: its `app_metadata`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FrameMeta {
    #[prost(uint32, tag = "1")]
    pub(crate) output: u32,
    #[prost(oneof = "FrameKind", tags = "2, 3, 4, 5, 6, 7")]
    pub(crate) kind: Option<FrameKind>,
    /// As many bytes as bring a body to an aligned place of its frame.
    #[prost(bytes = "bytes", tag = "8")]
    pub(crate) padding: Bytes,
}

impl FrameMeta {
    pub(crate) fn new(output: u32, kind: FrameKind) -> Self {
        Self { output, kind: Some(kind), padding: Bytes::new() }
    }
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum FrameKind {
    /// The first message of a batch: the bytes of all its messages, headers and bodies, which are
    /// paid from the credit.
    #[prost(uint64, tag = "2")]
    Batch(u64),
    /// The same, paid with the reader's turn.
    #[prost(uint64, tag = "3")]
    TurnBatch(u64),
    /// A further message of the batch.
    #[prost(message, tag = "4")]
    More(Nothing),
    /// The length of a batch for which the credit doesn't suffice.
    #[prost(uint64, tag = "5")]
    Want(u64),
    /// Why nothing of this output follows.
    #[prost(bytes = "bytes", tag = "6")]
    Error(Bytes),
    /// Nothing of this output follows, and all was well.
    #[prost(message, tag = "7")]
    End(Nothing),
}

/// A ticket of `DoGet`, after its prefix.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Ticket {
    /// A fetch, encoded as `core` does.
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) call: Bytes,
    /// The plan's schema, as an empty batch.
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) schema: Bytes,
}

/// `arrow.flight.protocol.Ticket`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FlightTicket {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) ticket: Bytes,
}
