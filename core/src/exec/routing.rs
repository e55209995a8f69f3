//! Which outputs of which tasks a consumer's partition reads: the arithmetic of the exchanges.

use std::fmt;

use crate::ids::{OutputIdx, TaskIdx};

/// How an exchange distributes its producers' rows over its consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeKind {
    /// By hash: row `r` goes to `hash(r) % (n_consumers × n_partitions)`, of which the quotient by
    /// `n_partitions` is the consumer and the remainder its partition. The remainder equals
    /// `hash(r) % n_partitions`, as operators inside the consumer assume.
    Shuffle,
    /// Gathers the partitions of N tasks into fewer tasks.
    Coalesce,
    /// Every consumer gets every row.
    Broadcast,
    /// Batches in turn: numbered as in a shuffle, but whatever their rows are.
    RoundRobin,
    /// By the ranges of a sort key: outputs are in the order of the key, and each consumer has as
    /// many of them in a row as it has partitions.
    Range,
    /// Gathers N tasks into fewer tasks of one partition each, which is the partitions of its
    /// producers one after another, in the order of the tasks and of their partitions.
    Concatenate,
}

impl ExchangeKind {
    /// The kind's number on the wire.
    pub fn number(self) -> u32 {
        match self {
            Self::Shuffle => 1,
            Self::Coalesce => 2,
            Self::Broadcast => 3,
            Self::RoundRobin => 4,
            Self::Range => 5,
            Self::Concatenate => 6,
        }
    }

    /// The kind with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        [
            Self::Shuffle,
            Self::Coalesce,
            Self::Broadcast,
            Self::RoundRobin,
            Self::Range,
            Self::Concatenate,
        ]
        .into_iter()
        .find(|kind| kind.number() == number)
    }
}

impl fmt::Display for ExchangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shuffle => "shuffle",
            Self::Coalesce => "coalesce",
            Self::Broadcast => "broadcast",
            Self::RoundRobin => "round_robin",
            Self::Range => "range",
            Self::Concatenate => "concatenate",
        })
    }
}

/// One output that a partition of a consumer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// The producing task.
    pub task: TaskIdx,
    /// Its output.
    pub output: OutputIdx,
}

/// The counts that decide an exchange's routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routing {
    /// How rows are distributed.
    pub kind: ExchangeKind,
    /// Tasks that produce.
    pub n_producers: u32,
    /// Partitions of the producers' plan, before any fan-out.
    pub n_producer_partitions: u32,
    /// Tasks that consume.
    pub n_consumers: u32,
    /// Partitions of each consumer that rows are distributed to: not of a gather or a broadcast.
    pub n_shuffle_partitions: u32,
}

impl Routing {
    /// Partitions that each consumer sees.
    pub fn n_partitions(&self) -> u32 {
        match self.kind {
            ExchangeKind::Shuffle | ExchangeKind::RoundRobin | ExchangeKind::Range => {
                self.n_shuffle_partitions
            }
            ExchangeKind::Coalesce => self.producers_per_consumer() * self.n_producer_partitions,
            ExchangeKind::Broadcast => self.n_producers * self.n_producer_partitions,
            ExchangeKind::Concatenate => 1,
        }
    }

    /// Outputs that each producer offers.
    pub fn n_outputs(&self) -> u32 {
        match self.kind {
            ExchangeKind::Shuffle | ExchangeKind::RoundRobin | ExchangeKind::Range => {
                self.n_consumers * self.n_shuffle_partitions
            }
            ExchangeKind::Coalesce | ExchangeKind::Concatenate => self.n_producer_partitions,
            ExchangeKind::Broadcast => self.n_consumers * self.n_producer_partitions,
        }
    }

    /// The outputs that one partition of one consumer reads, in the order of a concatenation.
    pub fn sources(&self, consumer: u32, partition: u32) -> Vec<Source> {
        let source = |task, output| Source { task: TaskIdx(task), output: OutputIdx(output) };
        match self.kind {
            ExchangeKind::Shuffle | ExchangeKind::RoundRobin | ExchangeKind::Range => {
                let output = consumer * self.n_shuffle_partitions + partition;
                (0..self.n_producers).map(|task| source(task, output)).collect()
            }
            ExchangeKind::Coalesce => {
                let nth = partition / self.n_producer_partitions;
                let task = consumer * self.producers_per_consumer() + nth;
                let output = partition % self.n_producer_partitions;
                (task < self.n_producers).then(|| source(task, output)).into_iter().collect()
            }
            ExchangeKind::Broadcast => {
                let task = partition / self.n_producer_partitions;
                let copy_of = partition % self.n_producer_partitions;
                vec![source(task, consumer * self.n_producer_partitions + copy_of)]
            }
            ExchangeKind::Concatenate => {
                let n_tasks = self.producers_per_consumer();
                let tasks = (consumer * n_tasks..self.n_producers).take(n_tasks as usize);
                let outputs = |task| (0..self.n_producer_partitions).map(move |n| source(task, n));
                tasks.flat_map(outputs).collect()
            }
        }
    }

