//! The batches that are moved: the same for every contender, and the same in each run.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, StringArray, TimestampNanosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatch;
use arrow::util::data_gen::create_random_batch;

use crate::Result;

/// Streams that are moved side by side, as many as datafusion-distributed's benchmark has partitions,
/// unless there are said to be more.
pub const N_OUTPUTS: usize = 8;

/// Rows of a wide batch: DataFusion's default.
const WIDE_ROWS: usize = 8192;

/// Distinct batches of each output. Together they leave the inner caches, as the batches of a query
/// do that were made a while ago.
const DISTINCT: usize = 2;

/// Rows of a batch in datafusion-distributed's benchmark.
pub const SMALL_ROWS: usize = 1024;

/// Prepared batches for some outputs, and how many of them are moved in one pass.
#[derive(Debug)]
pub struct Workload {
    n_outputs: usize,
    /// Further outputs have the batches of these, so that more outputs don't mean more memory.
    outputs: Vec<Vec<RecordBatch>>,
    n_batches: usize,
    batch_bytes: usize,
}

impl Workload {
    /// 8 columns × 8,192 rows, about 0.8 MB a batch; a pass moves about `pass_bytes`. Numbers and
    /// texts repeat about as much as those of TPC-H do, because random ones tell nothing about
    /// compression.
    ///
    /// # Errors
    /// Arrow's.
    pub fn wide(n_outputs: usize, pass_bytes: usize) -> Result<Arc<Self>> {
        let mut random = Random(1);
        let output = |_| (0..DISTINCT).map(|_| wide_batch(&mut random)).collect();
        let outputs = (0..N_OUTPUTS).map(output).collect::<Result<Vec<Vec<_>>>>()?;
        Ok(Self::new(n_outputs, outputs, pass_bytes))
    }

    /// Batches of 1,024 rows in the types of datafusion-distributed's benchmark.
    ///
    /// # Errors
    /// Arrow's.
    pub fn small(n_outputs: usize, pass_bytes: usize) -> Result<Arc<Self>> {
        Ok(Self::new(n_outputs, vec![vec![small_batch()?]; N_OUTPUTS], pass_bytes))
    }

    fn new(n_outputs: usize, outputs: Vec<Vec<RecordBatch>>, pass_bytes: usize) -> Arc<Self> {
        let all: Vec<_> = outputs.iter().flatten().collect();
        let batch_bytes = all.iter().map(|batch| buffer_bytes(batch)).sum::<usize>() / all.len();
        let n_batches = (pass_bytes / n_outputs).div_ceil(batch_bytes).max(1);
        Arc::new(Self { n_outputs, outputs, n_batches, batch_bytes })
    }

    /// Streams that are moved side by side.
    pub fn n_outputs(&self) -> usize {
        self.n_outputs
    }

    /// The batches' schema.
    pub fn schema(&self) -> SchemaRef {
        self.outputs[0][0].schema()
    }

    /// The batches of one output in one pass.
    pub fn output(
        self: &Arc<Self>,
        output: usize,
    ) -> impl Iterator<Item = RecordBatch> + Send + use<> {
        let workload = Arc::clone(self);
        (0..self.n_batches).map(move |nth| {
            let batches = workload.distinct(output);
            batches[nth % batches.len()].clone()
        })
    }

    /// The distinct batches of one output, in the order in which they come.
    pub fn distinct(&self, output: usize) -> &[RecordBatch] {
        &self.outputs[output % self.outputs.len()]
    }

    /// Batches of each output in one pass.
    pub fn n_batches(&self) -> usize {
        self.n_batches
    }

    /// Rows of all outputs in one pass.
    pub fn pass_rows(&self) -> usize {
        let rows = |output: usize| -> usize {
            let batches = self.distinct(output).iter().cycle().take(self.n_batches);
            batches.map(RecordBatch::num_rows).sum()
        };
        (0..self.n_outputs).map(rows).sum()
    }

    /// Bytes of Arrow buffers of all outputs in one pass.
    pub fn pass_bytes(&self) -> u64 {
        (self.batch_bytes * self.n_batches * self.n_outputs) as u64
    }

    /// One line about the batches.
    pub fn describe(&self) -> String {
        format!(
            "{} outputs, batches of {} rows and {} KiB, {} MiB a pass",
            self.n_outputs,
            self.outputs[0][0].num_rows(),
            self.batch_bytes >> 10,
            self.pass_bytes() >> 20
        )
    }
}

/// Bytes of a batch's Arrow buffers, as far as it uses them.
pub fn buffer_bytes(batch: &RecordBatch) -> usize {
    let bytes = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or(0);
    batch.columns().iter().map(bytes).sum()
}

/// A batch of [`SMALL_ROWS`] rows. The generator has a fixed seed: it is the batch that
/// datafusion-distributed's benchmark repeats.
///
/// # Errors
/// Arrow's.
pub fn small_batch() -> Result<RecordBatch> {
    Ok(create_random_batch(Arc::new(small_schema()), SMALL_ROWS, 0.1, 0.5)?)
}

/// The types of datafusion-distributed's benchmark, in its order.
fn small_schema() -> Schema {
    let category = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let tags = DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)));
    Schema::new(vec![
        Field::new("c0", DataType::Int64, false),
        Field::new("c1", DataType::Float64, false),
        Field::new("c2", DataType::Boolean, true),
        Field::new("c3", DataType::Utf8, true),
        Field::new("c4", category, true),
        Field::new("c5", DataType::UInt8, false),
        Field::new("c6", DataType::Timestamp(TimeUnit::Nanosecond, None), false),
        Field::new("c7", DataType::Int32, false),
        Field::new("c8", tags, true),
    ])
}

fn wide_batch(random: &mut Random) -> Result<RecordBatch> {
    const WORDS: [&str; 8] =
        ["carefully ", "final ", "deposits ", "sleep ", "above ", "ironic ", "furiously ", "bold "];
    let first = random.below(1 << 40);
    let mut i64s = |limit| -> ArrayRef {
        Arc::new((0..WIDE_ROWS).map(|_| random.below(limit)).collect::<Int64Array>())
    };
    let (customer, part) = (i64s(150_000), i64s(200_000));
    let mut f64s = |limit: i64, scale: f64| -> ArrayRef {
        let value = |_| random.below(limit) as f64 / scale;
        Arc::new((0..WIDE_ROWS).map(value).collect::<Float64Array>())
    };
    let (price, discount) = (f64s(10_000_000, 100.0), f64s(11, 100.0));
    let times = (0..WIDE_ROWS as i64).map(|nth| (first + nth) * 1_000_000);
    let quantity = (0..WIDE_ROWS).map(|_| random.below(50) as i32).collect::<Int32Array>();
    let comment = (0..WIDE_ROWS).map(|_| {
        (0..6).map(|_| WORDS[random.below(WORDS.len() as i64) as usize]).collect::<String>()
    });
    let columns: [(&str, ArrayRef); 8] = [
        ("id", Arc::new((first..).take(WIDE_ROWS).collect::<Int64Array>())),
        ("customer", customer),
        ("part", part),
        ("price", price),
        ("discount", discount),
        ("time", Arc::new(TimestampNanosecondArray::from_iter_values(times))),
        ("quantity", Arc::new(quantity)),
        ("comment", Arc::new(StringArray::from_iter_values(comment))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

/// Numbers that are the same in each run (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) % limit as u64) as i64
    }
}
