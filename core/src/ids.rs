//! Identities and positions as newtypes over explicit widths, so that a stage cannot be passed for
//! a task and nothing is cast on its way to the wire.

use std::fmt;

use uuid::Uuid;

/// Names one attempt to run a query. A retry is a new id, so that nothing of the attempt before can
/// be taken for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueryId(u128);

impl QueryId {
    /// A new random id.
    pub fn random() -> Self {
        Self(Uuid::new_v4().as_u128())
    }

    /// The id with these bits.
    pub const fn from_u128(bits: u128) -> Self {
        Self(bits)
    }

    /// The id's bits.
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

impl fmt::Display for QueryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Uuid::from_u128(self.0).simple().fmt(f)
    }
}

impl fmt::Debug for QueryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A worker process's life: two values differ if the process was restarted in between, whatever its
/// address. Also how two names of one worker are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation(pub u128);

impl Incarnation {
    /// A new random incarnation.
    pub fn random() -> Self {
        Self(Uuid::new_v4().as_u128())
    }
}

macro_rules! position {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            /// The position as an index into a slice.
            pub const fn as_usize(self) -> usize {
                // `usize` is at least 32 bits wide on every target that DataFusion supports.
                self.0 as usize
            }

            /// The position of an index.
            ///
            /// # Panics
            /// If the index does not fit in 32 bits, which a plan with its indices in memory
            /// cannot reach.
            pub fn from_usize(index: usize) -> Self {
                Self(u32::try_from(index).expect("an index below 2^32"))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

position!(
    /// A stage of a query. The head stage is 0.
    StageId
);
position!(
    /// A task of a stage.
    TaskIdx
);
position!(
    /// What one task offers to one reader.
    OutputIdx
);

/// The stage that the coordinator runs itself.
pub const HEAD_STAGE: StageId = StageId(0);

/// Names one task of one query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId {
    /// The query's attempt.
    pub query: QueryId,
    /// The stage.
    pub stage: StageId,
    /// The task's position in its stage.
    pub task: TaskIdx,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stage {}, task {} of query {}", self.stage, self.task, self.query)
    }
}
