//! What is left behind.

use futures::{FutureExt, StreamExt};

use crate::conformance::lab::{Lab, check};
use crate::conformance::script::{Gate, Script, Step, numbered};
use crate::conformance::{Fixture, Verdict};
use crate::ids::StageId;
use crate::limits::OUTPUT_WINDOW_BYTES;

/// **C09** Dropping a stream releases its output on the producer promptly, midway and after the last
/// batch; dropped before its first poll it starts nothing; an output released while siblings live is
/// still driven to its first batch or end and then dropped.
pub async fn c09_dropping_a_stream_releases_its_output(fixture: &dyn Fixture) -> Verdict {
    let lab = Lab::start(fixture).await?;
    let gate = Gate::closed();
    let late = Gate::closed();
    let endless =
        vec![Step::Batch(numbered(0)), Step::Wait(gate.clone()), Step::Batch(numbered(1))];
    let mut slow = vec![Step::Wait(late.clone())];
    slow.extend((0..OUTPUT_WINDOW_BYTES / 80).map(|nth| Step::Batch(numbered(nth))));
    let outputs = vec![endless.clone(), endless, slow];
    let script = Script::new(numbered(0).schema(), outputs);
    let query = lab.run(&script).await?;

    let unpolled = query.fetch([0])?;
    drop(unpolled);
    lab.settle().await?;
    check!(
        script.executed(0) == 0,
        "a stream that was dropped before its first poll started the task"
    );

    let [mut kept, mut midway, mut early] = query.fetch([0, 1, 2])?;
    lab.batch(&mut kept).await?;
    lab.batch(&mut midway).await?;
    // Polls until the worker has heard of it; its first batch is behind a gate.
    for _ in 0..20 {
        check!(early.next().now_or_never().is_none(), "a batch came out of a closed gate");
        lab.settle().await?;
    }
    drop(midway);
    lab.until("the release of an output that was dropped midway", || script.dropped(1) == 1)
        .await?;

    drop(early);
    lab.settle().await?;
    check!(script.dropped(2) == 0, "a released output wasn't driven to its first batch");
    late.open();
    lab.until("the release of an output after its first batch", || script.dropped(2) == 1).await?;
    let produced = script.produced(2);
    check!(produced == 1, "a released output was driven to {produced} batches");

    check!(script.dropped(0) == 0, "the output that is read was dropped with its siblings");
    gate.open();
    lab.batch(&mut kept).await?;
    drop(kept);
    lab.until("the end of the task", || lab.worker.stats().tasks == 0).await?;
    parked_streams_are_released(&lab).await
}

/// Dropped while it waits for its task, too.
async fn parked_streams_are_released(lab: &Lab) -> Verdict {
    let steps = vec![Step::Batch(numbered(0)), Step::Wait(Gate::closed())];
    let script = Script::new(numbered(0).schema(), vec![steps.clone(), steps]);
    let query = lab.open().await?;
    let [mut kept, mut parked] = query.fetch([0, 1])?;
    // Polls until the worker has heard of it.
    for _ in 0..20 {
        for stream in [&mut kept, &mut parked] {
            check!(stream.next().now_or_never().is_none(), "a batch of a task that isn't there");
        }
        lab.settle().await?;
    }
    drop(parked);
    lab.settle().await?;
    query.add(StageId(1), &script).await?;
    query.seal().await?;
    lab.batch(&mut kept).await?;
    lab.until("the release of an output that was dropped early", || script.dropped(1) == 1).await
}

/// **C10** Soon after the last stream and session nothing is left: no reservation, no task, no
/// spawned task beyond those of an idle channel.
pub async fn c10_nothing_is_left(fixture: &dyn Fixture) -> Verdict {
    let lab = Lab::start(fixture).await?;
    lab.settle().await?;
    lab.until_idle().await?;
    let n_idle = lab.n_alive_tasks();
    let steps = || (0..200).map(|nth| Step::Batch(numbered(nth)));
    let stalled = || steps().chain([Step::Wait(Gate::closed())]).collect();
    for round in 0..4 {
        let script = match round {
            0 => Script::new(numbered(0).schema(), vec![steps().collect(), steps().collect()]),
            _ => Script::new(numbered(0).schema(), vec![stalled(), stalled()]),
        };
        let mut query = lab.run(&script).await?;
        let [mut first, mut second] = query.fetch([0, 1])?;
        lab.batch(&mut first).await?;
        lab.batch(&mut second).await?;
        match round {
            // Read to the end and finished; given up but finished; aborted by its session; aborted
            // by one half of it, with streams that nobody polls any more.
            0 => {
                lab.all(&mut first).await?;
                lab.all(&mut second).await?;
                let reports = query.finish().await?;
                check!(reports.len() == 1, "{} reports of one task", reports.len());
                drop((first, second, query));
            }
            1 => {
                drop((first, second));
                query.finish().await?;
                drop(query);
            }
            2 => {
                drop(query);
                drop((first, second));
            }
            _ => {
                drop(query.session.events);
                lab.until("the end of the query", || lab.worker.stats().queries == 0).await?;
                drop((first, second));
            }
        }
        lab.until_idle().await?;
        let at_rest = lab.until("an idle channel", || lab.n_alive_tasks() <= n_idle).await;
        at_rest.map_err(|failure| {
            format!(
                "{failure}: {} spawned tasks instead of {n_idle}, round {round}",
                lab.n_alive_tasks()
            )
        })?;
    }
    Ok(())
}
