//! Encoding and decoding are inverse, and nothing that a peer sends does harm.

mod batches;
mod corpus;
mod hostile;
mod kinds;
mod messages;
mod raw;
mod received;
