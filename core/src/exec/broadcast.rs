//! The producer's side of a broadcast: every partition of the input, once for each consumer.

use std::collections::VecDeque;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, OnceLock, Weak};

use arrow::record_batch::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet, SpillMetrics};
use datafusion::physical_plan::spill::spill_pool::{SpillPoolSink, spsc_channel};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SpillManager,
};
use futures::StreamExt;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Offers each input partition `n_copies` times: output `copy × n_input_partitions + partition`.
///
/// The input is read while at least one live copy has nothing left to read, as in
/// `RepartitionExec`: a copy that lags behind never blocks the others. What it hasn't read counts
/// against the memory pool and overflows to spill files.
#[derive(Debug)]
pub struct BroadcastExec {
    input: Arc<dyn ExecutionPlan>,
    n_copies: u32,
    properties: Arc<PlanProperties>,
    fans: Vec<OnceLock<Arc<Fan>>>,
    metrics: ExecutionPlanMetricsSet,
}

impl BroadcastExec {
    /// Copies of `input` for `n_copies` consumers.
    pub fn new(input: Arc<dyn ExecutionPlan>, n_copies: u32) -> Self {
        let n_input = input.properties().partitioning.partition_count();
        let properties = PlanProperties::new(
            input.properties().eq_properties.clone(),
            Partitioning::UnknownPartitioning(n_input * n_copies as usize),
            EmissionType::Incremental,
            input.properties().boundedness,
        );
        Self {
            input,
            n_copies,
            properties: Arc::new(properties),
            fans: std::iter::repeat_with(OnceLock::new).take(n_input).collect(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The plan whose rows are copied.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// The number of consumers.
    pub fn n_copies(&self) -> u32 {
        self.n_copies
    }

    fn with_input(&self, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        Ok(Self::new(input, self.n_copies))
    }
}

impl DisplayAs for BroadcastExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "BroadcastExec: copies={}", self.n_copies)
            }
            DisplayFormatType::TreeRender => writeln!(f, "copies={}", self.n_copies),
        }
    }
}

