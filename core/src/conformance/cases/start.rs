//! When work begins, and how it is waited for.

use std::pin::pin;

use futures::future::{Either, join, select};
use futures::{FutureExt, StreamExt};

use crate::conformance::lab::{Lab, MESSAGE_BYTES, check};
use crate::conformance::script::{Gate, Script, Step, long_rows, numbered};
use crate::conformance::{Fixture, Verdict};
use crate::limits::OUTPUT_WINDOW_BYTES;

/// **C01** `fetch` does no I/O; nothing is requested of a task before the first poll of one of its
/// streams; then the worker drives all of the task's partitions, each up to its bound.
pub async fn c01_nothing_is_requested_before_the_first_poll(fixture: &dyn Fixture) -> Verdict {
    let lab = Lab::start(fixture).await?;
    let batch = long_rows(1, MESSAGE_BYTES - 1024);
    let n_batches = 4 * OUTPUT_WINDOW_BYTES / MESSAGE_BYTES;
    let steps = vec![Step::Batch(batch.clone()); n_batches];
    let script = Script::new(batch.schema(), vec![steps.clone(), steps]);
    let query = lab.run(&script).await?;
    let [mut first, second] = query.fetch([0, 1])?;
    lab.settle().await?;
    check!(
        script.executed(0) + script.executed(1) == 0,
        "the task was started by the fetch itself"
    );

    lab.batch(&mut first).await?;
    lab.until("the start of the output that isn't polled", || script.executed(1) == 1).await?;
    lab.until("its batches", || script.produced(1) > 0).await?;
    let produced = lab.at_rest(|| script.produced(1)).await?;
    check!(produced < n_batches, "an output that nobody reads was filled with {produced} batches");
    check!(script.executed(0) == 1, "the polled output was executed {} times", script.executed(0));
    drop((first, second));
    Ok(())
}

/// **C11** `next()` of a stream is cancel-safe.
pub async fn c11_next_is_cancel_safe(fixture: &dyn Fixture) -> Verdict {
    let lab = Lab::start(fixture).await?;
    let n_batches = 200;
    let gate = Gate::closed();
    let mut steps = vec![Step::Wait(gate.clone())];
    steps.extend((0..n_batches).map(|nth| Step::Batch(numbered(nth))));
    let script = Script::new(numbered(0).schema(), vec![steps]);
    let query = lab.run(&script).await?;
    let [mut stream] = query.fetch([0])?;
    // With a waker that wakes nobody: the one of the last poll counts.
    check!(stream.next().now_or_never().is_none(), "a batch came out of a closed gate");
    lab.until("the start of the task", || {
        stream.next().now_or_never().is_some() || script.executed(0) == 1
    })
    .await?;
    // Now with one that does, before there is anything to wake for.
    let open = async {
        lab.settle().await?;
        gate.open();
        Verdict::Ok(())
    };
    let (first, opened) = lab.within("the first batch", join(stream.next(), open)).await?;
    opened?;

    let mut received: Vec<_> = first.into_iter().collect();
    let receive = async {
        loop {
            // Every other wait is given up as soon as it is one.
            let next = pin!(stream.next());
            let given_up = pin!(tokio::task::yield_now());
            let item = match select(next, given_up).await {
                Either::Left((item, _)) => item,
                Either::Right(_) => stream.next().await,
            };
            match item {
                Some(item) => received.push(item),
                None => break,
            }
        }
    };
    lab.within("all batches", receive).await?;
    check!(received.len() == n_batches, "{} of {n_batches} batches arrived", received.len());
    for (nth, batch) in received.into_iter().enumerate() {
        check!(batch? == numbered(nth), "another batch in the place of number {nth}");
    }
    Ok(())
}
