//! Readers that don't read, and many producers: what is buffered for them stays within the budget.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tributary_core::metrics::NodeMetricValue;
use datafusion_tributary_core::protocol::TaskReport;
use datafusion_tributary_core::transport::BatchStream;
use datafusion_tributary_tests::or_hang;
use datafusion_tributary_tests::processes::Network;
use datafusion_tributary_tests::processes::by_hand::HandQuery;
use datafusion_tributary_tests::processes::loopback::{Loopback, LoopbackOptions};
use datafusion_tributary_tests::tables::write_table;
use futures::StreamExt;
use futures::future::join_all;
use futures::stream::select_all;

const N_OUTPUTS: u32 = 8;
const N_ROWS: i64 = 20_000;
const ROW_BYTES: usize = 2000;
const BUDGET_BYTES: usize = 1 << 20;

over_each_network!(
    one_of_eight_outputs_is_not_read,
    one_of_eight_outputs_of_a_split_is_not_read,
    many_producers_share_one_budget,
);

/// Outputs that know nothing of each other.
async fn one_of_eight_outputs_is_not_read(network: Network) {
    let dir = tempfile::tempdir().expect("a folder");
    let plan = long_rows(dir.path(), N_OUTPUTS, N_ROWS).await;
    read_seven_first(&plan, LoopbackOptions { network, ..LoopbackOptions::new(1) }).await;
}

/// Outputs that are filled by one split: what nobody reads goes to disk.
async fn one_of_eight_outputs_of_a_split_is_not_read(network: Network) {
    let dir = tempfile::tempdir().expect("a folder");
    let scan = long_rows(dir.path(), 4, N_ROWS).await;
    let by_number =
        Partitioning::Hash(vec![Arc::new(Column::new("n", 0))], N_OUTPUTS.try_into().expect("few"));
    let split: Arc<dyn ExecutionPlan> =
        Arc::new(RepartitionExec::try_new(scan, by_number).expect("a plan"));
    let env = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(GreedyMemoryPool::new(2 << 20)))
        .build_arc()
        .expect("an environment");
    let session = SessionStateBuilder::new().with_runtime_env(env).with_default_features().build();
    let options = LoopbackOptions { network, session, ..LoopbackOptions::new(1) };
    let reports = read_seven_first(&split, options).await;
    let metrics = reports.iter().flat_map(|report| &report.metrics).flat_map(|node| &node.metrics);
    let mut spills = metrics.filter(|metric| metric.name == "spill_count");
    let has_spilled = spills.any(|spill| matches!(spill.value, NodeMetricValue::Count(1..)));
    assert!(has_spilled, "nothing was written to disk, so this tests nothing: {reports:?}");
}

/// Sixty-four tasks, and one reader that takes its time.
async fn many_producers_share_one_budget(network: Network) {
    const N_TASKS: u32 = 16;
    const N_TASK_ROWS: i64 = 500;
    const MESSAGE_BYTES: usize = 16 * 1024;
    let dir = tempfile::tempdir().expect("a folder");
    let plan = long_rows(dir.path(), 1, N_TASK_ROWS).await;
    let options =
        LoopbackOptions { network, budget_bytes: BUDGET_BYTES, ..LoopbackOptions::new(4) };
    let loopback = Loopback::start(options).await;
    let (mut queries, mut streams) = (Vec::new(), Vec::new());
    for url in loopback.client.urls() {
        let channel = loopback.client.channel(url).await.expect("a channel");
        let query = HandQuery::start(channel, &plan, N_TASKS).await;
        for task in 0..N_TASKS {
            streams.extend(query.fetch(query.request(task, &[0], MESSAGE_BYTES)));
        }
        queries.push(query);
    }
    let n_streams = streams.len();
    let slowly = select_all(streams).then(|batch| async {
        // Everybody else has turns meanwhile.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        batch
    });
    let mut seen = or_hang(numbers(Box::pin(slowly))).await.expect("no hang");
    check_budgets(&loopback, n_streams, MESSAGE_BYTES);
    seen.sort_unstable();
    let expected = (0..N_TASK_ROWS).flat_map(|n| std::iter::repeat_n(n, n_streams));
    assert!(seen == expected.collect::<Vec<_>>(), "{} rows", seen.len());
    for query in queries {
        or_hang(query.finish()).await.expect("no hang");
    }
    loopback.settled().await;
}

