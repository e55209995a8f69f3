//! How many queries ended how.

use std::fmt;
use std::ops::AddAssign;

use crate::slt::pair::Place;
use crate::slt::report::Outcome;

/// Queries by their outcome.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    n_passed: usize,
    n_spread: usize,
    n_failed: usize,
    n_both_fail: usize,
    n_not_compared: usize,
    n_leftovers: usize,
}

impl Tally {
    pub(super) fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Same(place) => {
                self.n_passed += 1;
                self.n_spread += usize::from(*place == Place::Spread);
            }
            Outcome::BothFail => self.n_both_fail += 1,
            Outcome::NotCompared(_) => self.n_not_compared += 1,
            Outcome::Different(_) => self.n_failed += 1,
        }
    }

    /// Counts a world after which workers kept something.
    pub(super) fn add_leftover(&mut self) {
        self.n_leftovers += 1;
    }

    /// Whether no query differs, and workers kept nothing.
    pub fn is_passed(&self) -> bool {
        self.n_failed + self.n_leftovers == 0
    }

    /// The last line of a run. A query that proves nothing is a skipped one.
    pub fn summary(&self) -> String {
        format!(
            "{} passed, {} failed, {} skipped",
            self.n_passed,
            self.n_failed,
            self.n_both_fail + self.n_not_compared
        )
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.n_passed += other.n_passed;
        self.n_spread += other.n_spread;
        self.n_failed += other.n_failed;
        self.n_both_fail += other.n_both_fail;
        self.n_not_compared += other.n_not_compared;
        self.n_leftovers += other.n_leftovers;
    }
}

/// All counts, in a line.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.n_spread as f64 / self.n_passed.max(1) as f64;
        write!(
            f,
            "{} equal ({percent:.0} % of them ran in two or more stages), {} different, {} fail on \
             both sides, {} not compared, workers kept something after {} worlds",
            self.n_passed, self.n_failed, self.n_both_fail, self.n_not_compared, self.n_leftovers
        )
    }
}
