//! Encoding and decoding are inverse, and nothing that a peer sends does harm.

mod batches;
mod messages;
