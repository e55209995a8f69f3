//! One file.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry, SessionState, SessionStateBuilder};
use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::SessionContext;
use datafusion_sqllogictest::{DFColumnType, TestContext, TestFile, setup_scratch_dir};
use datafusion_tributary::{DistributedConfig, DistributedExt};
use sqllogictest::{Record, Runner, parse_file};

use super::pair::{OTHER_SCRATCH, Pair};
use super::report::{FileReport, Statements};
use crate::cluster::{Cluster, ClusterSpec, Way};

/// How many workers there are.
const N_WORKERS: usize = 4;

/// Runs a file on both sides; none where DataFusion's own runner leaves it out as well.
///
/// # Errors
/// Of a file that can't be read, and of workers that can't be started.
pub async fn run_file(file: &TestFile, way: Way) -> Result<Option<FileReport>> {
    let name = &file.relative_path;
    // Each side has a catalog of its own.
    let Some(single) = TestContext::try_new_for_test_file(name).await else { return Ok(None) };
    let Some(other) = TestContext::try_new_for_test_file(name).await else { return Ok(None) };
    let (distributed, _cluster) = distribute(other.session_ctx(), way).await?;
    setup_scratch_dir(name)?;
    set_up_other_scratch(name)?;

    let statements = Arc::new(Statements::default());
    let pair = || async {
        Ok(Pair {
            single: single.session_ctx().clone(),
            distributed: distributed.clone(),
            file: name.display().to_string(),
            statements: Arc::clone(&statements),
        })
    };
    let mut runner = Runner::new(pair);
    runner.add_label("Datafusion");
    let records = parse_file::<DFColumnType>(&file.path);
    let records = records.map_err(|error| exec_datafusion_err!("{error}"))?;
    let mut n_unexpected = 0;
    for record in records {
        if let Record::Halt { .. } = record {
            break;
        }
        n_unexpected += usize::from(runner.run_async(record).await.is_err());
    }
    Ok(Some(FileReport { n_unexpected, ..statements.report() }))
}

/// The same session with workers, which have what it has; all that can be is spread.
async fn distribute(ctx: &SessionContext, way: Way) -> Result<(SessionContext, Cluster)> {
    let mut config = DistributedConfig::default();
    config.min_bytes_per_task = 0;
    let mut state = ctx.state();
    state.config_mut().options_mut().extensions.insert(config);
    let cluster = Cluster::start(&ClusterSpec::new(way, N_WORKERS), &state).await?;
    let functions = state.scalar_functions().clone();
    let mut state =
        SessionStateBuilder::new_from_existing(state).with_distributed_planner(&cluster).build();
    restore(&mut state, &functions)?;
    Ok((SessionContext::new_with_state(state), cluster))
}

/// Gives functions that share a name with another one's alias back what they had: a builder registers
/// those of an existing state in any order.
fn restore(state: &mut SessionState, functions: &HashMap<String, Arc<ScalarUDF>>) -> Result<()> {
    // Registering one takes its aliases from others, which get them back in the next round.
    for _ in 0..3 {
        for (name, function) in functions {
            if state.scalar_functions().get(name) != Some(function) {
                state.register_udf(Arc::clone(function))?;
            }
        }
    }
    Ok(())
}

fn set_up_other_scratch(name: &Path) -> Result<()> {
    let folder = Path::new(OTHER_SCRATCH).join(name.file_stem().unwrap_or_default());
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(())
}
