//! Whatever a peer sends is read or refused, and what is read is valid. Nothing panics or aborts.
//!
//! The first byte of an input says what the others are; `core/tests/corpus_feed` reads them, and
//! `core/tests/corpus` has inputs to begin with.

#![no_main]

#[path = "../../core/tests/corpus_feed/mod.rs"]
mod corpus_feed;

use std::panic::{catch_unwind, set_hook};
use std::sync::{Mutex, Once, PoisonError};

use libfuzzer_sys::fuzz_target;

static HOOK: Once = Once::new();
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

fuzz_target!(|input: &[u8]| {
    // Panics of decoders of other crates are caught and become errors. libFuzzer's own hook would
    // take them for findings.
    HOOK.call_once(|| {
        set_hook(Box::new(|panic| {
            *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = panic.to_string();
        }));
    });
    if catch_unwind(|| corpus_feed::feed(input)).is_err() {
        eprintln!("{}", LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner));
        std::process::abort();
    }
});
