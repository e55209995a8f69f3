//! The client against servers made by hand.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tokio::io::AsyncWriteExt;

use super::{
    Chunks, Stuck, Written, batch, batch_frames, client, client_of, frame, open_query, request,
};
use crate::budget::NetworkBudget;
use crate::error::TransportError;
use crate::limits::MAX_FRAME_BYTES;
use crate::protocol::{OpenQuery, SessionCommand};
use crate::transport::byte_stream::frame::{Header, Kind, number};
use crate::transport::byte_stream::{Duplex, LivenessConfig};
use crate::transport::{TransportEnv, WorkerChannel};
use crate::wire::{SessionMessage, encode_error, encode_session_message, samples};

#[tokio::test]
async fn a_server_that_sends_without_credit_is_refused_before_its_body_is_read() {
    for kind in [Kind::Data, Kind::TurnData] {
        let env = TransportEnv::default();
        let (channel, mut far) = client(&env);
        let mut stream = channel.fetch(request()).pop().expect("a stream");
        assert!(stream.next().now_or_never().is_none(), "nothing was sent yet");
        let n_bytes = 5 << 20;
        // The header and no body: the answer doesn't wait for it.
        let header = Header { kind, n_bytes }.to_bytes();
        far.write_all(&header).await.expect("an open pipe");
        let error = stream.next().await.expect("an item").expect_err("no credit");
        assert!(matches!(error, TransportError::Protocol(_)), "{error}");
        assert!(env.budget.peak_bytes() < n_bytes);
        drop(stream);
        assert_eq!(env.budget.used_bytes(), 0);
    }
}

#[tokio::test]
async fn a_batch_that_cannot_be_read_is_the_last_item() {
    let good = batch_frames(&[batch()]);
    let payload = &good[5..];
    let after = [payload, &[0; 3][..]].concat();
    let twice = [payload, payload].concat();
    let long_header = [&(1_u32 << 30).to_le_bytes(), &payload[4..]].concat();
    for bad in [b"garbage", &b""[..], &payload[..9], &after, &twice, &long_header] {
        let env = TransportEnv::default();
        let (channel, mut far) = client(&env);
        let mut stream = channel.fetch(request()).pop().expect("a stream");
        assert!(stream.next().now_or_never().is_none(), "nothing was sent yet");
        far.write_all(&good).await.expect("an open pipe");
        far.write_all(&frame(Kind::Data, bad)).await.expect("an open pipe");
        assert_eq!(stream.next().await, Some(Ok(batch())));
        let error = stream.next().await.expect("an item").expect_err("garbage");
        assert!(matches!(error, TransportError::Protocol(_)), "{error}");
        assert_eq!(stream.next().await, None);
        assert_eq!(env.budget.used_bytes(), 0);
    }
}

#[tokio::test]
async fn batches_arrive_whatever_the_chunks_and_a_cut_never_looks_like_the_end() {
    let batches = [100, 0, 1, 65].map(|n_rows| samples::batch(&samples::schema(), n_rows, 7));
    let bytes = [batch_frames(&batches), frame(Kind::End, b"")].concat();
    for n_chunk_bytes in [1, 7, 1200, bytes.len()] {
        for n_bytes in [bytes.len(), bytes.len() - 1, bytes.len() - 5, bytes.len() / 2] {
            let env = TransportEnv::default();
            let chunks = Chunks::of(&bytes[..n_bytes], n_chunk_bytes);
            let channel = client_of(Duplex::new(chunks, Written::default()), &env);
            let stream = channel.fetch(request()).pop().expect("a stream");
            let mut items: Vec<_> = stream.collect().await;
            if n_bytes < bytes.len() {
                let last = items.pop().expect("an item").expect_err("a cut");
                match items.len() {
                    0 => assert!(matches!(last, TransportError::Unavailable { .. }), "{last}"),
                    _ => assert!(matches!(last, TransportError::ConnectionLost { .. }), "{last}"),
                }
            } else {
                assert_eq!(items.len(), batches.len());
            }
            assert!(
                items.into_iter().zip(&batches).all(|(item, batch)| item.as_ref() == Ok(batch))
            );
            assert_eq!(env.budget.used_bytes(), 0);
        }
    }
}

