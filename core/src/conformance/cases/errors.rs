//! What an error says.

use std::sync::Arc;

use arrow::error::ArrowError;
use datafusion::common::DataFusionError;

use crate::conformance::lab::{Lab, check};
use crate::conformance::script::{Script, Step, numbered};
use crate::conformance::{Fixture, Verdict};
use crate::error::{ErrorKind, Origin, RemoteError, TransportError};
use crate::ids::{StageId, TaskIdx};
use crate::limits::MAX_ERROR_TEXT_BYTES;

/// Makes an error of a text.
type Make = fn(String) -> DataFusionError;

/// **C07** An error keeps kind, origin and text, the text bounded and marked as cut.
pub async fn c07_errors_keep_kind_origin_and_text(fixture: &dyn Fixture) -> Verdict {
    use DataFusionError as E;
    let lab = Lab::start(fixture).await?;
    let text = "zwei Zeilen:\n„größer“ \u{1f980}\t\"'\\";
    let make: [(ErrorKind, Make); 8] = [
        (ErrorKind::Execution, E::Execution),
        (ErrorKind::Plan, E::Plan),
        (ErrorKind::Internal, E::Internal),
        (ErrorKind::NotImplemented, E::NotImplemented),
        (ErrorKind::Configuration, E::Configuration),
        (ErrorKind::ResourcesExhausted, E::ResourcesExhausted),
        (ErrorKind::ArrowCast, |text| E::ArrowError(Box::new(ArrowError::CastError(text)), None)),
        (ErrorKind::External, |text| E::External(text.into())),
    ];
    for (kind, make) in make {
        let error = fail_with(&lab, move || make(text.to_owned())).await?;
        check!(error.kind == kind, "{kind:?} arrived as {:?}", error.kind);
        check!(error.message == text, "{text:?} arrived as {:?}", error.message);
        check!(!error.consequence, "a cause arrived as a consequence");
        let place = Origin {
            worker: Some(lab.worker.name().to_owned()),
            stage: Some(StageId(1)),
            task: Some(TaskIdx(0)),
            partition: Some(1),
        };
        check!(error.origin == place, "{place} arrived as {}", error.origin);
    }
    let long = fail_with(&lab, || E::Execution("é\n".repeat(1 << 19))).await?;
    let n_bytes = long.message.len();
    check!(n_bytes <= MAX_ERROR_TEXT_BYTES, "a text of {n_bytes} bytes wasn't cut");
    check!(n_bytes > MAX_ERROR_TEXT_BYTES / 2, "only {n_bytes} bytes are left of a text");
    check!(long.message.starts_with("é\né\n"), "the text's beginning is lost");
    check!(long.message.contains("cut"), "a cut text isn't marked");
    Ok(())
}

/// **C08** A panic in a producer becomes an error with its origin; the worker lives on.
pub async fn c08_a_panic_becomes_an_error_and_the_worker_lives_on(
    fixture: &dyn Fixture,
) -> Verdict {
    let lab = Lab::start(fixture).await?;
    let steps = vec![Step::Batch(numbered(0)), Step::Panic("as written")];
    let script = Script::new(numbered(0).schema(), vec![steps]);
    let query = lab.run(&script).await?;
    let [mut stream] = query.fetch([0])?;
    lab.batch(&mut stream).await?;
    match lab.error(&mut stream).await? {
        TransportError::Remote(error) => {
            check!(error.kind == ErrorKind::Internal, "a panic arrived as {:?}", error.kind);
            check!(
                error.message.contains("as written"),
                "the panic's text is lost: {}",
                error.message
            );
            check!(
                error.origin.partition == Some(0),
                "the panic's place is lost: {}",
                error.origin
            );
        }
        other => return Err(format!("a panic gave another error: {other}").into()),
    }
    drop(query);

    let script = Script::new(numbered(0).schema(), vec![vec![Step::Batch(numbered(0))]]);
    let query = lab.run(&script).await?;
    let [mut stream] = query.fetch([0])?;
    let batches = lab.all(&mut stream).await?;
    check!(batches == [numbered(0)], "the worker doesn't work after a panic");
    Ok(())
}

/// The error of the second output of a task.
async fn fail_with(
    lab: &Lab,
    make: impl Fn() -> DataFusionError + Send + Sync + 'static,
) -> Verdict<RemoteError> {
    let outputs = vec![Vec::new(), vec![Step::fail(make)]];
    let script: Arc<Script> = Script::new(numbered(0).schema(), outputs);
    let query = lab.run(&script).await?;
    let [mut stream] = query.fetch([1])?;
    match lab.error(&mut stream).await? {
        TransportError::Remote(error) => Ok(*error),
        other => Err(format!("an error of the plan became another one: {other}").into()),
    }
}