impl ExecutionPlan for BroadcastExec {
    crate::plan_node!(BroadcastExec, over input);
    crate::plan_node!(no expressions);

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (copy, input) = (partition / self.fans.len(), partition % self.fans.len());
        let fan = self.fans[input].get_or_init(|| Arc::new(Fan::new(self, input, &context)));
        fan.start(|| self.input.execute(input, context))?;
        let reader = Reader { fan: Arc::clone(fan), copy, spilled: fan.take_spill_reader(copy)? };
        let stream = futures::stream::try_unfold(reader, |mut reader| async move {
            Ok(reader.next().await?.map(|batch| (batch, reader)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// One input partition and its copies.
#[derive(Debug)]
struct Fan {
    state: Mutex<State>,
    /// Wakes readers and the pump alike: both look again.
    changed: Arc<Notify>,
    pump: Mutex<Option<SpawnedTask<()>>>,
    memory: Mutex<MemoryReservation>,
}

struct State {
    copies: Vec<Copy>,
    end: Option<Result<(), Arc<DataFusionError>>>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("n_copies", &self.copies.len()).finish_non_exhaustive()
    }
}

struct Copy {
    queue: VecDeque<Item>,
    is_gone: bool,
    sink: SpillPoolSink,
    spill_reader: Option<SendableRecordBatchStream>,
}

enum Item {
    InMemory { batch: RecordBatch, _reserved: Arc<Reserved> },
    Spilled,
}

/// A share in a batch's memory, freed with the last copy.
struct Reserved {
    fan: Weak<Fan>,
    bytes: usize,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(fan) = self.fan.upgrade() {
            fan.memory.lock().shrink(self.bytes);
        }
    }
}

impl Fan {
    fn new(exec: &BroadcastExec, partition: usize, context: &Arc<TaskContext>) -> Self {
        let spill_metrics = SpillMetrics::new(&exec.metrics, partition);
        let manager =
            Arc::new(SpillManager::new(context.runtime_env(), spill_metrics, exec.schema()));
        let max_file_bytes =
            context.session_config().options().execution.max_spill_file_size_bytes.get();
        let new_copy = || {
            let (sink, reader) = spsc_channel(max_file_bytes, Arc::clone(&manager));
            Copy { queue: VecDeque::new(), is_gone: false, sink, spill_reader: Some(reader) }
        };
        let memory = MemoryConsumer::new(format!("BroadcastExec[{partition}]"))
            .with_can_spill(true)
            .register(context.memory_pool());
        Self {
            state: Mutex::new(State {
                copies: std::iter::repeat_with(new_copy).take(exec.n_copies as usize).collect(),
                end: None,
            }),
            changed: Arc::new(Notify::new()),
            pump: Mutex::new(None),
            memory: Mutex::new(memory),
        }
    }

    fn start(
        self: &Arc<Self>,
        input: impl FnOnce() -> Result<SendableRecordBatchStream>,
    ) -> Result<()> {
        let mut pump = self.pump.lock();
        if pump.is_none() {
            // The pump must not keep the fan alive: the fan's drop is what aborts it.
            let changed = Arc::clone(&self.changed);
            *pump = Some(SpawnedTask::spawn(run_pump(Arc::downgrade(self), changed, input()?)));
        }
        Ok(())
    }

    fn take_spill_reader(&self, copy: usize) -> Result<SendableRecordBatchStream> {
        self.state.lock().copies[copy].spill_reader.take().ok_or_else(|| {
            DataFusionError::Internal(format!("copy {copy} of a broadcast was executed twice"))
        })
    }

    /// Whether the pump should read on: some live copy has nothing left. `None` when none lives.
    fn is_wanted(&self) -> Option<bool> {
        let state = self.state.lock();
        let mut live = state.copies.iter().filter(|copy| !copy.is_gone).peekable();
        live.peek()?;
        Some(live.any(|copy| copy.queue.is_empty()))
    }

    fn push(self: &Arc<Self>, batch: &RecordBatch) -> Result<()> {
        // A spill pool skips empty batches, and readers would wait for them.
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let bytes = batch.get_array_memory_size();
        let reserved = self
            .memory
            .lock()
            .try_grow(bytes)
            .is_ok()
            .then(|| Arc::new(Reserved { fan: Arc::downgrade(self), bytes }));
        let mut state = self.state.lock();
        for copy in state.copies.iter_mut().filter(|copy| !copy.is_gone) {
            match &reserved {
                Some(reserved) => {
                    copy.queue.push_back(Item::InMemory {
                        batch: batch.clone(),
                        _reserved: Arc::clone(reserved),
                    });
                }
                None => {
                    copy.sink.push_batch(batch)?;
                    copy.queue.push_back(Item::Spilled);
                }
            }
        }
        drop(state);
        self.changed.notify_waiters();
        Ok(())
    }

    fn end(&self, end: Result<()>) {
        self.state.lock().end = Some(end.map_err(Arc::new));
        self.changed.notify_waiters();
    }
}

async fn run_pump(fan: Weak<Fan>, changed: Arc<Notify>, mut input: SendableRecordBatchStream) {
    while wait_until_wanted(&fan, &changed).await {
        let item = input.next().await;
        let Some(fan) = fan.upgrade() else { return };
        match item {
            Some(Ok(batch)) => {
                if let Err(error) = fan.push(&batch) {
                    return fan.end(Err(error));
                }
            }
            Some(Err(error)) => return fan.end(Err(error)),
            None => return fan.end(Ok(())),
        }
    }
}

/// Resolves to true when the pump should read on, to false when no copy is left.
async fn wait_until_wanted(fan: &Weak<Fan>, changed: &Notify) -> bool {
    loop {
        let mut changed = pin!(changed.notified());
        changed.as_mut().enable();
        match fan.upgrade().and_then(|fan| fan.is_wanted()) {
            Some(true) => return true,
            Some(false) => changed.await,
            None => return false,
        }
    }
}

/// Reads one copy.
struct Reader {
    fan: Arc<Fan>,
    copy: usize,
    spilled: SendableRecordBatchStream,
}

impl Reader {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let fan = Arc::clone(&self.fan);
        loop {
            let mut changed = pin!(fan.changed.notified());
            changed.as_mut().enable();
            match self.pop() {
                Some(Ok(Item::InMemory { batch, .. })) => return Ok(Some(batch)),
                Some(Ok(Item::Spilled)) => return self.spilled.next().await.transpose(),
                Some(Err(end)) => return end.map(|()| None),
                None => changed.await,
            }
        }
    }

    /// The next item or the end; `None` while there is nothing.
    fn pop(&self) -> Option<Result<Item, Result<()>>> {
        let mut state = self.fan.state.lock();
        if let Some(item) = state.copies[self.copy].queue.pop_front() {
            drop(state);
            self.fan.changed.notify_waiters();
            return Some(Ok(item));
        }
        state.end.clone().map(|end| Err(end.map_err(DataFusionError::Shared)))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let dropped = {
            let mut state = self.fan.state.lock();
            let copy = &mut state.copies[self.copy];
            copy.is_gone = true;
            std::mem::take(&mut copy.queue)
        };
        drop(dropped);
        self.fan.changed.notify_waiters();
    }
}
