//! The `tributary` binary; everything it does is in the library beside it.

use std::process::ExitCode;

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    datafusion_tributary_cli::main()
}
