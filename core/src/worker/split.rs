//! Cuts batches into messages of about the wanted size.

use arrow::record_batch::RecordBatch;

use crate::error::{ErrorKind, RemoteError, Result, TransportError};
use crate::wire::{row_bytes, used_bytes};

/// A piece of a batch and the bytes that it uses.
pub(crate) type Piece = (RecordBatch, usize);

/// Slices `batch` so that each piece uses about `target_bytes` at most; a row above it travels
/// alone.
///
/// # Errors
/// `ResourcesExhausted` for a row above `max_row_bytes`.
pub(crate) fn split(
    batch: RecordBatch,
    target_bytes: usize,
    max_row_bytes: usize,
) -> Result<Vec<Piece>> {
    let mut pieces = Vec::with_capacity(1);
    split_into(batch, target_bytes, max_row_bytes, &mut pieces)?;
    Ok(pieces)
}

fn split_into(
    batch: RecordBatch,
    target_bytes: usize,
    max_row_bytes: usize,
    pieces: &mut Vec<Piece>,
) -> Result<()> {
    // Dictionaries don't count here: no cut makes them smaller.
    let bytes = row_bytes(&batch);
    let n_rows = batch.num_rows();
    if bytes <= target_bytes || n_rows <= 1 {
        if bytes > max_row_bytes && n_rows == 1 {
            return Err(over_long_row(bytes, max_row_bytes));
        }
        let bytes = used_bytes(&batch);
        pieces.push((batch, bytes));
        return Ok(());
    }
    // Rows may differ in length, so halves are measured again.
    let half = n_rows / 2;
    split_into(batch.slice(0, half), target_bytes, max_row_bytes, pieces)?;
    split_into(batch.slice(half, n_rows - half), target_bytes, max_row_bytes, pieces)
}

fn over_long_row(bytes: usize, max_row_bytes: usize) -> TransportError {
    TransportError::Remote(Box::new(RemoteError::new(
        ErrorKind::ResourcesExhausted,
        format!(
            "a row of {bytes} bytes is above the limit of {max_row_bytes} bytes for one row between workers"
        ),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, StringArray};
    use std::sync::Arc;

    fn strings(lengths: &[usize]) -> RecordBatch {
        let values: StringArray = lengths.iter().map(|n| Some("x".repeat(*n))).collect();
        RecordBatch::try_from_iter([("s", Arc::new(values) as ArrayRef)]).expect("a batch")
    }

    #[test]
    fn pieces_keep_all_rows_in_order_and_their_bound() {
        let batch = strings(&[10, 2000, 10, 10, 10, 10, 10, 300]);
        let pieces = split(batch.clone(), 500, 1 << 20).expect("short rows");
        assert!(pieces.iter().all(|(piece, bytes)| *bytes <= 600 || piece.num_rows() == 1));
        let schema = batch.schema();
        let joined = arrow::compute::concat_batches(&schema, pieces.iter().map(|(piece, _)| piece));
        assert_eq!(joined.expect("same schema"), batch);
    }

    #[test]
    fn over_long_rows_are_refused() {
        let error = split(strings(&[1, 5000]), 500, 4000).expect_err("too long");
        assert!(error.to_string().contains("Resources exhausted: "), "{error}");
    }
}
