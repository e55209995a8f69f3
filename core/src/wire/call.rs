//! The first message of every call, and the answer to `info`.

use bytes::Bytes;
use prost::Message;

use super::check::{malformed, required};
use super::parts::{
    deadline_from_wire, deadline_to_wire, query_from_wire, query_to_wire, task_from_wire,
    task_to_wire, u128_from_wire, u128_to_wire,
};
use super::proto;
use crate::error::Result;
use crate::ids::{Incarnation, OutputIdx};
use crate::limits::MAX_OUTPUTS_PER_TASK;
use crate::metadata::Metadata;
use crate::protocol::{FetchRequest, OpenQuery, WorkerInfo, WorkerState};

/// What a peer asks for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Call {
    /// A control session.
    OpenQuery(OpenQuery),
    /// Outputs of a task.
    Fetch(FetchRequest),
    /// What the worker says of itself.
    Info,
}

/// A call as bytes. Who sends it is not in it: the serving side stamps that. Nor are a session's
/// first commands, which follow it as its others do.
pub fn encode_call(call: &Call) -> Bytes {
    use proto::call::Call as Wire;
    let call = match call {
        Call::OpenQuery(open) => Wire::OpenQuery(open_to_wire(open)),
        Call::Fetch(fetch) => Wire::Fetch(fetch_to_wire(fetch)),
        Call::Info => Wire::Info(proto::Info {}),
    };
    proto::Call { call: Some(call) }.encode_to_vec().into()
}

/// The call of these bytes, its deadline on this machine's clock.
///
/// # Errors
/// `Protocol` for bytes that aren't a call of this version.
pub fn decode_call(bytes: Bytes) -> Result<Call> {
    use proto::call::Call as Wire;
    let call = proto::Call::decode(bytes).map_err(|error| malformed("a call", error))?;
    Ok(match required(call.call, "a call of a known kind")? {
        Wire::OpenQuery(open) => Call::OpenQuery(open_from_wire(open)?),
        Wire::Fetch(fetch) => Call::Fetch(fetch_from_wire(fetch)?),
        Wire::Info(proto::Info {}) => Call::Info,
    })
}

fn open_to_wire(open: &OpenQuery) -> proto::OpenQuery {
    let option =
        |(key, value): &(String, String)| proto::Option { key: key.clone(), value: value.clone() };
    let metadatum = |(key, value): (&str, &[u8])| proto::Metadatum {
        key: key.to_owned(),
        value: Bytes::copy_from_slice(value),
    };
    proto::OpenQuery {
        query: query_to_wire(open.query),
        protocol_version: open.protocol_version,
        datafusion_version: open.datafusion_version.clone(),
        remaining_ms: deadline_to_wire(open.deadline),
        options: open.options.iter().map(option).collect(),
        metadata: open.metadata.iter().map(metadatum).collect(),
    }
}

fn open_from_wire(open: proto::OpenQuery) -> Result<OpenQuery> {
    let mut metadata = Metadata::default();
    for proto::Metadatum { key, value } in open.metadata {
        // The sender's checks are repeated: it may be another program.
        metadata.insert(&key, value)?;
    }
    Ok(OpenQuery {
        query: query_from_wire(&open.query)?,
        protocol_version: open.protocol_version,
        datafusion_version: open.datafusion_version,
        deadline: deadline_from_wire(open.remaining_ms),
        options: open.options.into_iter().map(|option| (option.key, option.value)).collect(),
        metadata,
        first: Vec::new(),
        peer: None,
    })
}

fn fetch_to_wire(fetch: &FetchRequest) -> proto::Fetch {
    proto::Fetch {
        task: Some(task_to_wire(fetch.task)),
        outputs: fetch.outputs.iter().map(|output| output.0).collect(),
        remaining_ms: deadline_to_wire(fetch.deadline),
        message_target_bytes: u64::try_from(fetch.message_target_bytes).unwrap_or(u64::MAX),
        compression: fetch.compression.to_string(),
    }
}

fn fetch_from_wire(fetch: proto::Fetch) -> Result<FetchRequest> {
    if fetch.outputs.len() > MAX_OUTPUTS_PER_TASK {
        return Err(malformed("a fetch", format!("{} outputs", fetch.outputs.len())));
    }
    Ok(FetchRequest {
        task: task_from_wire(fetch.task)?,
        outputs: fetch.outputs.into_iter().map(OutputIdx).collect(),
        deadline: deadline_from_wire(fetch.remaining_ms),
        message_target_bytes: usize::try_from(fetch.message_target_bytes).unwrap_or(usize::MAX),
        compression: fetch
            .compression
            .parse()
            .map_err(|error| malformed("a compression", error))?,
    })
}

/// The answer to [`Call::Info`] as bytes.
pub fn encode_info(info: &WorkerInfo) -> Bytes {
    let info = proto::WorkerInfo {
        protocol_version: info.protocol_version,
        version: info.version.clone(),
        datafusion_version: info.datafusion_version.clone(),
        incarnation: u128_to_wire(info.incarnation.0),
        n_cores: info.n_cores,
        n_queries: info.n_queries,
        n_tasks: info.n_tasks,
        is_draining: info.state == WorkerState::Draining,
    };
    info.encode_to_vec().into()
}

/// The answer of these bytes.
///
/// # Errors
/// `Protocol` for bytes that aren't one.
pub fn decode_info(bytes: Bytes) -> Result<WorkerInfo> {
    let info =
        proto::WorkerInfo::decode(bytes).map_err(|error| malformed("a worker's info", error))?;
    Ok(WorkerInfo {
        protocol_version: info.protocol_version,
        version: info.version,
        datafusion_version: info.datafusion_version,
        incarnation: Incarnation(u128_from_wire(&info.incarnation, "an incarnation")?),
        n_cores: info.n_cores,
        n_queries: info.n_queries,
        n_tasks: info.n_tasks,
        state: if info.is_draining { WorkerState::Draining } else { WorkerState::Ready },
    })
}
