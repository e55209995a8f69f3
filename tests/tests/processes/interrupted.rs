//! Ctrl-C while the workers of `tributary sql` write.

use std::path::Path;
use std::time::Duration;

use datafusion_tributary_tests::processes::{Process, within};
use datafusion_tributary_tests::tables::{self, BUILD_SIDE, DATA, LONG_TEXTS};
use nix::sys::signal::Signal;

const LIMIT: Duration = Duration::from_secs(60);

/// Gigabytes: nobody waits for their end.
const ROWS: &str =
    "SELECT t.n, repeat(t.s, 20) AS s, b.id FROM long_texts t CROSS JOIN build_side b";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_stays_of_a_write_that_is_interrupted() {
    let data = tables::files().await;
    let dir = tempfile::tempdir().expect("a folder");
    let out = dir.path().join("out");
    let sql = format!(
        "{BUILD_SIDE}; {LONG_TEXTS}; SET distributed.write_files_on_workers = true; \
         COPY ({ROWS}) TO '{}/' STORED AS CSV",
        out.display()
    );
    let sql = sql.replace(DATA, &data.path().display().to_string());
    let cluster = ["--workers", "2", "--force-distribution", "--target-partitions", "1"];
    let mut process = Process::tributary(&[&["sql"], &cluster[..], &["-c", &sql]].concat());
    let staged = async {
        while !has_staged(&out) {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = within(LIMIT, "a staged file", staged) => {}
        status = process.ended() => panic!("it ended ({status}): {}", process.errors()),
    }
    process.signal(Signal::SIGINT);
    let status = within(LIMIT, "the end of the command", process.ended()).await;
    let errors = process.errors();
    assert!(!status.success() && errors.contains("cancelled"), "{status}: {errors}");
    assert_eq!(entries(&out), Vec::<String>::new(), "{errors}");
}

fn has_staged(out: &Path) -> bool {
    entries(out).iter().any(|entry| entry.starts_with("_tributary-"))
}

/// What is in a folder, if there is one.
fn entries(dir: &Path) -> Vec<String> {
    let Ok(listed) = std::fs::read_dir(dir) else { return Vec::new() };
    listed.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
