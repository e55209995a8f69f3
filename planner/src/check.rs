//! What keeps a plan from running on workers, all of it at once.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_tributary_core::codec::{check_node, missing_functions};

use crate::distribute::{is_shell, undistributed};
use crate::options::DistributedOptions;
use crate::request::ExchangeRequestExec;

/// Checks that every node of a plan can be sent to a worker whose session state is `worker`: what
/// would otherwise show one query at a time, as a part that stays local or as an error of a worker.
/// A program's tests may assert by it that the workers have all that the queries use.
///
/// `plan` is what a session planned, distributed or not; `options` are those of the distributed
/// session. Codecs have to be known to the workers under the same names, which isn't checked.
///
/// # Errors
/// `Plan`, with a line for each node that can't be encoded and for each function that the worker
/// lacks, and the call that registers it.
pub fn check_distributable(
    plan: &Arc<dyn ExecutionPlan>,
    options: &DistributedOptions,
    worker: &SessionState,
) -> Result<()> {
    let codecs = options.codecs();
    let mut missing = Vec::new();
    undistributed(plan)?.apply(|node| {
        // Another node runs in its place.
        let local = node.downcast_ref::<ExchangeRequestExec>().map(ExchangeRequestExec::local);
        let node = local.unwrap_or(node);
        let found = match check_node(node, &codecs) {
            _ if is_shell(node.as_ref()) => Vec::new(),
            Some(reason) => vec![reason],
            None => missing_functions(node, &codecs, worker),
        };
        for line in found {
            if !missing.contains(&line) {
                missing.push(line);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if missing.is_empty() {
        return Ok(());
    }
    Err(DataFusionError::Plan(format!(
        "workers can't run all of the plan:\n- {}",
        missing.join("\n- ")
    )))
}
