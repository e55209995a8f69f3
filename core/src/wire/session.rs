//! Messages of a control session.

use bytes::{Bytes, BytesMut};
use datafusion::common::ScalarValue;
use datafusion_proto::protobuf;
use prost::Message;
use url::Url;

use super::check::{malformed, required};
use super::error::{error_from_wire, error_to_wire, remote_from_wire, remote_to_wire};
use super::metrics::{metrics_from_wire, metrics_to_wire, nodes_from_wire, nodes_to_wire};
use super::parts::{task_from_wire, task_to_wire};
use super::proto;
use super::scalar::read_scalar;
use crate::error::{ErrorKind, RemoteError, Result, TransportError};
use crate::ids::{StageId, TaskIdx};
use crate::limits::{MAX_CONTROL_BYTES, MAX_PLAN_BYTES, PLAN_PIECE_BYTES};
use crate::protocol::{
    AddTasks, SessionCommand, SessionEvent, StagePlan, StageRoutes, TaskPlan, TaskReport,
};

/// A command as messages, each of about [`PLAN_PIECE_BYTES`] at most, so that pings pass between
/// the pieces of a plan.
///
/// # Errors
/// `ResourcesExhausted` for a plan above [`MAX_PLAN_BYTES`]; what DataFusion says of a subquery's
/// value that it can't encode.
pub fn encode_command(command: SessionCommand) -> Result<impl Iterator<Item = Bytes> + Send> {
    use proto::command::Command as Wire;
    let (single, mut plan) = match command {
        SessionCommand::AddTasks(add) => (None, Some(add_tasks_to_bytes(*add)?)),
        SessionCommand::Seal => (Some(Wire::Seal(proto::Seal {})), None),
        SessionCommand::Finish => (Some(Wire::Finish(proto::Finish {})), None),
        SessionCommand::Ping(number) => (Some(Wire::Ping(number)), None),
    };
    let pieces = std::iter::from_fn(move || {
        let rest = plan.as_mut()?;
        let bytes = rest.split_to(rest.len().min(PLAN_PIECE_BYTES));
        let is_last = rest.is_empty();
        if is_last {
            plan = None;
        }
        Some(Wire::AddTasks(proto::Piece { bytes, is_last }))
    });
    let to_bytes = |command| Bytes::from(proto::Command { command: Some(command) }.encode_to_vec());
    Ok(single.into_iter().chain(pieces).map(to_bytes))
}

/// Puts commands together from their messages.
#[derive(Debug, Default)]
pub struct CommandDecoder {
    pieces: BytesMut,
}

impl CommandDecoder {
    /// Takes the next message; the command, if it is complete.
    ///
    /// # Errors
    /// `Protocol` for bytes that aren't a command, and for a plan above [`MAX_PLAN_BYTES`].
    pub fn decode(&mut self, bytes: Bytes) -> Result<Option<SessionCommand>> {
        use proto::command::Command as Wire;
        let command =
            proto::Command::decode(bytes).map_err(|error| malformed("a command", error))?;
        match required(command.command, "a command of a known kind")? {
            Wire::AddTasks(piece) => self.add_piece(&piece),
            Wire::Seal(proto::Seal {}) => Ok(Some(SessionCommand::Seal)),
            Wire::Finish(proto::Finish {}) => Ok(Some(SessionCommand::Finish)),
            Wire::Ping(number) => Ok(Some(SessionCommand::Ping(number))),
        }
    }

    fn add_piece(&mut self, piece: &proto::Piece) -> Result<Option<SessionCommand>> {
        if self.pieces.len() + piece.bytes.len() > MAX_PLAN_BYTES {
            return Err(malformed("a plan", format!("it has more than {MAX_PLAN_BYTES} bytes")));
        }
        self.pieces.extend_from_slice(&piece.bytes);
        if !piece.is_last {
            return Ok(None);
        }
        let add = add_tasks_from_bytes(self.pieces.split().freeze())?;
        Ok(Some(SessionCommand::AddTasks(Box::new(add))))
    }
}

fn add_tasks_to_bytes(add: AddTasks) -> Result<Bytes> {
    let task = |task: TaskPlan| proto::TaskPlan { task: task.task.0, leaves: task.leaves };
    let add = proto::AddTasks {
        stage: Some(stage_to_wire(add.stage)?),
        tasks: add.tasks.into_iter().map(task).collect(),
    };
    let n_bytes = add.encoded_len();
    if n_bytes > MAX_PLAN_BYTES {
        let text = format!(
            "a stage's plan of {n_bytes} bytes is above the limit of {MAX_PLAN_BYTES} bytes; lower \
             distributed.max_inline_bytes or scan fewer files"
        );
        return Err(TransportError::Remote(Box::new(RemoteError::new(
            ErrorKind::ResourcesExhausted,
            text,
        ))));
    }
    Ok(add.encode_to_vec().into())
}

fn add_tasks_from_bytes(bytes: Bytes) -> Result<AddTasks> {
    let add = proto::AddTasks::decode(bytes).map_err(|error| malformed("tasks", error))?;
    let task = |task: proto::TaskPlan| TaskPlan { task: TaskIdx(task.task), leaves: task.leaves };
    Ok(AddTasks {
        stage: stage_from_wire(required(add.stage, "a stage")?)?,
        tasks: add.tasks.into_iter().map(task).collect(),
    })
}

