//! The transport contract over QUIC, and the mutants that it has to find there.

use datafusion_tributary_core::conformance::mutants::check_mutants;

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

datafusion_tributary_core::conformance_suite!(support::fixture());

#[test]
fn every_mutant_is_found_and_nothing_else() -> Result<(), String> {
    check_mutants(&support::fixture())
}
