//! What the opening of a query carries, and who refuses it.

use std::time::{Duration, Instant};

use datafusion::DATAFUSION_VERSION;
use futures::{FutureExt, StreamExt};

use crate::config::Compression;
use crate::conformance::lab::{Lab, MESSAGE_BYTES, check, fetch};
use crate::conformance::script::{Gate, Script, Step, numbered};
use crate::conformance::{Fixture, Verdict};
use crate::error::TransportError;
use crate::ids::{OutputIdx, StageId, TaskId, TaskIdx};
use crate::limits::MAX_METADATA_BYTES;
use crate::metadata::{Metadata, RESERVED_PREFIX};
use crate::protocol::{FetchRequest, OpenQuery, PROTOCOL_VERSION, SessionCommand, WorkerState};

/// **C20** Metadata makes the round trip, is bounded, and rejects reserved keys.
pub async fn c20_metadata_makes_the_round_trip(fixture: &dyn Fixture) -> Verdict {
    let lab = Lab::start(fixture).await?;
    let mut metadata = Metadata::default();
    metadata.insert("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")?;
    metadata.insert("raw", (0..=u8::MAX).collect::<Vec<_>>())?;
    metadata.insert("empty", "")?;
    let free = MAX_METADATA_BYTES
        - metadata.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
    let too_much = metadata.insert("f", vec![b' '; free]);
    check!(matches!(too_much, Err(TransportError::Protocol(_))), "metadata isn't bounded");
    metadata.insert("f", vec![b' '; free - 1])?;
    let reserved = metadata.insert(&format!("{RESERVED_PREFIX}x"), "");
    check!(matches!(reserved, Err(TransportError::Protocol(_))), "a reserved key was accepted");

    let options = vec![("datafusion.execution.time_zone".to_owned(), "+02:00".to_owned())];
    let call = OpenQuery { metadata, options, ..lab.open_call() };
    let query = lab.open_with(call.clone()).await?;
    let seen = lab.probe.last_opened().ok_or_else(|| "nothing was opened".to_owned())?;
    check!(seen.query == query.id, "another query was opened");
    let keys =
        |metadata: &Metadata| metadata.iter().map(|(key, _)| key.to_owned()).collect::<Vec<_>>();
    let (sent, arrived) = (keys(&call.metadata), keys(&seen.metadata));
    check!(arrived == sent, "the metadata {sent:?} arrived as {arrived:?}");
    check!(seen.metadata == call.metadata, "values of the metadata were changed");
    check!(
        seen.options == call.options,
        "the options {:?} arrived as {:?}",
        call.options,
        seen.options
    );
    Ok(())
}

/// **C21** A mismatch of the protocol's version or DataFusion's is refused at open, both versions in
/// the error.
pub async fn c21_a_version_mismatch_is_refused_at_open(fixture: &dyn Fixture) -> Verdict {
    let lab = Lab::start(fixture).await?;
    let call = OpenQuery { protocol_version: 4711, ..lab.open_call() };
    refused(&lab, call, "4711", &PROTOCOL_VERSION.to_string()).await?;
    let version = "4711.0.0";
    let call = OpenQuery { datafusion_version: version.to_owned(), ..lab.open_call() };
    refused(&lab, call, version, DATAFUSION_VERSION).await
}

async fn refused(lab: &Lab, call: OpenQuery, theirs: &str, ours: &str) -> Verdict {
    let opened = lab.within("the answer", lab.channel.open_query(call)).await?;
    let error = opened.err().ok_or_else(|| "another version was accepted".to_owned())?;
    check!(
        matches!(error, TransportError::Protocol(_)),
        "another version gave another error: {error}"
    );
    let text = error.to_string();
    let has_both = text.contains(theirs) && text.contains(ours);
    check!(has_both, "the error doesn't name both versions: {text}");
    check!(lab.worker.stats().queries == 0, "the query was opened nevertheless");
    Ok(())
}

