//! A table whose files are at the coordinator only is an error, and never an empty table.

use std::path::Path;
use std::sync::Arc;

use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::object_store::local::LocalFileSystem;
use datafusion_tributary::core::limits::NETWORK_BUDGET_BYTES;
use datafusion_tributary_tests::tables::{PROBE_ARROW, PROBE_CSV, PROBE_JSON, PROBE_SIDE};
use datafusion_tributary_tests::text::{error_of, text};
use datafusion_tributary_tests::{Extras, Place, Site, settled};
use url::Url;

const TABLES: [&str; 4] = [PROBE_SIDE, PROBE_CSV, PROBE_JSON, PROBE_ARROW];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_workers_lack() {
    let elsewhere = tempfile::tempdir().expect("a folder");
    for site in Site::four_workers(&[1, 4]) {
        let cluster = site.start_with(&state(elsewhere.path()), NETWORK_BUDGET_BYTES).await;
        let place = Place::on(cluster.expect("workers"), site, Extras::default(), &TABLES).await;
        for table in ["probe_side", "probe_csv", "probe_json", "probe_arrow"] {
            for sql in [
                format!("SELECT id, n FROM {table}"),
                format!("SELECT id, count(*) FROM {table} GROUP BY id"),
                format!("SELECT count(*), sum(n) FROM {table} WHERE n % 3 = 1"),
            ] {
                let error = error_of(&place.sessions.distributed, &sql).await.to_string();
                assert!(error.contains(&format!("{table}/")), "no file, {site}: {error}\n{sql}");
                let worker = format!("worker {}://", site.way.scheme());
                assert!(error.contains(&worker), "no worker, {site}: {error}\n{sql}");
                settled(&place.cluster).await.unwrap_or_else(|e| panic!("{e}, {site}\n{sql}"));
            }
        }
        // what fails is the workers' reading
        let ctx = &place.sessions.distributed;
        text(ctx, "SET distributed.enabled = false").await.expect("an option");
        let n_rows = text(ctx, "SELECT count(id) FROM probe_side").await.expect("it runs");
        assert_eq!(n_rows, "5000");
    }
}

/// A session for which the root of all files is another folder.
fn state(root: &Path) -> SessionState {
    let runtime = RuntimeEnv::default();
    let files = LocalFileSystem::new_with_prefix(root).expect("a folder");
    runtime.register_object_store(&Url::parse("file://").expect("a URL"), Arc::new(files));
    SessionStateBuilder::new().with_default_features().with_runtime_env(Arc::new(runtime)).build()
}