fn stage_to_wire(stage: StagePlan) -> Result<proto::StagePlan> {
    let value = |value: &ScalarValue| -> Result<Bytes> {
        let value = protobuf::ScalarValue::try_from(value).map_err(|error| {
            TransportError::internal(format!("a subquery's value can't be encoded: {error}"))
        })?;
        Ok(value.encode_to_vec().into())
    };
    let routes = |routes: StageRoutes| proto::StageRoutes {
        stage: routes.stage.0,
        workers: routes.workers.into_iter().map(String::from).collect(),
    };
    Ok(proto::StagePlan {
        stage: stage.stage.0,
        n_tasks: stage.n_tasks,
        plan: stage.plan,
        subquery_values: stage.subquery_values.iter().map(value).collect::<Result<_>>()?,
        inputs: stage.inputs.into_iter().map(routes).collect(),
    })
}

fn stage_from_wire(stage: proto::StagePlan) -> Result<StagePlan> {
    let url = |text: String| {
        Url::parse(&text).map_err(|error| malformed("a worker's URL", format!("{text:?}: {error}")))
    };
    let routes = |routes: proto::StageRoutes| -> Result<_> {
        let workers = routes.workers.into_iter().map(url).collect::<Result<_>>()?;
        Ok(StageRoutes { stage: StageId(routes.stage), workers })
    };
    Ok(StagePlan {
        stage: StageId(stage.stage),
        n_tasks: stage.n_tasks,
        plan: stage.plan,
        subquery_values: stage
            .subquery_values
            .iter()
            .map(|value| read_scalar(value))
            .collect::<Result<_>>()?,
        inputs: stage.inputs.into_iter().map(routes).collect::<Result<_>>()?,
    })
}

/// What a worker answers to a call that opens a session, before any event.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SessionMessage {
    /// The session is open.
    Opened,
    /// An event of the open session. [`SessionEvent::Failed`] before `Opened` is the answer to the
    /// call.
    Event(SessionEvent),
}

/// A message of a worker's as bytes. An answer whose metrics are above [`MAX_CONTROL_BYTES`] travels
/// without them, because a query shouldn't fail for its statistics.
pub fn encode_session_message(message: &SessionMessage) -> Bytes {
    let bytes = Bytes::from(event_to_wire(message).encode_to_vec());
    if bytes.len() <= MAX_CONTROL_BYTES {
        return bytes;
    }
    let bare = |report: &TaskReport| TaskReport {
        task: report.task,
        metrics: Vec::new(),
        sent: Vec::new(),
    };
    let event = match message {
        SessionMessage::Event(SessionEvent::Finished(reports)) => {
            SessionEvent::Finished(reports.iter().map(bare).collect())
        }
        SessionMessage::Event(SessionEvent::TaskDone(report)) => {
            SessionEvent::TaskDone(bare(report))
        }
        _ => return bytes,
    };
    event_to_wire(&SessionMessage::Event(event)).encode_to_vec().into()
}

/// The message of these bytes.
///
/// # Errors
/// `Protocol` for bytes that aren't one.
pub fn decode_session_message(bytes: Bytes) -> Result<SessionMessage> {
    use proto::event::Event as Wire;
    let event = proto::Event::decode(bytes).map_err(|error| malformed("an event", error))?;
    Ok(SessionMessage::Event(match required(event.event, "an event of a known kind")? {
        Wire::Opened(proto::Opened {}) => return Ok(SessionMessage::Opened),
        Wire::TaskDone(report) => SessionEvent::TaskDone(report_from_wire(report)?),
        Wire::TaskFailed(failed) => SessionEvent::TaskFailed {
            task: task_from_wire(failed.task)?,
            error: Box::new(remote_from_wire(required(failed.error, "a task's error")?)),
        },
        Wire::Finished(finished) => {
            let reports = finished.reports.into_iter().map(report_from_wire);
            SessionEvent::Finished(reports.collect::<Result<_>>()?)
        }
        Wire::Pong(number) => SessionEvent::Pong(number),
        Wire::Failed(error) => SessionEvent::Failed(error_from_wire(error)),
    }))
}

fn event_to_wire(message: &SessionMessage) -> proto::Event {
    use proto::event::Event as Wire;
    let event = match message {
        SessionMessage::Opened => Wire::Opened(proto::Opened {}),
        SessionMessage::Event(SessionEvent::TaskDone(report)) => {
            Wire::TaskDone(report_to_wire(report))
        }
        SessionMessage::Event(SessionEvent::TaskFailed { task, error }) => {
            Wire::TaskFailed(proto::TaskFailed {
                task: Some(task_to_wire(*task)),
                error: Some(remote_to_wire(error)),
            })
        }
        SessionMessage::Event(SessionEvent::Finished(reports)) => Wire::Finished(proto::Finished {
            reports: reports.iter().map(report_to_wire).collect(),
        }),
        SessionMessage::Event(SessionEvent::Pong(number)) => Wire::Pong(*number),
        SessionMessage::Event(SessionEvent::Failed(error)) => Wire::Failed(error_to_wire(error)),
    };
    proto::Event { event: Some(event) }
}

fn report_to_wire(report: &TaskReport) -> proto::TaskReport {
    proto::TaskReport {
        task: Some(task_to_wire(report.task)),
        nodes: nodes_to_wire(&report.metrics),
        sent: metrics_to_wire(&report.sent),
    }
}

fn report_from_wire(report: proto::TaskReport) -> Result<TaskReport> {
    Ok(TaskReport {
        task: task_from_wire(report.task)?,
        metrics: nodes_from_wire(report.nodes)?,
        sent: metrics_from_wire(report.sent)?,
    })
}
