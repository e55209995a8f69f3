//! A session's commands on their way to a wire.

use std::collections::VecDeque;
use std::fmt;
use std::iter;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::error::Result;
use crate::limits::SESSION_QUEUE;
use crate::protocol::SessionCommand;
use crate::wire::encode_command;

/// Commands as messages, in order but for pings, which go between the pieces of a plan: a long plan
/// must not end the lease that they keep.
pub struct CommandMessages {
    commands: mpsc::Receiver<SessionCommand>,
    first: VecDeque<SessionCommand>,
    held: VecDeque<SessionCommand>,
    pieces: Box<dyn Iterator<Item = Bytes> + Send>,
}

impl CommandMessages {
    /// The messages of these commands.
    pub fn new(commands: mpsc::Receiver<SessionCommand>) -> Self {
        Self {
            commands,
            first: VecDeque::new(),
            held: VecDeque::new(),
            pieces: Box::new(iter::empty()),
        }
    }

    /// These commands before the others.
    #[must_use]
    pub fn with_first(mut self, first: Vec<SessionCommand>) -> Self {
        self.first = first.into();
        self
    }

    /// The next message, or none after the last command. Cancel-safe.
    ///
    /// # Errors
    /// That of a command that can't be sent.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            while self.held.len() < SESSION_QUEUE
                && let Ok(command) = self.commands.try_recv()
            {
                match command {
                    ping @ SessionCommand::Ping(_) => {
                        return Ok(encode_command(ping)?.next());
                    }
                    other => self.held.push_back(other),
                }
            }
            if let Some(piece) = self.pieces.next() {
                return Ok(Some(piece));
            }
            let command = match self.first.pop_front().or_else(|| self.held.pop_front()) {
                Some(command) => command,
                None => match self.commands.recv().await {
                    Some(command) => command,
                    None => return Ok(None),
                },
            };
            self.pieces = Box::new(encode_command(command)?);
        }
    }
}

impl fmt::Debug for CommandMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandMessages")
            .field("first", &self.first)
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{StageId, TaskIdx};
    use crate::limits::PLAN_PIECE_BYTES;
    use crate::protocol::{AddTasks, StagePlan, TaskPlan};
    use crate::wire::CommandDecoder;

    #[tokio::test]
    async fn what_comes_with_the_opening_is_first() {
        let (commands, receiver) = mpsc::channel(8);
        commands.try_send(SessionCommand::Finish).expect("room");
        drop(commands);
        let first = vec![SessionCommand::Seal; SESSION_QUEUE + 1];
        let mut messages = CommandMessages::new(receiver).with_first(first);
        let mut decoder = CommandDecoder::default();
        let mut decoded = Vec::new();
        while let Some(message) = messages.next().await.expect("sent") {
            decoded.extend(decoder.decode(message).expect("a message"));
        }
        assert_eq!(decoded.len(), SESSION_QUEUE + 2);
        assert!(matches!(decoded.last(), Some(SessionCommand::Finish)), "{decoded:?}");
    }

    #[tokio::test]
    async fn pings_go_between_the_pieces_of_a_plan() {
        let plan = vec![7; 3 * PLAN_PIECE_BYTES].into();
        let stage = StagePlan {
            stage: StageId(1),
            n_tasks: 1,
            plan,
            subquery_values: Vec::new(),
            inputs: Vec::new(),
        };
        let tasks = vec![TaskPlan { task: TaskIdx(0), leaves: Vec::new() }];
        let (commands, receiver) = mpsc::channel(8);
        let add = SessionCommand::AddTasks(Box::new(AddTasks { stage, tasks }));
        commands.try_send(add).expect("room");
        let mut messages = CommandMessages::new(receiver);
        let mut decoder = CommandDecoder::default();
        let first = messages.next().await.expect("sent").expect("a piece");
        assert!(decoder.decode(first).expect("a piece").is_none());
        commands.try_send(SessionCommand::Seal).expect("room");
        commands.try_send(SessionCommand::Ping(1)).expect("room");
        drop(commands);
        let mut decoded = Vec::new();
        while let Some(message) = messages.next().await.expect("sent") {
            decoded.extend(decoder.decode(message).expect("a message"));
        }
        let is_in_order = matches!(
            decoded.as_slice(),
            [SessionCommand::Ping(1), SessionCommand::AddTasks(_), SessionCommand::Seal]
        );
        assert!(is_in_order, "{decoded:?}");
    }
}
