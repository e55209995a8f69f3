//! `EXPLAIN ANALYZE` and a plan's metrics are what they are in one process, summed over tasks.

mod ends;
mod programs;
mod silent;
mod text;

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::{MetricValue, MetricsSet};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use datafusion_tributary::{QueryReport, TaskSpread};
use datafusion_tributary_tests::tables::{BUILD_SIDE, EMPTY, NULLS, PROBE_SIDE};
use datafusion_tributary_tests::{World, or_hang};
use futures::StreamExt;

const TABLES: [&str; 4] = [BUILD_SIDE, PROBE_SIDE, EMPTY, NULLS];
const WORLD: World = World { n_workers: 4, target_partitions: 2, force_encode: false };
const GROUPED: &str = "SELECT id, count(*) FROM probe_side WHERE n % 2 = 0 GROUP BY id";
const SPREAD: &str = "SET distributed.explain_task_metrics = true";

/// A plan, and what it is run with.
struct Planned {
    plan: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
}

impl Planned {
    async fn new(ctx: &SessionContext, sql: &str) -> Self {
        let frame = ctx.sql(sql).await.expect("a statement");
        let task = Arc::new(frame.task_ctx());
        Self { plan: frame.create_physical_plan().await.expect("planned"), task }
    }

    /// The same for a plan of which something runs on workers.
    async fn distributed(ctx: &SessionContext, sql: &str) -> Self {
        let planned = Self::new(ctx, sql).await;
        let report = QueryReport::of(&planned.plan).expect("distributed");
        assert!(report.n_stages > 1, "{report:?}\n{sql}");
        planned
    }

    /// The same for a plan with tasks on several workers.
    async fn spread(ctx: &SessionContext, sql: &str) -> Self {
        let planned = Self::distributed(ctx, sql).await;
        let report = QueryReport::of(&planned.plan).expect("distributed");
        assert!(report.stages.iter().any(|stage| stage.n_tasks == 4), "{report:?}\n{sql}");
        planned
    }

    async fn run(&self) -> Result<Vec<RecordBatch>> {
        or_hang(collect(Arc::clone(&self.plan), Arc::clone(&self.task))).await.expect("no hang")
    }

    /// Runs it to the end behind its error, where workers have said how far they came.
    async fn fail(&self) -> DataFusionError {
        let rows = self.plan.execute(0, Arc::clone(&self.task)).expect("begun");
        let items: Vec<_> = or_hang(rows.collect()).await.expect("no hang");
        let mut errors: Vec<_> = items.into_iter().filter_map(Result::err).collect();
        assert_eq!(errors.len(), 1, "{errors:?}");
        errors.remove(0)
    }

    /// The metrics of all nodes whose name begins so.
    fn metrics_of(&self, name: &str) -> Vec<MetricsSet> {
        let nodes = nodes(&self.plan).into_iter();
        let named = nodes.filter(|node| node.name().starts_with(name));
        named.filter_map(|node| node.metrics()).collect()
    }

    fn rows_of(&self, name: &str) -> usize {
        self.metrics_of(name).iter().filter_map(MetricsSet::output_rows).sum()
    }
}

fn nodes(plan: &Arc<dyn ExecutionPlan>) -> Vec<&Arc<dyn ExecutionPlan>> {
    let below = plan.children().into_iter().flat_map(nodes);
    std::iter::once(plan).chain(below).collect()
}

/// The sum of the counts or times of this name.
fn sum_of(metrics: &MetricsSet, name: &str) -> Option<usize> {
    metrics.sum(|metric| metric.value().name() == name).map(|sum| sum.as_usize())
}

/// The least, median and greatest of a count and their sum over all tasks, where it is shown.
fn spread_of(metrics: &MetricsSet, name: &str) -> Option<Spread> {
    let name = format!("{name}_per_task");
    let metric = metrics.iter().find(|metric| metric.value().name() == name)?;
    let MetricValue::Custom { value, .. } = metric.value() else { panic!("{metric}") };
    let spread = value.as_any().downcast_ref::<TaskSpread>().expect("a spread");
    let number = |value: Option<MetricValue>| value.expect("of a task").as_usize();
    Some(Spread {
        n_tasks: spread.values().len(),
        min: number(spread.min()),
        median: number(spread.median()),
        max: number(spread.max()),
        sum: spread.values().iter().map(MetricValue::as_usize).sum(),
    })
}

#[derive(Debug)]
struct Spread {
    n_tasks: usize,
    min: usize,
    median: usize,
    max: usize,
    sum: usize,
}
