//! The life of a task as a pure state machine: events in, actions out, no clock and no I/O.
//!
//! A task waits until one of its outputs is polled, then drives all of them. It is over when every
//! output has ended or lost its reader, when it never started and the query ends, or when it is
//! aborted.

/// What happened to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// An output was polled for the first time.
    Polled(usize),
    /// An output's reader is gone.
    Released(usize),
    /// An output's driver has produced its first batch.
    FirstBatch(usize),
    /// An output's driver has ended, well or with an error.
    Ended(usize),
    /// The query is over.
    Abort,
}

/// What the driver of the state machine has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Start a driver for every output.
    Start,
    /// Stop one output's driver.
    Stop(usize),
    /// Drop the plan and report; nothing follows.
    Finish,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    Running,
    Over,
}

#[derive(Clone, Copy, Debug, Default)]
struct OutputStatus {
    released: bool,
    has_batch: bool,
    ended: bool,
}

/// The state of one task.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    phase: Phase,
    outputs: Vec<OutputStatus>,
}

impl Lifecycle {
    /// A task that waits. One without outputs starts at nothing and is over only by abort.
    pub(crate) fn new(n_outputs: usize) -> Self {
        Self { phase: Phase::Waiting, outputs: vec![OutputStatus::default(); n_outputs] }
    }

    /// Whether the task has been started.
    pub(crate) fn was_started(&self) -> bool {
        self.outputs.iter().any(|output| output.ended || output.has_batch)
            || self.phase == Phase::Running
    }

    /// Whether the task is over.
    pub(crate) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Takes an event and says what to do, in order.
    pub(crate) fn on(&mut self, event: Event) -> Vec<Action> {
        if self.phase == Phase::Over {
            return Vec::new();
        }
        let mut actions = Vec::new();
        match event {
            Event::Polled(_) => {
                if self.phase == Phase::Waiting {
                    self.phase = Phase::Running;
                    actions.push(Action::Start);
                }
            }
            Event::Released(output) => {
                self.outputs[output].released = true;
                actions.extend(self.stop_if_useless(output));
            }
            Event::FirstBatch(output) => {
                self.outputs[output].has_batch = true;
                actions.extend(self.stop_if_useless(output));
            }
            Event::Ended(output) => self.outputs[output].ended = true,
            Event::Abort => {
                self.phase = Phase::Over;
                return vec![Action::Finish];
            }
        }
        if self.outputs.iter().all(|output| output.released || output.ended) {
            self.phase = Phase::Over;
            actions.push(Action::Finish);
        }
        actions
    }

    /// A released output is driven to its first batch, because operators such as a hash join wait
    /// until each of their partitions has begun.
    fn stop_if_useless(&mut self, output: usize) -> Option<Action> {
        let status = &mut self.outputs[output];
        if !status.released || !status.has_batch || status.ended {
            return None;
        }
        status.ended = true;
        Some(Action::Stop(output))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn starts_at_the_first_poll_only() {
        let mut task = Lifecycle::new(2);
        assert_eq!(task.on(Event::Polled(1)), [Action::Start]);
        assert_eq!(task.on(Event::Polled(0)), []);
    }

    #[test]
    fn a_released_output_is_driven_to_its_first_batch() {
        let mut task = Lifecycle::new(2);
        task.on(Event::Polled(0));
        assert_eq!(task.on(Event::Released(1)), []);
        assert_eq!(task.on(Event::FirstBatch(1)), [Action::Stop(1)]);
        assert_eq!(task.on(Event::FirstBatch(0)), []);
        assert_eq!(task.on(Event::Ended(0)), [Action::Finish]);
    }

    #[test]
    fn the_last_release_ends_the_task() {
        let mut task = Lifecycle::new(2);
        task.on(Event::Polled(0));
        task.on(Event::FirstBatch(0));
        task.on(Event::Released(1));
        assert_eq!(task.on(Event::Released(0)), [Action::Stop(0), Action::Finish]);
        assert!(task.is_over());
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = (0..5u8, 0..3usize).prop_map(|(kind, output)| match kind {
            0 => Event::Polled(output),
            1 => Event::Released(output),
            2 => Event::FirstBatch(output),
            3 => Event::Ended(output),
            _ => Event::Abort,
        });
        prop::collection::vec(event, 0..40)
    }

    proptest! {
        #[test]
        fn starts_and_finishes_at_most_once_and_is_silent_afterwards(events in events()) {
            let mut task = Lifecycle::new(3);
            let mut actions = Vec::new();
            for event in events {
                let was_over = task.is_over();
                let new = task.on(event);
                prop_assert!(!was_over || new.is_empty());
                actions.extend(new);
            }
            for action in [Action::Start, Action::Finish] {
                prop_assert!(actions.iter().filter(|a| **a == action).count() <= 1);
            }
            actions.extend(task.on(Event::Abort));
            prop_assert!(task.is_over());
            prop_assert_eq!(actions.last(), Some(&Action::Finish));
        }
    }
}