/// **C22** A draining worker answers `open_query` with `Draining`, while running queries may still
/// add tasks, open fetches and be reached by new connections.
pub async fn c22_a_draining_worker_finishes_what_it_has(fixture: &dyn Fixture) -> Verdict {
    let lab = Lab::start(fixture).await?;
    let gate = Gate::closed();
    let steps = || vec![Step::Wait(gate.clone()), Step::Batch(numbered(0))];
    let before = Script::new(numbered(0).schema(), vec![steps(), steps()]);
    let after = Script::new(numbered(0).schema(), vec![steps()]);
    let mut query = lab.open().await?;
    query.add(StageId(1), &before).await?;
    let [mut running] = query.fetch([0])?;
    let drain = lab.worker.drain(Instant::now() + Duration::from_secs(3600));
    let queries = async {
        let info = loop {
            let info = lab.within("the worker's info", lab.channel.info()).await??;
            if info.state == WorkerState::Draining {
                break info;
            }
        };
        check!(info.n_queries == 1, "{} queries instead of 1", info.n_queries);
        let refused = lab.within("the answer", lab.channel.open_query(lab.open_call())).await?;
        let is_refused = matches!(refused, Err(TransportError::Draining { .. }));
        check!(is_refused, "a draining worker answered {refused:?}");

        query.add(StageId(2), &after).await?;
        query.seal().await?;
        let connecting = lab.transport.connect(&lab.url, &lab.client_env);
        let connection = lab.within("a new connection", connecting).await??;
        let [mut sibling] = query.fetch([1])?;
        let [mut added] = fetch(connection.as_ref(), query.request(StageId(2), &[0]))?;
        gate.open();
        for stream in [&mut running, &mut sibling, &mut added] {
            let batches = lab.all(stream).await?;
            check!(batches == [numbered(0)], "a running query lost batches: {}", batches.len());
        }
        query.finish().await?;
        Verdict::Ok(())
    };
    let drain = async { Verdict::Ok(drain.await) };
    let both = futures::future::try_join(drain, queries);
    let (is_drained, ()) = lab.within("the drained worker", both).await??;
    check!(is_drained, "the worker did not drain");
    Ok(())
}

/// **C23** The first commands of a session go along with its opening, before all others and in their
/// order; a fetch that comes before them waits.
pub async fn c23_first_commands_go_along_with_the_opening(fixture: &dyn Fixture) -> Verdict {
    let lab = Lab::start(fixture).await?;
    let script = |nth| Script::new(numbered(0).schema(), vec![vec![Step::Batch(numbered(nth))]]);
    let scripts = [script(1), script(2), script(3)];
    let mut first = Vec::new();
    for (stage, script) in (1..).map(StageId).zip(&scripts) {
        first.push(lab.add_command(stage, script)?);
    }
    // After it, nothing can be added: what comes behind it isn't there.
    first.push(SessionCommand::Seal);
    let call = OpenQuery { first, ..lab.open_call() };
    let id = call.query;
    let request = |stage| FetchRequest {
        task: TaskId { query: id, stage: StageId(stage), task: TaskIdx(0) },
        outputs: vec![OutputIdx(0)],
        deadline: None,
        message_target_bytes: MESSAGE_BYTES,
        compression: Compression::None,
    };
    let [mut early] = fetch(lab.channel.as_ref(), request(1))?;
    check!(early.next().now_or_never().is_none(), "a batch of a query that isn't open");
    lab.settle().await?;
    let mut query = lab.open_with(call).await?;
    check!(lab.all(&mut early).await? == [numbered(1)], "the early fetch lost its batch");
    for nth in 2..=3 {
        let [mut stream] = fetch(lab.channel.as_ref(), request(nth))?;
        let batches = lab.all(&mut stream).await?;
        check!(batches == [numbered(nth as usize)], "stage {nth} has {} batches", batches.len());
    }
    let [mut never] = fetch(lab.channel.as_ref(), request(4))?;
    let error = lab.error(&mut never).await?;
    check!(matches!(error, TransportError::NotFound(_)), "an unsealed query: {error}");
    let reports = query.finish().await?;
    check!(reports.len() == 3, "{} reports of three tasks", reports.len());
    Ok(())
}
