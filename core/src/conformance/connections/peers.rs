//! Who is at the other end.

use std::sync::Arc;

use futures::StreamExt;

use super::Link;
use crate::conformance::lab::check;
use crate::conformance::probe::Probe;
use crate::conformance::streams::{batch, one_batch_each};
use crate::conformance::{Fixture, Verdict};
use crate::error::TransportError;
use crate::ids::QueryId;
use crate::protocol::{OpenQuery, Peer};
use crate::transport::TransportEnv;

/// The server says who asks, whatever the caller says: an address of loopback, and the
/// [names](Fixture::peer_names) of the client's certificate.
pub async fn the_server_says_who_asks(fixture: &dyn Fixture) -> Verdict {
    let probe = Arc::new(Probe::new(one_batch_each()));
    let (_server, link) = Link::open(fixture, Arc::clone(&probe) as _).await?;
    let names = vec!["somebody else".to_owned()];
    let pretended = Some(Peer { address: None, names });
    let open = OpenQuery { peer: pretended, ..OpenQuery::new(QueryId::random()) };
    let answer = link.within("the answer", link.channel.open_query(open)).await?;
    let is_draining = matches!(answer, Err(TransportError::Draining { .. }));
    check!(is_draining, "a draining worker gave another answer: {answer:?}");
    let peer = probe.last_opened().and_then(|open| open.peer);
    let peer = peer.ok_or_else(|| "the server says nothing of who asks".to_owned())?;
    let is_near = peer.address.is_some_and(|address| address.ip().is_loopback());
    check!(is_near, "another address than the client's: {peer:?}");
    check!(peer.names == fixture.peer_names(), "other names than the client's: {peer:?}");
    Ok(())
}

/// A worker that was restarted at its address is reached again over the same channel.
pub async fn a_worker_that_was_restarted_is_reached_again(fixture: &dyn Fixture) -> Verdict {
    let (first, link) = Link::open(fixture, one_batch_each()).await?;
    let url = first.urls()[0].clone();
    let before = link.channel.info().await?.incarnation;
    link.within("the shutdown", first.shutdown()).await?;
    let (transport, env) = (fixture.transport(), TransportEnv::default());
    let _second = transport.serve(&url, one_batch_each(), &env).await?;
    // The first call may be what notices that the old connection is gone.
    let mut answer = link.channel.info().await;
    for _ in 0..3 {
        if answer.is_err() {
            answer = link.channel.info().await;
        }
    }
    check!(answer?.incarnation != before, "the old worker still answers");
    let mut stream = link.stream()?;
    let first = link.within("a batch", stream.next()).await?;
    check!(first == Some(Ok(batch())), "another batch than the worker's: {first:?}");
    Ok(())
}
