//! One function per clause, `cNN_…`.

pub mod address;
pub mod data;
pub mod ends;
pub mod errors;
pub mod flow;
pub mod lookup;
pub mod loss;
pub mod open;
pub mod release;
pub mod start;
