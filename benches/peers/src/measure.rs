//! Time, processor time and page faults.

use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};

use crate::Result;
use crate::contender::Contender;

/// When a round ends.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// After the pass in which this time is over.
    Time(Duration),
    /// After the pass that moves the last of so many bytes.
    Bytes(u64),
    /// After so many passes.
    Passes(u64),
}

impl Limit {
    fn is_reached(self, n_passes: u64, sample: &Sample) -> bool {
        match self {
            Self::Time(time) => sample.wall >= time,
            Self::Bytes(bytes) => sample.bytes >= bytes,
            Self::Passes(passes) => n_passes >= passes,
        }
    }
}

/// One round of one contender.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Bytes of Arrow buffers that were moved.
    pub bytes: u64,
    /// How long it took.
    pub wall: Duration,
    /// User and system time of all threads of both sides.
    pub cpu: Duration,
    /// Minor page faults.
    pub faults: u64,
}

impl Sample {
    /// Gigabytes (10⁹) a second.
    pub fn gb_per_second(&self) -> f64 {
        self.bytes as f64 / 1e9 / self.wall.as_secs_f64()
    }

    /// Seconds of processor time for each gigabyte.
    pub fn cpu_per_gb(&self) -> f64 {
        self.cpu.as_secs_f64() / (self.bytes as f64 / 1e9)
    }

    /// Minor page faults for each megabyte (10⁶).
    pub fn faults_per_mb(&self) -> f64 {
        self.faults as f64 / (self.bytes as f64 / 1e6)
    }
}

/// Runs passes of a contender until the limit is reached.
///
/// # Errors
/// The contender's.
pub async fn round(contender: &dyn Contender, limit: Limit) -> Result<Sample> {
    let who = match contender.runs_in_children() {
        true => UsageWho::RUSAGE_CHILDREN,
        false => UsageWho::RUSAGE_SELF,
    };
    let before = Usage::of(who)?;
    let mut sample = Sample::default();
    let mut n_passes = 0;
    while !limit.is_reached(n_passes, &sample) {
        let start = Instant::now();
        let moved = contender.pass().await?;
        sample.wall += moved.wall.unwrap_or_else(|| start.elapsed());
        sample.bytes += moved.bytes;
        n_passes += 1;
    }
    let after = Usage::of(who)?;
    sample.cpu = after.cpu.saturating_sub(before.cpu);
    sample.faults = after.faults.saturating_sub(before.faults);
    Ok(sample)
}

struct Usage {
    cpu: Duration,
    faults: u64,
}

impl Usage {
    fn of(who: UsageWho) -> Result<Self> {
        let usage = getrusage(who)?;
        let time = |value: nix::sys::time::TimeVal| {
            Duration::from_micros((value.tv_sec() * 1_000_000 + value.tv_usec()).unsigned_abs())
        };
        Ok(Self {
            cpu: time(usage.user_time()) + time(usage.system_time()),
            faults: usage.minor_page_faults().unsigned_abs(),
        })
    }
}

/// The middle one of some values, or the mean of the two in the middle; NaN if there are none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let sorted = sorted(values);
    match (sorted.len() / 2, sorted.len() % 2) {
        (0, 0) => f64::NAN,
        (half, 0) => f64::midpoint(sorted[half - 1], sorted[half]),
        (half, _) => sorted[half],
    }
}

/// The smallest value that at least `percent` per cent of the values don't exceed.
pub fn percentile(values: impl IntoIterator<Item = f64>, percent: usize) -> f64 {
    let sorted = sorted(values);
    let nth = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(nth).copied().unwrap_or(f64::NAN)
}

fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<_> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// How busy the machine is, as `/proc/loadavg` says it.
pub fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg");
    let text = text.unwrap_or_else(|error| format!("unknown ({error})"));
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles() {
        assert_eq!((median([3.0, 1.0, 2.0]), median([4.0, 1.0, 2.0, 3.0])), (2.0, 2.5));
        assert!(median([]).is_nan() && percentile([], 90).is_nan());
        let hundred = || (1..=100).map(f64::from);
        assert_eq!((percentile(hundred(), 90), percentile([5.0], 90)), (90.0, 5.0));
    }
}
