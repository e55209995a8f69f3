//! The transport contract over gRPC, and the mutants that it has to find there.

use datafusion_tributary_core::conformance::TransportFixture;
use datafusion_tributary_core::conformance::mutants::{MUTANTS, found_without_defect};

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

fn plain() -> TransportFixture {
    TransportFixture::new(support::plain(), || support::listen("grpc"))
}

mod over_plain_text {
    datafusion_tributary_core::conformance_suite!(super::plain());
}

mod over_mutual_tls {
    use super::*;

    datafusion_tributary_core::conformance_suite!(TransportFixture::new(
        support::mutual_tls(),
        || support::listen("grpcs")
    ));
}

#[test]
fn every_mutant_is_found_and_nothing_else() {
    let fixture = plain();
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