/// Reads all outputs but one to their ends, and that one afterwards.
async fn read_seven_first(
    plan: &Arc<dyn ExecutionPlan>,
    options: LoopbackOptions,
) -> Vec<TaskReport> {
    const MESSAGE_BYTES: usize = 64 * 1024;
    let n_outputs = N_OUTPUTS.try_into().expect("few");
    let options = LoopbackOptions { budget_bytes: BUDGET_BYTES, ..options };
    let loopback = Loopback::start(options).await;
    let channel = loopback.client.channel(&loopback.client.urls()[0]).await.expect("a channel");
    let query = HandQuery::start(channel, plan, 1).await;
    let outputs: Vec<_> = (0..N_OUTPUTS).collect();
    let mut streams = query.fetch(query.request(0, &outputs, MESSAGE_BYTES));
    let stalled = streams.remove(3);
    let siblings = join_all(streams.into_iter().map(numbers));
    let mut seen = or_hang(siblings).await.expect("siblings aren't stalled").concat();
    check_budgets(&loopback, n_outputs, MESSAGE_BYTES);
    let n_before = seen.len();
    seen.extend(or_hang(numbers(stalled)).await.expect("no hang"));
    check_budgets(&loopback, n_outputs, MESSAGE_BYTES);
    let n_stalled_bytes = (seen.len() - n_before) * ROW_BYTES;
    assert!(n_stalled_bytes > 2 * BUDGET_BYTES, "too few to stall: {n_stalled_bytes} bytes");
    seen.sort_unstable();
    assert!(seen == (0..N_ROWS).collect::<Vec<_>>(), "{} rows", seen.len());
    let reports = or_hang(query.finish()).await.expect("no hang");
    loopback.settled().await;
    reports
}

/// A reader that waits may always have one message, whatever the others have.
fn check_budgets(loopback: &Loopback, n_streams: usize, message_bytes: usize) {
    let limit = BUDGET_BYTES + n_streams * 2 * message_bytes;
    for budget in loopback.budgets() {
        let peak = budget.peak_bytes();
        assert!(peak > 0 && peak <= limit, "{peak} bytes were buffered, {limit} are allowed");
    }
}

/// The first column of all rows, whose second one is checked.
async fn numbers(mut stream: BatchStream) -> Vec<i64> {
    let mut numbers = Vec::new();
    while let Some(batch) = stream.next().await {
        let batch = batch.unwrap_or_else(|e| panic!("{e}"));
        let texts = cast(batch.column(1), &DataType::Utf8).expect("texts");
        let column = batch.column(0).as_primitive::<Int64Type>();
        for (n, text) in column.values().iter().zip(texts.as_string::<i32>()) {
            let text = text.expect("no NULL").as_bytes();
            let letter = b'a' + u8::try_from(n % 26).expect("a letter");
            assert!(text.len() == ROW_BYTES && text.iter().all(|byte| *byte == letter), "{n}");
        }
        numbers.extend(column.values());
    }
    numbers
}

/// A plan of `n`, from 0 on, and a text of [`ROW_BYTES`] that it is made into while it runs.
async fn long_rows(dir: &Path, n_partitions: u32, n_rows: i64) -> Arc<dyn ExecutionPlan> {
    let n_file_rows = n_rows / i64::from(n_partitions);
    let file = |first: i64| {
        format!("SELECT value AS n FROM generate_series({first}, {})", first + n_file_rows - 1)
    };
    let files: Vec<_> = (0..i64::from(n_partitions)).map(|idx| file(idx * n_file_rows)).collect();
    write_table(dir, "numbers", &files).await.expect("written");
    let n_partitions = n_partitions.try_into().expect("few");
    let config = SessionConfig::new().with_target_partitions(n_partitions);
    let ctx = SessionContext::new_with_config(config);
    let table = format!(
        "CREATE EXTERNAL TABLE numbers STORED AS PARQUET LOCATION '{}/numbers/'",
        dir.display()
    );
    ctx.sql(&table).await.expect("a table");
    let sql = format!("SELECT n, repeat(chr(97 + n % 26), {ROW_BYTES}) AS s FROM numbers");
    let plan = ctx.sql(&sql).await.expect("parsed").create_physical_plan().await.expect("planned");
    assert_eq!(plan.properties().partitioning.partition_count(), n_partitions);
    plan
}
