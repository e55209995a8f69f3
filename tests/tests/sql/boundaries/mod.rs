//! Exchanges that a rule or a table of the user's asks for.

mod paged;
mod placed;
mod reduction;
mod refused;

use datafusion_tributary::QueryReport;
use datafusion_tributary_tests::Place;

/// The tasks of each stage on workers, in the order of their numbers, and the plan that has them.
async fn tasks(place: &Place, sql: &str) -> (Vec<u32>, String) {
    let frame = place.sessions.distributed.sql(sql).await.expect("planned");
    let plan = frame.create_physical_plan().await.expect("planned");
    let report = QueryReport::of(&plan).unwrap_or_else(|| panic!("not distributed: {sql}"));
    let tasks = report.stages.iter().map(|stage| stage.n_tasks).collect();
    let text = datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string();
    (tasks, text)
}
