//! Which functions of a plan a worker doesn't have.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::PhysicalPlanNodeExt;
use datafusion_proto::protobuf::PhysicalPlanNode;
use parking_lot::Mutex;

use super::extension::StageCodec;
use super::registry::CodecRegistry;
use super::stage::NodeOnly;

/// The functions that a node calls by name, whatever is below it, and that a worker of this session
/// state doesn't have: each with the call that registers it.
pub fn missing_functions(
    plan: &Arc<dyn ExecutionPlan>,
    codecs: &Arc<CodecRegistry>,
    worker: &SessionState,
) -> Vec<String> {
    let by_name = Arc::new(ByName::default());
    let codec = StageCodec {
        registry: Arc::clone(codecs),
        by_name: Some(Arc::clone(&by_name)),
        ..StageCodec::default()
    };
    // A node that can't be encoded is reported as such.
    let _ = PhysicalPlanNode::try_from_physical_plan_with_converter(
        Arc::clone(plan),
        &codec,
        &NodeOnly,
    );
    let by_name = by_name.lock();
    let missing = by_name.iter().filter(|(kind, name)| !kind.is_known(name, worker));
    let describe = |(kind, name): &(FunctionKind, String)| {
        format!(
            "{kind} {name:?}: register it with `{}` in the session state that the workers are \
             built with",
            kind.registration()
        )
    };
    missing.map(describe).collect()
}

/// The functions of a plan that a worker looks up by their names.
pub(super) type ByName = Mutex<BTreeSet<(FunctionKind, String)>>;

/// What a function is; each kind has names of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FunctionKind {
    Aggregate,
    HigherOrder,
    Scalar,
    Window,
}

impl FunctionKind {
    fn is_known(self, name: &str, worker: &SessionState) -> bool {
        match self {
            Self::Aggregate => worker.aggregate_functions().contains_key(name),
            Self::HigherOrder => worker.higher_order_functions().contains_key(name),
            Self::Scalar => worker.scalar_functions().contains_key(name),
            Self::Window => worker.window_functions().contains_key(name),
        }
    }

    /// The method that registers one.
    fn registration(self) -> &'static str {
        match self {
            Self::Aggregate => "register_udaf",
            Self::HigherOrder => "register_higher_order_function",
            Self::Scalar => "register_udf",
            Self::Window => "register_udwf",
        }
    }
}

impl fmt::Display for FunctionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aggregate => "aggregate function",
            Self::HigherOrder => "higher-order function",
            Self::Scalar => "scalar function",
            Self::Window => "window function",
        })
    }
}
