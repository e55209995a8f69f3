//! What distribution costs in one process: TPC-H on four in-process workers with default settings,
//! side by side with plain DataFusion, in one run with interleaved iterations.
//!
//! ```console
//! $ cargo run --release --bin in_process_overhead -- DIR [more options of `tributary bench`]
//! ```
//!
//! `DIR` keeps the data: TPC-H at scale factor 1, made at the first run.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// The same allocator on both sides of the comparison.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(dir) = args.next() else {
        eprintln!("error: name a folder for the data: in_process_overhead DIR");
        return ExitCode::FAILURE;
    };
    let make = ["tributary", "data", "tpch", "--scale-factor", "1", "--parts", "4", "--out", &dir];
    if datafusion_tributary_cli::main_with(make) != ExitCode::SUCCESS {
        return ExitCode::FAILURE;
    }
    let compare = [
        "tributary",
        "bench",
        "--suite",
        "tpch",
        "--workers",
        "4",
        "--compare-single",
        "--data",
        &dir,
    ];
    let compare = compare.into_iter().map(ToOwned::to_owned).chain(args);
    datafusion_tributary_cli::main_with(compare)
}
