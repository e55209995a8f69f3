//! What a column holds, as far as a query has to know.

/// Columns of one class can be compared with each other, whatever their types are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Small integers of any width: nothing that is done with them overflows.
    Int,
    /// Integers near the ends of their type, for which nothing is computed.
    Huge,
    /// Multiples of a power of two: their sum has no rounding, so it doesn't depend on their order.
    Float,
    /// Finite floats that don't depend on the order of rows, though their sum would.
    Real,
    /// Floats with NaN, infinities and both zeros. DataFusion's `min` and `max` of groups depend on
    /// where a NaN stands.
    Wild,
    /// Floats that depend on the order of rows by their rounding: nothing may be decided by them.
    Inexact,
    Bool,
    Text,
    Decimal,
    Date,
    Time,
    ZonedTime,
    Binary,
    /// Lists of integers.
    List,
    /// Structs and other lists, which are only carried.
    Nested,
}

impl Class {
    /// Whether a value's equality to another one doesn't depend on rounding.
    pub(super) fn is_exact(self) -> bool {
        self != Self::Inexact
    }

    /// Whether a query can join on it, and sort by it.
    pub(super) fn is_comparable(self) -> bool {
        !matches!(self, Self::Inexact | Self::List | Self::Nested)
    }

    /// Whether a window can go by its order too; DataFusion has no ranges of bytes.
    pub(super) fn is_ordered(self) -> bool {
        self.is_comparable() && self != Self::Binary
    }

    /// Whether its least and greatest value are the same in every order of rows.
    pub(super) fn has_extremes(self) -> bool {
        self.is_comparable() && self != Self::Wild
    }

    /// Whether sums of it are the same in every order of rows.
    pub(super) fn is_summable(self) -> bool {
        matches!(self, Self::Int | Self::Float | Self::Decimal)
    }
}

/// A column, or an expression in its place.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) sql: String,
    pub(super) class: Class,
}

impl Column {
    pub(super) fn new(sql: impl Into<String>, class: Class) -> Self {
        Self { sql: sql.into(), class }
    }
}
