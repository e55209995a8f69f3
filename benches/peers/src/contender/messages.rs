//! Batches as bytes, for what moves bytes and doesn't encode.

use std::sync::Arc;

use arrow::ipc::writer::StreamWriter;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;

use crate::Result;
use crate::batches::{N_OUTPUTS, Workload};

/// The IPC messages of a workload's batches, encoded before.
#[derive(Debug)]
pub(super) struct Messages {
    workload: Arc<Workload>,
    /// Those of the distinct batches of the outputs that differ.
    outputs: Vec<Vec<Bytes>>,
}

impl Messages {
    /// # Errors
    /// Arrow's.
    pub(super) fn encode(workload: &Arc<Workload>) -> Result<Self> {
        let encode_all = |output| workload.distinct(output).iter().map(encode).collect();
        // Further ones have the same batches.
        let outputs = 0..workload.n_outputs().min(N_OUTPUTS);
        let outputs = outputs.map(encode_all).collect::<Result<_>>()?;
        Ok(Self { workload: Arc::clone(workload), outputs })
    }

    /// The bytes of all outputs in one pass.
    pub(super) fn pass_bytes(self: &Arc<Self>) -> usize {
        (0..self.workload.n_outputs())
            .flat_map(|output| self.output(output))
            .map(|it| it.len())
            .sum()
    }

    /// The messages of one output in one pass.
    pub(super) fn output(
        self: &Arc<Self>,
        output: usize,
    ) -> impl Iterator<Item = Bytes> + Send + use<> {
        let messages = Arc::clone(self);
        (0..self.workload.n_batches()).map(move |nth| {
            let output = &messages.outputs[output % messages.outputs.len()];
            output[nth % output.len()].clone()
        })
    }
}

fn encode(batch: &RecordBatch) -> Result<Bytes> {
    let mut writer = StreamWriter::try_new(Vec::new(), batch.schema_ref())?;
    writer.write(batch)?;
    Ok(writer.into_inner()?.into())
}
