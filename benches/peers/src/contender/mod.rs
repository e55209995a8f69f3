//! The ways to move batches that are compared. All run in this process, both sides of each, on the
//! runtime of two threads (or `--threads`) that the benchmark starts; `iperf3` runs in two of its own.

mod bare;
mod distributed;
mod flight;
mod iperf;
mod messages;
mod ours;
mod quinn_bulk;
mod shuffle;
mod tcp;

use std::time::Duration;

use arrow::ipc::CompressionType;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::common::runtime::JoinSet;
use datafusion_tributary_core::config::Compression;
use futures::{Stream, StreamExt};

pub use self::bare::BareHttp2;
pub use self::distributed::DistributedShuffle;
pub use self::flight::{Flight, FlightSettings};
pub use self::iperf::{Iperf, is_installed as has_iperf};
pub use self::ours::{Fetches, Ours};
pub use self::quinn_bulk::QuinnBulk;
pub use self::shuffle::{OurShuffle, Scenario};
pub use self::tcp::RawTcp;
use crate::{Error, Result};

/// Frames of everything over HTTP/2 that is tuned: those of our own transport.
pub const FRAME_BYTES: u32 = 1 << 20;

/// Window of each stream where windows are tuned.
pub const STREAM_WINDOW_BYTES: u32 = 16 << 20;

/// Window of each connection where windows are tuned: never the limit.
pub const CONNECTION_WINDOW_BYTES: u32 = 1 << 30;

/// A way to move batches, ready to run: servers listen and connections are open. One pass runs at a
/// time, on the thread that measures.
#[async_trait(?Send)]
pub trait Contender {
    /// Moves all batches of one pass from one side to the other.
    async fn pass(&self) -> Result<Moved>;

    /// Whether the work is done by child processes, whose costs are counted instead.
    fn runs_in_children(&self) -> bool {
        false
    }
}

/// What a pass moved.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// Bytes of Arrow buffers, or of whatever stands for them.
    pub bytes: u64,
    /// How long the transfer itself took, where the pass has a start and an end around it.
    pub wall: Option<Duration>,
}

impl Moved {
    fn bytes(bytes: u64) -> Self {
        Self { bytes, wall: None }
    }
}

/// Arrow's name of a compression.
fn arrow_compression(compression: Compression) -> Option<CompressionType> {
    match compression {
        Compression::None => None,
        Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
        Compression::Zstd => Some(CompressionType::ZSTD),
    }
}

/// Reads every stream in a task of its own, drops what comes and counts the rows.
async fn count_rows<E: Into<Error>>(
    streams: impl IntoIterator<
        Item = impl Stream<Item = Result<RecordBatch, E>> + Unpin + Send + 'static,
    >,
) -> Result<usize> {
    let mut readers = JoinSet::new();
    for mut stream in streams {
        readers.spawn(async move {
            let mut n_rows = 0;
            while let Some(batch) = stream.next().await {
                n_rows += batch.map_err(Into::into)?.num_rows();
            }
            Ok::<_, Error>(n_rows)
        });
    }
    sum(readers).await
}

/// The sum of what all tasks return.
async fn sum(mut tasks: JoinSet<Result<usize>>) -> Result<usize> {
    let mut sum = 0;
    while let Some(done) = tasks.join_next().await {
        sum += done??;
    }
    Ok(sum)
}

/// Fails unless everything came that was sent.
fn expect_all(what: &str, came: usize, sent: usize) -> Result<()> {
    match came == sent {
        true => Ok(()),
        false => Err(format!("{came} {what} came of {sent} that were sent").into()),
    }
}
