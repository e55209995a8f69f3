//! Which fetch finds which output.

use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt};

use crate::conformance::lab::{Lab, Settings, check, fetch};
use crate::conformance::script::{Gate, Script, Step, numbered};
use crate::conformance::{Fixture, Verdict};
use crate::error::TransportError;
use crate::ids::{QueryId, StageId, TaskId};
use crate::protocol::FetchRequest;
use crate::transport::BatchStream;

/// **C14** An output belongs to the first fetch that polls it; a later one is `AlreadyConsumed`.
pub async fn c14_an_output_belongs_to_the_first_fetch_that_polls_it(
    fixture: &dyn Fixture,
) -> Verdict {
    let lab = Lab::start(fixture).await?;
    let gate = Gate::closed();
    let first = vec![Step::Batch(numbered(0)), Step::Wait(gate.clone()), Step::Batch(numbered(1))];
    let stalled = vec![Step::Wait(Gate::closed())];
    let script = Script::new(numbered(0).schema(), vec![first, stalled]);
    let query = lab.run(&script).await?;
    // The order of the fetches doesn't count, that of the polls does.
    let [mut second] = query.fetch([0])?;
    let [mut first] = query.fetch([0])?;
    lab.batch(&mut first).await?;
    let consumed = |error: &TransportError| matches!(error, TransportError::AlreadyConsumed(_));
    let error = lab.error(&mut second).await?;
    check!(consumed(&error), "a second fetch gave another error: {error}");
    check!(script.executed(0) == 1, "the output was executed {} times", script.executed(0));

    gate.open();
    let rest = lab.all(&mut first).await?;
    check!(rest == [numbered(1)], "the first fetch suffered from the second");
    let [mut third] = query.fetch([0])?;
    let error = lab.error(&mut third).await?;
    check!(consumed(&error), "a fetch after the end gave another error: {error}");
    check!(script.executed(0) == 1, "the output was executed again");
    Ok(())
}

/// **C15** Outside a sealed query's task list: `NotFound` at once; unknown or unsealed query: parked
/// for at most the deadline or `plan_wait`, then `NotFound` naming the stage; ended query:
/// `QueryEnded` at once; parking cap reached: `Overloaded`.
pub async fn c15_tasks_that_are_not_there_are_told_apart(fixture: &dyn Fixture) -> Verdict {
    // So long that what comes within the case's patience comes at once.
    let settings =
        Settings { plan_wait: Duration::from_secs(3600), max_parked: 2, ..Settings::default() };
    let lab = Lab::with(fixture, settings).await?;
    at_once(&lab).await?;
    parked(&lab).await?;

    let settings = Settings { plan_wait: Duration::from_millis(50), ..Settings::default() };
    let lab = Lab::with(fixture, settings).await?;
    let query = lab.open().await?;
    for request in
        [query.request(StageId(77), &[0]), unknown_query(&query.request(StageId(77), &[0]))]
    {
        let [mut stream] = fetch(lab.channel.as_ref(), request)?;
        let error = lab.error(&mut stream).await?;
        check!(is_not_found(&error), "a plan that didn't come gave another error: {error}");
        check!(error.to_string().contains("77"), "the error doesn't name the stage: {error}");
    }
    Ok(())
}

async fn at_once(lab: &Lab) -> Verdict {
    let script = Script::new(numbered(0).schema(), vec![vec![Step::Batch(numbered(0))]]);
    let mut query = lab.run(&script).await?;
    for request in [query.request(StageId(2), &[0]), query.request(StageId(1), &[1])] {
        // Sealed is what the session says, which may come after the fetch.
        let [mut stream] = fetch(lab.channel.as_ref(), request)?;
        let error = lab.error(&mut stream).await?;
        check!(is_not_found(&error), "a task that isn't listed gave another error: {error}");
    }
    let request = query.request(StageId(1), &[0]);
    query.finish().await?;
    lab.until("the end of the query", || lab.worker.stats().queries == 0).await?;
    let [mut stream] = fetch(lab.channel.as_ref(), request.clone())?;
    let error = lab.error(&mut stream).await?;
    let is_ended =
        matches!(error, TransportError::QueryEnded(query) if query == request.task.query);
    check!(is_ended, "an ended query gave another error: {error}");
    Ok(())
}

async fn parked(lab: &Lab) -> Verdict {
    let script = Script::new(numbered(0).schema(), vec![vec![Step::Batch(numbered(0))]]);
    let query = lab.open().await?;
    let request = query.request(StageId(1), &[0]);
    let [mut waiting] = fetch(lab.channel.as_ref(), request.clone())?;
    let [mut hopeless] = fetch(lab.channel.as_ref(), unknown_query(&request))?;
    park(lab, &mut waiting).await?;
    park(lab, &mut hopeless).await?;
    let [mut one_too_many] = fetch(lab.channel.as_ref(), unknown_query(&request))?;
    let error = lab.error(&mut one_too_many).await?;
    check!(
        matches!(error, TransportError::Overloaded(_)),
        "one too many gave another error: {error}"
    );
    drop(hopeless);

    query.add(StageId(1), &script).await?;
    let batches = lab.all(&mut waiting).await?;
    check!(batches == [numbered(0)], "a parked fetch didn't get its task's batches");

    let soon = FetchRequest {
        deadline: Some(Instant::now() + Duration::from_millis(50)),
        ..unknown_query(&request)
    };
    let [mut stream] = fetch(lab.channel.as_ref(), soon)?;
    let error = lab.error(&mut stream).await?;
    check!(
        matches!(error, TransportError::Timeout(_)),
        "a deadline before the plan gave another error: {error}"
    );
    Ok(())
}

/// Polls a stream until its fetch has arrived at the worker.
async fn park(lab: &Lab, stream: &mut BatchStream) -> Verdict {
    for _ in 0..20 {
        check!(stream.next().now_or_never().is_none(), "a fetch without a plan wasn't parked");
        lab.settle().await?;
    }
    Ok(())
}

fn unknown_query(request: &FetchRequest) -> FetchRequest {
    FetchRequest { task: TaskId { query: QueryId::random(), ..request.task }, ..request.clone() }
}

fn is_not_found(error: &TransportError) -> bool {
    matches!(error, TransportError::NotFound(_))
}
