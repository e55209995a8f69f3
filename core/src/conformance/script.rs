//! A plan that does what a case has written down, and counts what is asked of it.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use arrow::array::{ArrayRef, BinaryArray, Int64Array};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use dashmap::DashMap;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use tokio::sync::watch;

/// The scripts of this process by number: what travels is the number.
static SCRIPTS: LazyLock<DashMap<u64, Weak<Script>>> = LazyLock::new(DashMap::new);
static NEXT_SCRIPT: AtomicU64 = AtomicU64::new(1);

/// What an output does next.
#[derive(Clone)]
pub(super) enum Step {
    Batch(RecordBatch),
    /// Waits until the gate is open.
    Wait(Gate),
    Fail(Arc<dyn Fn() -> DataFusionError + Send + Sync>),
    Panic(&'static str),
}

impl Step {
    pub(super) fn fail(make: impl Fn() -> DataFusionError + Send + Sync + 'static) -> Self {
        Self::Fail(Arc::new(make))
    }
}

/// Closed until it is opened.
#[derive(Clone, Debug)]
pub(super) struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    pub(super) fn closed() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    pub(super) fn open(&self) {
        self.0.send_replace(true);
    }

    async fn opened(&self) {
        // The sender is alive: it is in `self`.
        let _ = self.0.subscribe().wait_for(|is_open| *is_open).await;
    }
}

/// What each output of a plan does.
pub(super) struct Script {
    id: u64,
    schema: SchemaRef,
    outputs: Vec<Vec<Step>>,
    progress: Vec<Progress>,
    /// Makes the encoded plan longer by that many bytes, which are checked when it is decoded.
    pub(super) padding: usize,
}

#[derive(Debug, Default)]
struct Progress {
    executed: AtomicUsize,
    produced: AtomicUsize,
    dropped: AtomicUsize,
}

impl Script {
    pub(super) fn new(schema: SchemaRef, outputs: Vec<Vec<Step>>) -> Arc<Self> {
        Self::padded(schema, outputs, 0)
    }

    pub(super) fn padded(schema: SchemaRef, outputs: Vec<Vec<Step>>, padding: usize) -> Arc<Self> {
        let id = NEXT_SCRIPT.fetch_add(1, Ordering::Relaxed);
        let progress = outputs.iter().map(|_| Progress::default()).collect();
        let script = Arc::new(Self { id, schema, outputs, progress, padding });
        SCRIPTS.insert(id, Arc::downgrade(&script));
        script
    }

    /// How often an output was executed.
    pub(super) fn executed(&self, output: usize) -> usize {
        self.progress[output].executed.load(Ordering::Acquire)
    }

    /// How many batches an output has given.
    pub(super) fn produced(&self, output: usize) -> usize {
        self.progress[output].produced.load(Ordering::Acquire)
    }

    /// How many batches all outputs have given.
    pub(super) fn produced_by_all(&self) -> usize {
        (0..self.outputs.len()).map(|output| self.produced(output)).sum()
    }

    /// How often an output's stream was dropped.
    pub(super) fn dropped(&self, output: usize) -> usize {
        self.progress[output].dropped.load(Ordering::Acquire)
    }

    pub(super) fn plan(self: &Arc<Self>) -> Arc<dyn ExecutionPlan> {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&self.schema)),
            Partitioning::UnknownPartitioning(self.outputs.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Arc::new(ScriptExec { script: Arc::clone(self), properties: Arc::new(properties) })
    }

    fn padding_byte(&self, idx: usize) -> u8 {
        (idx as u64).wrapping_mul(31).wrapping_add(self.id).to_le_bytes()[0]
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        SCRIPTS.remove(&self.id);
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script")
            .field("id", &self.id)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}

/// Batch number `nth` of one column: ten rows, all that number.
pub(super) fn numbered(nth: usize) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![i64::try_from(nth).unwrap_or(-1); 10]));
    RecordBatch::try_from_iter([("n", column)]).expect("one column")
}

/// A batch of rows of `row_bytes`, each filled with its number.
pub(super) fn long_rows(n_rows: usize, row_bytes: usize) -> RecordBatch {
    let rows = (0..n_rows).map(|row| Some(vec![row.to_le_bytes()[0]; row_bytes]));
    let column: ArrayRef = Arc::new(rows.collect::<BinaryArray>());
    RecordBatch::try_from_iter([("b", column)]).expect("one column")
}

#[derive(Debug)]
struct ScriptExec {
    script: Arc<Script>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for ScriptExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScriptExec")
    }
}

impl ExecutionPlan for ScriptExec {
    crate::plan_node!(ScriptExec, leaf);
    crate::plan_node!(no expressions);

    fn execute(
        &self,
        partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.script.progress[partition].executed.fetch_add(1, Ordering::AcqRel);
        let running = Running { script: Arc::clone(&self.script), output: partition, next: 0 };
        let stream = futures::stream::unfold(running, Running::step);
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.script.schema), stream)))
    }
}

/// One execution of one output.
struct Running {
    script: Arc<Script>,
    output: usize,
    next: usize,
}

impl Running {
    async fn step(mut self) -> Option<(Result<RecordBatch>, Self)> {
        loop {
            let step = self.script.outputs[self.output].get(self.next)?.clone();
            self.next += 1;
            match step {
                Step::Batch(batch) => {
                    self.script.progress[self.output].produced.fetch_add(1, Ordering::AcqRel);
                    return Some((Ok(batch), self));
                }
                Step::Wait(gate) => gate.opened().await,
                Step::Fail(make) => return Some((Err(make()), self)),
                // Without the hook, whose report would look like a failure of the case.
                Step::Panic(text) => std::panic::resume_unwind(Box::new(text)),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.script.progress[self.output].dropped.fetch_add(1, Ordering::AcqRel);
    }
}

/// Carries a script's number.
#[derive(Debug)]
pub(super) struct ScriptCodec;

impl PhysicalExtensionCodec for ScriptCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        _inputs: &[Arc<dyn ExecutionPlan>],
        _task: &TaskContext,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let broken = |text: &str| DataFusionError::Execution(text.to_owned());
        let (id, padding) =
            buf.split_first_chunk().ok_or_else(|| broken("a script without its number"))?;
        let script = SCRIPTS.get(&u64::from_le_bytes(*id)).and_then(|script| script.upgrade());
        let script = script.ok_or_else(|| broken("a script that is over"))?;
        let is_whole = padding.len() == script.padding
            && padding.iter().enumerate().all(|(idx, byte)| *byte == script.padding_byte(idx));
        if !is_whole {
            return Err(broken("a plan that was changed on its way"));
        }
        Ok(script.plan())
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(exec) = node.downcast_ref::<ScriptExec>() else {
            return Err(DataFusionError::NotImplemented("not a script".to_owned()));
        };
        buf.extend(exec.script.id.to_le_bytes());
        buf.extend((0..exec.script.padding).map(|idx| exec.script.padding_byte(idx)));
        Ok(())
    }
}
