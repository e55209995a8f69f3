//! Peers that are gone and time that is up.

use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt};

use crate::conformance::lab::{Lab, check, fetch};
use crate::conformance::script::{Gate, Script, Step, numbered};
use crate::conformance::{Fixture, Verdict};
use crate::error::TransportError;
use crate::ids::StageId;
use crate::protocol::{FetchRequest, OpenQuery, SessionEvent};
use crate::transport::BatchStream;

/// **C16** A dead or silent peer gives `Unavailable` (before the first item) or `ConnectionLost`
/// (after it) within the liveness bound, whatever the deadline.
pub async fn c16_a_dead_or_silent_peer_is_noticed(fixture: &dyn Fixture) -> Verdict {
    for is_silent in [false, true] {
        let lab = Lab::start(fixture).await?;
        let gate = Gate::closed();
        let wait = || Step::Wait(gate.clone());
        let first = vec![wait(), Step::Batch(numbered(0))];
        let later = vec![Step::Batch(numbered(0)), wait(), Step::Batch(numbered(1))];
        let script = Script::new(numbered(0).schema(), vec![first, later]);
        let mut query = lab.run(&script).await?;
        let request = FetchRequest {
            deadline: Some(Instant::now() + Duration::from_secs(3600)),
            ..query.request(StageId(1), &[0, 1])
        };
        let [mut first, mut later] = fetch(lab.channel.as_ref(), request)?;
        lab.batch(&mut later).await?;
        check!(first.next().now_or_never().is_none(), "a batch came out of a closed gate");
        match is_silent {
            true => lab.host.freeze(),
            false => lab.host.kill().await?,
        }
        if !lab.capabilities.has_connections {
            gate.open();
            lab.all(&mut first).await?;
            lab.all(&mut later).await?;
            continue;
        }
        noticed(&lab, first, later).await?;
        loop {
            match query.event().await? {
                Some(SessionEvent::Failed(TransportError::ConnectionLost { .. })) => break,
                Some(SessionEvent::Failed(error)) => {
                    return Err(format!("another error: {error}").into());
                }
                Some(_) => {}
                None => return Err("the session of a lost worker just ended".to_owned().into()),
            }
        }
        let Err(error) = lab.within("the worker's info", lab.channel.info()).await? else {
            return Err("a lost worker answered".to_owned().into());
        };
        check!(is_unavailable(&error), "a call to a lost worker gave another error: {error}");
    }
    Ok(())
}

async fn noticed(lab: &Lab, mut first: BatchStream, mut later: BatchStream) -> Verdict {
    let error = lab.error(&mut first).await?;
    check!(is_unavailable(&error), "a loss before the first item gave another error: {error}");
    let error = lab.error(&mut later).await?;
    let is_lost = matches!(error, TransportError::ConnectionLost { .. });
    check!(is_lost, "a loss after the first item gave another error: {error}");
    Ok(())
}

fn is_unavailable(error: &TransportError) -> bool {
    matches!(error, TransportError::Unavailable { .. })
}

/// **C17** A passed deadline gives `Timeout` and no remote work.
pub async fn c17_a_passed_deadline_gives_timeout_and_no_work(fixture: &dyn Fixture) -> Verdict {
    let lab = Lab::start(fixture).await?;
    let script = Script::new(numbered(0).schema(), vec![vec![Step::Wait(Gate::closed())]]);
    let is_timeout = |error: &TransportError| matches!(error, TransportError::Timeout(_));
    let query = lab.run(&script).await?;
    let request =
        FetchRequest { deadline: Some(Instant::now()), ..query.request(StageId(1), &[0]) };
    let [mut stream] = fetch(lab.channel.as_ref(), request)?;
    let error = lab.error(&mut stream).await?;
    check!(is_timeout(&error), "a passed deadline gave another error: {error}");
    check!(script.executed(0) == 0, "a fetch after its deadline started the task");

    let open = OpenQuery { deadline: Some(Instant::now()), ..lab.open_call() };
    let opened = lab.within("the answer", lab.channel.open_query(open)).await?;
    let error = opened.err().ok_or_else(|| "a query was opened after its deadline".to_owned())?;
    check!(is_timeout(&error), "a passed deadline gave another error: {error}");

    // A deadline that passes while the task runs.
    let deadline = Some(Instant::now() + Duration::from_millis(300));
    let query = lab.open_with(OpenQuery { deadline, ..lab.open_call() }).await?;
    query.add(StageId(1), &script).await?;
    let request = FetchRequest { deadline, ..query.request(StageId(1), &[0]) };
    let [mut stream] = fetch(lab.channel.as_ref(), request)?;
    let error = lab.error(&mut stream).await?;
    check!(is_timeout(&error), "a deadline that passed gave another error: {error}");
    lab.until("the end of the task", || script.executed(0) == script.dropped(0)).await
}
