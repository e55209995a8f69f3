//! How a stream ends.

use datafusion::common::DataFusionError;

use crate::conformance::lab::{Lab, check};
use crate::conformance::script::{Gate, Script, Step, numbered};
use crate::conformance::{Fixture, Verdict};
use crate::error::{ErrorKind, TransportError};

/// **C05** A stream ends cleanly only after an end marker: a lost connection never looks like the
/// end.
pub async fn c05_a_lost_connection_never_looks_like_the_end(fixture: &dyn Fixture) -> Verdict {
    let lab = Lab::start(fixture).await?;
    let gate = Gate::closed();
    let (script, n_batches) = gated(&gate, 3);

    // The query ends, without a finish, while its output is read.
    let query = lab.run(&script).await?;
    let [mut stream] = query.fetch([0])?;
    for _ in 0..n_batches {
        lab.batch(&mut stream).await?;
    }
    drop(query);
    let error = lab.error(&mut stream).await?;
    check!(error.is_consequence(), "the end of the query gave another error: {error}");

    // The server dies while an output is read.
    let query = lab.run(&script).await?;
    let [mut stream] = query.fetch([0])?;
    for _ in 0..n_batches {
        lab.batch(&mut stream).await?;
    }
    lab.host.kill().await?;
    if lab.capabilities.has_connections {
        let error = lab.error(&mut stream).await?;
        check!(
            matches!(error, TransportError::ConnectionLost { .. }),
            "a cut gave another error: {error}"
        );
        return Ok(());
    }
    gate.open();
    let rest = lab.all(&mut stream).await?;
    check!(rest == [numbered(n_batches)], "{} batches after the gate instead of 1", rest.len());
    Ok(())
}

/// **C06** Batches sent before an error are delivered before it.
pub async fn c06_batches_before_an_error_are_delivered_before_it(fixture: &dyn Fixture) -> Verdict {
    let lab = Lab::start(fixture).await?;
    for n_batches in [0, 1, 10] {
        let mut steps: Vec<_> = (0..n_batches).map(|nth| Step::Batch(numbered(nth))).collect();
        steps.push(Step::fail(|| DataFusionError::Execution("as written".to_owned())));
        let script = Script::new(numbered(0).schema(), vec![steps]);
        let query = lab.run(&script).await?;
        let [mut stream] = query.fetch([0])?;
        for nth in 0..n_batches {
            let batch = lab.batch(&mut stream).await?;
            check!(batch == numbered(nth), "another batch in the place of number {nth}");
        }
        match lab.error(&mut stream).await? {
            TransportError::Remote(error) if error.kind == ErrorKind::Execution => {}
            other => return Err(format!("another error: {other}").into()),
        }
    }
    Ok(())
}

/// Some batches, a gate, and one batch more.
fn gated(gate: &Gate, n_batches: usize) -> (std::sync::Arc<Script>, usize) {
    let mut steps: Vec<_> = (0..n_batches).map(|nth| Step::Batch(numbered(nth))).collect();
    steps.extend([Step::Wait(gate.clone()), Step::Batch(numbered(n_batches))]);
    (Script::new(numbered(0).schema(), vec![steps]), n_batches)
}
