//! The transport contract over gRPC, and the mutants that it has to find there.

use datafusion_tributary_core::conformance::mutants::check_mutants;

mod support;

mod over_plain_text {
    datafusion_tributary_core::conformance_suite!(crate::support::plain_fixture());
}

mod over_mutual_tls {
    datafusion_tributary_core::conformance_suite!(crate::support::mutual_tls_fixture());
}

#[test]
fn every_mutant_is_found_and_nothing_else() -> Result<(), String> {
    check_mutants(&support::plain_fixture())
}
