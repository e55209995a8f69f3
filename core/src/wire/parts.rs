//! Identities, deadlines and other small parts of messages.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::check::{malformed, required};
use super::proto;
use crate::error::Result;
use crate::ids::{QueryId, StageId, TaskId, TaskIdx};

pub(super) fn u128_to_wire(bits: u128) -> Bytes {
    Bytes::copy_from_slice(&bits.to_be_bytes())
}

pub(super) fn u128_from_wire(bytes: &[u8], what: &str) -> Result<u128> {
    let bits: [u8; 16] = bytes
        .try_into()
        .map_err(|_| malformed(what, format!("{} bytes instead of 16", bytes.len())))?;
    Ok(u128::from_be_bytes(bits))
}

pub(super) fn query_to_wire(query: QueryId) -> Bytes {
    u128_to_wire(query.as_u128())
}

pub(super) fn query_from_wire(bytes: &[u8]) -> Result<QueryId> {
    u128_from_wire(bytes, "a query id").map(QueryId::from_u128)
}

pub(super) fn task_to_wire(id: TaskId) -> proto::TaskId {
    proto::TaskId { query: query_to_wire(id.query), stage: id.stage.0, task: id.task.0 }
}

pub(super) fn task_from_wire(id: Option<proto::TaskId>) -> Result<TaskId> {
    let id = required(id, "a task id")?;
    let query = query_from_wire(&id.query)?;
    Ok(TaskId { query, stage: StageId(id.stage), task: TaskIdx(id.task) })
}

/// Clocks of two machines can't be compared, so what is left travels: rounded up, so that only a
/// deadline that has passed becomes 0.
pub(super) fn deadline_to_wire(deadline: Option<Instant>) -> Option<u64> {
    let left = deadline?.saturating_duration_since(now());
    let left_ms = left.as_nanos().div_ceil(1_000_000);
    Some(u64::try_from(left_ms).unwrap_or(u64::MAX))
}

/// The deadline on this machine's clock; none where the clock can't express it.
pub(super) fn deadline_from_wire(remaining_ms: Option<u64>) -> Option<Instant> {
    now().checked_add(Duration::from_millis(remaining_ms?))
}

/// The time as tokio's timers see it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
