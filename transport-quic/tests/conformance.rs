//! The transport contract over QUIC, and the mutants that it has to find there.

use datafusion_tributary_core::conformance::TransportFixture;
use datafusion_tributary_core::conformance::mutants::{MUTANTS, found_without_defect};

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

fn fixture() -> TransportFixture {
    TransportFixture::new(support::transport(), support::listen)
}

datafusion_tributary_core::conformance_suite!(fixture());

#[test]
fn every_mutant_is_found_and_nothing_else() {
    let fixture = fixture();
    assert_eq!(found_without_defect(&fixture), [""; 0]);
    let survived = MUTANTS.iter().filter(|mutant| match mutant.found(&fixture) {
        Some(found) => {
            println!("{mutant:?}: {found}");
            false
        }
        None => true,
    });
    let survived: Vec<_> = survived.collect();
    assert!(survived.is_empty(), "the suite doesn't notice that a channel {survived:?}");
}
