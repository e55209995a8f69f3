//! What is dropped before its end: streams and servers.

use datafusion::common::runtime::JoinSet;
use futures::stream::select_all;
use futures::{FutureExt, StreamExt};

use super::Link;
use crate::conformance::lab::check;
use crate::conformance::streams::{Endless, request};
use crate::conformance::{Fixture, Verdict};
use crate::error::TransportError;

/// The connection bears ten thousand streams that are dropped midway, and so do the streams on it.
pub async fn ten_thousand_streams_dropped_midway_leave_the_connection_alive(
    fixture: &dyn Fixture,
) -> Verdict {
    let endless = Endless::default();
    let (_server, link) = Link::open(fixture, endless.worker()).await?;
    let incarnation = link.channel.info().await?.incarnation;
    let mut kept = link.stream()?;
    link.batch(&mut kept).await?;
    for _ in 0..100 {
        let mut readers = JoinSet::new();
        for _ in 0..100 {
            let mut stream = link.stream()?;
            readers.spawn(async move { stream.next().await.map(|batch| batch.map(drop)) });
        }
        for read in link.within("a hundred batches", readers.join_all()).await? {
            read.ok_or_else(|| "a stream without an end has ended".to_owned())??;
        }
    }
    // The stream that was there before them would have ended with its connection.
    link.batch(&mut kept).await?;
    let still = link.channel.info().await?.incarnation;
    check!(still == incarnation, "the channel leads to another worker");
    drop(kept);
    link.within("the end of all streams", endless.fewer_than(1)).await
}

/// A dropped stream stops its sender at once, and no sibling.
pub async fn a_dropped_stream_stops_its_sender_at_once(fixture: &dyn Fixture) -> Verdict {
    let endless = Endless::default();
    let (_server, link) = Link::open(fixture, endless.worker()).await?;
    // One output alone, and one of two whose sibling is still read.
    for n_outputs in 1..=2 {
        let mut streams = link.channel.fetch(request(0..n_outputs));
        for stream in &mut streams {
            link.batch(stream).await?;
        }
        let dropped = streams.pop();
        let n_alive = endless.n_alive();
        drop(dropped);
        link.within("the release", endless.fewer_than(n_alive)).await?;
        if let Some(sibling) = streams.last_mut() {
            for _ in 0..100 {
                link.batch(sibling).await?;
            }
        }
        drop(streams);
        link.within("the release of the rest", endless.fewer_than(1)).await?;
        let n_produced = endless.n_produced();
        link.channel.info().await?;
        check!(endless.n_produced() == n_produced, "batches were made after the drop");
    }
    Ok(())
}

/// A stalled output leaves its siblings alone, for longer than any window of the connection.
pub async fn a_stalled_output_leaves_its_siblings_alone(fixture: &dyn Fixture) -> Verdict {
    let endless = Endless::default();
    let (_server, link) = Link::open(fixture, endless.worker()).await?;
    let mut streams = link.channel.fetch(request(0..8));
    let mut stalled = streams.pop().ok_or_else(|| "a fetch without streams".to_owned())?;
    link.batch(&mut stalled).await?;
    let mut others = select_all(streams);
    for _ in 0..2000 {
        match link.within("a batch of a sibling", others.next()).await? {
            Some(batch) => drop(batch?),
            None => return Err("all siblings have ended".to_owned().into()),
        }
    }
    let last = others.next().now_or_never();
    check!(last.is_none_or(|item| item.is_some()), "a sibling has ended");
    link.batch(&mut stalled).await
}

/// A server that is shut down cuts its connections, and they never look like the end.
pub async fn a_shut_down_server_cuts_its_connections(fixture: &dyn Fixture) -> Verdict {
    let endless = Endless::default();
    let (server, link) = Link::open(fixture, endless.worker()).await?;
    let url = server.urls()[0].to_string();
    let mut stream = link.stream()?;
    link.batch(&mut stream).await?;
    link.within("the shutdown", server.shutdown()).await?;
    let error = loop {
        match link.within("the error", stream.next()).await? {
            Some(Ok(_)) => {}
            Some(Err(error)) => break error,
            None => return Err("a lost connection looks like the end".to_owned().into()),
        }
    };
    let is_lost = matches!(&error, TransportError::ConnectionLost { worker, .. } if *worker == url);
    check!(is_lost, "a server that was shut down gave another error: {error}");
    drop(stream);
    link.within("the release", endless.fewer_than(1)).await
}
