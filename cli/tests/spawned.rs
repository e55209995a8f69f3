//! The binary itself: workers that it starts and reaches in different ways are one cluster.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

/// Far more than any of the commands needs.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs a command to its end, and gives what it prints.
async fn tributary(args: &[&str]) -> String {
    let command = Command::new(env!("CARGO_BIN_EXE_tributary"))
        .args(args)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(PATIENCE, command).await;
    let output = output.unwrap_or_else(|_| panic!("no end of {args:?}")).expect("it is started");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?} failed: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Checks queries of TPC-H on four workers, each stage spread over all of them.
async fn check_queries(data: &Path, transport: &str) {
    let data = data.to_str().expect("a path of UTF-8");
    let queries = ["--suite", "tpch", "--data", data, "--queries", "3,9,18", "--iterations", "1"];
    let cluster = ["--spawn-workers", "4", "--transport", transport, "--force-distribution"];
    let how = ["--check", "--format", "json"];
    let printed = tributary(&[&["bench"], &queries[..], &cluster, &how].concat()).await;
    let lines: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 4, "three queries and their total: {printed}");
    for query in &lines[..3] {
        assert!(query["error"].is_null() && query["check"].is_string(), "{query}");
        assert!(query["rows"].as_u64() > Some(0), "{query}");
        // At least two stages of a task on each worker, and the head stage.
        assert!(query["tasks"].as_u64() > Some(8), "it didn't run on all workers: {query}");
    }
}

#[tokio::test]
async fn a_cluster_may_mix_transports() {
    let dir = tempfile::tempdir().expect("a folder");
    let out = dir.path().to_str().expect("a path of UTF-8");
    tributary(&["data", "tpch", "--scale-factor", "0.01", "--parts", "4", "--out", out]).await;
    check_queries(dir.path(), "quic").await;
    check_queries(dir.path(), "grpc,grpcs,quic,quic").await;
}
