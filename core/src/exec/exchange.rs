//! What the exchange nodes have in common.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, Partitioning};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};

use super::routing::{ExchangeKind, Routing};
use super::runtime::ExchangeRuntime;
use super::stream;
use crate::ids::StageId;

/// Everything that an exchange needs besides the running query: what travels in a plan.
#[derive(Clone, Debug)]
pub struct ExchangeSpec {
    /// The stage that is read.
    pub stage: StageId,
    /// Who reads what.
    pub routing: Routing,
    /// The schema, equivalences and orderings of the rows.
    pub equivalences: EquivalenceProperties,
    /// The hash expressions of a shuffle.
    pub hash_exprs: Vec<Arc<dyn datafusion::physical_expr::PhysicalExpr>>,
    /// The order that each partition is in, if one is advertised: then sources are merged by it,
    /// or are in that order one after another.
    pub ordering: Option<LexOrdering>,
}

/// The shared part of an exchange node: a leaf that reads another stage's outputs.
#[derive(Clone, Debug)]
pub struct Exchange {
    spec: ExchangeSpec,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    input: Option<Arc<dyn ExecutionPlan>>,
}

impl Exchange {
    /// An exchange that reads what `spec` says.
    pub fn new(spec: ExchangeSpec) -> Self {
        let n_partitions = spec.routing.n_partitions() as usize;
        let partitioning = match spec.routing.kind {
            ExchangeKind::Shuffle => Partitioning::Hash(spec.hash_exprs.clone(), n_partitions),
            ExchangeKind::Coalesce
            | ExchangeKind::Broadcast
            | ExchangeKind::RoundRobin
            | ExchangeKind::Range
            | ExchangeKind::Concatenate => Partitioning::UnknownPartitioning(n_partitions),
        };
        let properties = PlanProperties::new(
            spec.equivalences.clone(),
            partitioning,
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            spec,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            input: None,
        }
    }

    /// The same exchange with its producers' plan as a child, for display: what runs has none,
    /// because operators look for scans below them that are in another stage.
    #[must_use]
    pub fn with_display_input(mut self, input: Arc<dyn ExecutionPlan>) -> Self {
        self.input = Some(input);
        self
    }

    /// What travels.
    pub fn spec(&self) -> &ExchangeSpec {
        &self.spec
    }

    pub(super) fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    pub(super) fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.input.iter().collect()
    }

    pub(super) fn metrics(&self) -> MetricsSet {
        self.metrics.clone_inner()
    }

    pub(super) fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let runtime = ExchangeRuntime::of(&context)?;
        stream::read(&self.spec, partition, &self.metrics, runtime, context)
    }

    pub(super) fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let routing = &self.spec.routing;
        write!(
            f,
            "stage={}, tasks={}→{}, partitions={}",
            self.spec.stage,
            routing.n_producers,
            routing.n_consumers,
            routing.n_partitions()
        )?;
        if routing.kind == ExchangeKind::Shuffle {
            let exprs: Vec<_> = self.spec.hash_exprs.iter().map(ToString::to_string).collect();
            write!(f, ", hash=[{}]", exprs.join(", "))?;
        }
        match &self.spec.ordering {
            Some(ordering) => write!(f, ", ordering=[{ordering}]"),
            None => Ok(()),
        }
    }
}
