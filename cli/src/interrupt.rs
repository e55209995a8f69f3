//! Ctrl-C cancels the running statement, not the process.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

use crate::error::{CliError, Result};

/// A process has one handler, however many commands it runs.
static INSTALLED: OnceLock<Result<Interrupt, String>> = OnceLock::new();

/// The process's handler of Ctrl-C.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt {
    notify: Arc<Notify>,
    pending: Arc<AtomicBool>,
}

impl Interrupt {
    /// Takes over Ctrl-C, for good.
    pub(crate) fn install() -> Result<Self> {
        INSTALLED.get_or_init(Self::try_install).clone().map_err(CliError::Usage)
    }

    fn try_install() -> Result<Self, String> {
        let interrupt = Self::default();
        let (notify, pending) = (Arc::clone(&interrupt.notify), Arc::clone(&interrupt.pending));
        ctrlc::set_handler(move || {
            // a statement that doesn't react to the first one is ended by the second
            if pending.swap(true, Ordering::SeqCst) {
                process::exit(130);
            }
            notify.notify_waiters();
        })
        .map_err(|e| format!("cannot handle Ctrl-C: {e}"))?;
        Ok(interrupt)
    }

    /// Runs `work` to its end, or drops it on Ctrl-C.
    pub(crate) async fn guard<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.pending.store(false, Ordering::SeqCst);
        tokio::select! {
            result = work => result,
            // Still pending: the next press ends a process that doesn't end by itself.
            () = self.notify.notified() => Err(CliError::Interrupted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test]
    async fn a_guarded_statement_is_dropped() {
        let interrupt = Interrupt::default();
        let notify = Arc::clone(&interrupt.notify);
        let press = async {
            tokio::task::yield_now().await;
            notify.notify_waiters();
        };
        let (result, ()) = tokio::join!(interrupt.guard(pending::<Result<()>>()), press);
        assert!(matches!(result, Err(CliError::Interrupted)));
        // a press between statements does not cancel the next one
        interrupt.notify.notify_waiters();
        assert!(interrupt.guard(async { Ok(()) }).await.is_ok());
    }
}
