//! An operator that blocks its thread, as code does that knows nothing of async.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::not_impl_err;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};

/// What a process prints before it blocks.
pub const BLOCKING: &str = "blocking a thread";

static BLOCKS_FOR: OnceLock<Duration> = OnceLock::new();
static HAS_BLOCKED: AtomicBool = AtomicBool::new(false);

/// Makes the first call of [`blocks`] in this process block.
pub(super) fn block_once(time: Duration) {
    let _ = BLOCKS_FOR.set(time);
}

/// `blocks(x)`: `x`, by a thread that is blocked for a while in processes that were told to.
pub fn blocks() -> ScalarUDF {
    let function = |args: &[ColumnarValue]| {
        if let Some(time) = BLOCKS_FOR.get()
            && !HAS_BLOCKED.swap(true, Ordering::AcqRel)
        {
            println!("{BLOCKING}");
            block(*time);
        }
        match args {
            [value] => Ok(value.clone()),
            _ => not_impl_err!("it takes one argument"),
        }
    };
    let volatility = Volatility::Volatile;
    create_udf("blocks", vec![DataType::Int64], DataType::Int64, volatility, Arc::new(function))
}

/// Blocks the calling thread: the operator under test.
pub fn block(time: Duration) {
    let (_nobody_sends, wait) = mpsc::channel::<()>();
    let _ = wait.recv_timeout(time);
}