#[tokio::test]
async fn the_first_grant_goes_along_with_the_call() {
    for (n_budget_bytes, grant) in [(64 << 20, Kind::Credit), (0, Kind::Turn)] {
        let env = TransportEnv::new(NetworkBudget::new(n_budget_bytes));
        let written = Written::default();
        let chunks = Chunks::of(b"", 1).without_end();
        let channel = client_of(Duplex::new(chunks, written.clone()), &env);
        let mut stream = channel.fetch(request()).pop().expect("a stream");
        assert!(stream.next().now_or_never().is_none(), "nothing was sent yet");
        assert_eq!(written.blocks().len(), 1);
        let kinds: Vec<_> = written.frames().iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [Kind::Call, grant]);
    }
}

#[tokio::test]
async fn a_wish_above_the_budget_gets_a_turn() {
    let env = TransportEnv::new(NetworkBudget::new(4 << 20));
    let written = Written::default();
    let want = frame(Kind::Want, &number(MAX_FRAME_BYTES));
    let chunks = Chunks::of(&want, want.len()).without_end();
    let channel = client_of(Duplex::new(chunks, written.clone()), &env);
    let mut stream = channel.fetch(request()).pop().expect("a stream");
    assert!(stream.next().now_or_never().is_none(), "nothing was sent yet");
    let kinds: Vec<_> = written.frames().iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [Kind::Call, Kind::Credit, Kind::Turn]);
}

#[tokio::test]
async fn first_commands_go_along_with_the_opening() {
    let env = TransportEnv::default();
    let written = Written::default();
    let chunks = Chunks::of(b"", 1).without_end();
    let channel = client_of(Duplex::new(chunks, written.clone()), &env);
    let first = vec![SessionCommand::Ping(1), SessionCommand::Seal];
    let opening = channel.open_query(OpenQuery { first, ..open_query() });
    assert!(opening.now_or_never().is_none(), "nobody has answered");
    assert_eq!(written.blocks().len(), 1);
    let kinds: Vec<_> = written.frames().iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [Kind::Call, Kind::Command, Kind::Command]);
    assert!(!written.is_finished());
}

#[tokio::test]
async fn the_answer_to_an_opening_does_not_wait_for_its_commands() {
    let opened = frame(Kind::Event, &encode_session_message(&SessionMessage::Opened));
    let refused = frame(Kind::Error, &encode_error(&TransportError::Cancelled));
    for (answer, is_refused) in [(opened, false), (refused, true)] {
        let env = TransportEnv::default();
        let chunks = Chunks::of(&answer, answer.len()).without_end();
        let channel = client_of(Duplex::new(chunks, Stuck), &env);
        let first = vec![SessionCommand::Seal];
        let open = OpenQuery { first, ..open_query() };
        assert_eq!(channel.open_query(open).await.is_err(), is_refused);
    }
}

#[tokio::test]
async fn silence_is_noticed_only_where_the_stream_has_to() {
    let liveness = LivenessConfig { lease: Duration::from_millis(20), ..LivenessConfig::default() };
    let env = TransportEnv::default();
    let silent = |in_band| {
        let (channel, far) = client(&env);
        let channel = channel.with_liveness(LivenessConfig { in_band, ..liveness });
        (channel.fetch(request()).pop().expect("a stream"), far)
    };
    let (mut noticed, _far) = silent(true);
    let (mut unnoticed, mut far) = silent(false);
    assert!(unnoticed.next().now_or_never().is_none(), "nothing was sent yet");
    let error = noticed.next().await.expect("an item").expect_err("silence");
    assert!(matches!(error, TransportError::Unavailable { .. }), "{error}");
    assert!(unnoticed.next().now_or_never().is_none(), "it was not asked to notice");
    far.write_all(&frame(Kind::End, b"")).await.expect("an open pipe");
    assert_eq!(unnoticed.next().await, None);
}

#[tokio::test]
async fn dropped_before_its_end_a_fetch_is_cut() {
    let env = TransportEnv::default();
    let written = Written::default();
    let chunks = Chunks::of(b"", 1).without_end();
    let channel = client_of(Duplex::new(chunks, written.clone()), &env);
    let mut stream = channel.fetch(request()).pop().expect("a stream");
    assert!(stream.next().now_or_never().is_none(), "nothing was sent yet");
    drop(stream);
    assert!(!written.is_finished());
    assert_eq!(Arc::strong_count(&written.0), 1, "the stream is gone");
}
