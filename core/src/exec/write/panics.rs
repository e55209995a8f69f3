//! Panics of object stores, as errors.

use std::error::Error as StdError;
use std::panic::{AssertUnwindSafe, catch_unwind};

use datafusion::object_store::{Error, Result};
use futures::FutureExt;
use tokio::task::JoinError;

use crate::error::panic_text;

/// What a store's panic said.
#[derive(Debug, thiserror::Error)]
#[error("the object store panicked: {0}")]
struct StorePanic(String);

/// Runs an operation of a store, whose panic is an error.
pub(crate) async fn without_panic<T>(operation: impl Future<Output = Result<T>>) -> Result<T> {
    let result = AssertUnwindSafe(operation).catch_unwind().await;
    result.unwrap_or_else(|panic| Err(panicked(panic_text(panic.as_ref()))))
}

/// Calls a function of a store, whose panic is an error.
pub(super) fn call_without_panic<T>(function: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(function)).map_err(|panic| panicked(panic_text(panic.as_ref())))
}

fn panicked(text: &str) -> Error {
    Error::Generic { store: "a distributed write", source: Box::new(StorePanic(text.to_owned())) }
}

/// What a store's panic said, if the error comes from one; also one in a thread of the store's.
pub(crate) fn store_panic(error: &Error) -> Option<String> {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(StorePanic(text)) = error.downcast_ref() {
            return Some(text.clone());
        }
        if error.downcast_ref::<JoinError>().is_some_and(JoinError::is_panic) {
            return Some(error.to_string());
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::runtime::SpawnedTask;

    fn is_out_of(ink: &[u8]) -> Result<u8> {
        Ok(*ink.first().expect("out of ink"))
    }

    #[tokio::test]
    async fn what_a_panic_said_is_found_again() {
        let polled = without_panic(async { is_out_of(&[]) }).await.expect_err("it panics");
        let called = call_without_panic(|| is_out_of(&[])).expect_err("it panics");
        let elsewhere = SpawnedTask::spawn(async { is_out_of(&[]) }).await.expect_err("it panics");
        let elsewhere = Error::Generic { store: "other", source: Box::new(elsewhere) };
        for error in [polled, called, elsewhere] {
            assert!(store_panic(&error).is_some_and(|text| text.contains("out of ink")), "{error}");
        }
        let other = Error::Generic { store: "other", source: "it is full".into() };
        assert!(store_panic(&other).is_none());
        assert_eq!(without_panic(async { is_out_of(&[7]) }).await.expect("ink"), 7);
    }
}
