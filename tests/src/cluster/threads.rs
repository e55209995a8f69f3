//! A runtime of its own for each worker, as a process has one.

use std::env;
use std::num::NonZeroUsize;

use datafusion::error::Result;
use tokio::runtime::{Builder, EnterGuard, Runtime};

/// Says how many threads each worker of a test has for itself.
const VARIABLE: &str = "TRIBUTARY_TEST_THREADS";

/// The threads that the environment asks for; none where workers run on their test's runtime.
///
/// # Panics
/// Where it asks for something that is no number above 0.
pub fn threads_chosen() -> Option<NonZeroUsize> {
    let number = env::var(VARIABLE).ok().filter(|number| !number.is_empty())?;
    Some(number.parse().unwrap_or_else(|error| panic!("{VARIABLE} is '{number}': {error}")))
}

/// A runtime that ends without being waited for, as tests end inside of another one.
#[derive(Debug)]
pub(super) struct OwnRuntime(Option<Runtime>);

impl OwnRuntime {
    /// Starts its threads.
    ///
    /// # Errors
    /// Of the operating system.
    pub(super) fn start(n_threads: NonZeroUsize, name: &str) -> Result<Self> {
        let mut builder = Builder::new_multi_thread();
        let builder = builder.worker_threads(n_threads.get()).thread_name(name).enable_all();
        Ok(Self(Some(builder.build()?)))
    }

    /// What is made while the guard lives runs there.
    pub(super) fn enter(&self) -> Option<EnterGuard<'_>> {
        self.0.as_ref().map(Runtime::enter)
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
