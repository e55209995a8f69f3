//! Warnings of the libraries below, such as one about a certificate that can't be read again, on
//! standard error.

use log::{LevelFilter, Log, Metadata, Record};

/// Takes the process's log, unless somebody has it.
pub(super) fn install() {
    if log::set_logger(&StandardError).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}

struct StandardError;

impl Log for StandardError {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= LevelFilter::Warn
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let level = record.level().as_str().to_ascii_lowercase();
            super::say(&format!("{level}: {} ({})", record.args(), record.target()));
        }
    }

    fn flush(&self) {}
}