    /// The outputs of one task that the partitions of one consumer read, in their order.
    pub fn outputs_of(&self, task: TaskIdx, consumer: u32) -> Vec<OutputIdx> {
        let sources =
            (0..self.n_partitions()).flat_map(|partition| self.sources(consumer, partition));
        sources.filter(|source| source.task == task).map(|source| source.output).collect()
    }

    fn producers_per_consumer(&self) -> u32 {
        self.n_producers.div_ceil(self.n_consumers.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// Their list, which doesn't compile where a kind is missing.
    macro_rules! kinds {
        ($($kind:ident),+) => {{
            let _is_complete = |kind: ExchangeKind| match kind {
                $(ExchangeKind::$kind => (),)+
            };
            [$(ExchangeKind::$kind),+]
        }};
    }

    fn kinds() -> [ExchangeKind; 6] {
        kinds![Shuffle, Coalesce, Broadcast, RoundRobin, Range, Concatenate]
    }

    fn routing() -> impl Strategy<Value = Routing> {
        let kind = prop::sample::select(kinds().to_vec());
        (kind, 1..6u32, 1..5u32, 1..6u32, 1..5u32).prop_map(
            |(kind, n_producers, n_producer_partitions, n_consumers, n_shuffle_partitions)| {
                Routing {
                    kind,
                    n_producers,
                    n_producer_partitions,
                    n_consumers,
                    n_shuffle_partitions,
                }
            },
        )
    }

    /// Other processes know kinds by these numbers, and users by these names.
    #[test]
    fn every_kind_keeps_its_number_and_name() {
        let known = kinds().map(|kind| (kind.number(), kind.to_string()));
        let known: Vec<_> = known.iter().map(|(number, name)| (*number, name.as_str())).collect();
        let names = ["shuffle", "coalesce", "broadcast", "round_robin", "range", "concatenate"];
        assert_eq!(known, (1..).zip(names).collect::<Vec<_>>());
        let read: Vec<_> = (0..20).filter_map(ExchangeKind::from_number).collect();
        assert_eq!(read, kinds());
    }

    proptest! {
        #[test]
        fn every_output_of_every_task_is_read_exactly_once(routing in routing()) {
            let mut read = HashSet::new();
            for consumer in 0..routing.n_consumers {
                for partition in 0..routing.n_partitions() {
                    for source in routing.sources(consumer, partition) {
                        prop_assert!(source.task.0 < routing.n_producers);
                        prop_assert!(source.output.0 < routing.n_outputs());
                        prop_assert!(read.insert(source), "{:?} is read twice", source);
                    }
                }
            }
            prop_assert_eq!(read.len() as u32, routing.n_producers * routing.n_outputs());
            for task in (0..routing.n_producers).map(TaskIdx) {
                let consumers = 0..routing.n_consumers;
                let outputs = consumers.flat_map(|consumer| routing.outputs_of(task, consumer));
                for output in outputs {
                    let source = Source { task, output };
                    prop_assert!(read.remove(&source), "{:?} isn't read", source);
                }
            }
            prop_assert!(read.is_empty(), "{:?} belong to no task", read);
        }
    }

    /// What a range exchange sends in the order of its outputs is read in that order.
    #[test]
    fn ranges_are_concatenated_in_order() {
        let ranges = Routing {
            kind: ExchangeKind::Range,
            n_producers: 2,
            n_producer_partitions: 7,
            n_consumers: 3,
            n_shuffle_partitions: 2,
        };
        let concatenation = Routing {
            kind: ExchangeKind::Concatenate,
            n_producers: ranges.n_consumers,
            n_producer_partitions: ranges.n_partitions(),
            n_consumers: 1,
            n_shuffle_partitions: 1,
        };
        assert_eq!((concatenation.n_partitions(), concatenation.n_outputs()), (1, 2));
        let outputs = concatenation.sources(0, 0).into_iter().map(|read| {
            let from = ranges.sources(read.task.0, read.output.0);
            assert_eq!(from.iter().map(|source| source.task.0).collect::<Vec<_>>(), [0, 1]);
            assert!(from.iter().all(|source| source.output == from[0].output), "{from:?}");
            from[0].output.0
        });
        assert_eq!(outputs.collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    }
}
