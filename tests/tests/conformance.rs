//! The conformance suite over everything that speaks the worker protocol, and the mutants that it
//! has to find.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_tributary::core::conformance::mutants::{check_mutants, clauses_without_mutants};
use datafusion_tributary::core::conformance::{LocalTransport, TransportFixture};
use datafusion_tributary::core::transport::layer::{
    DeadlineChannel, EncodedChannel, MeteredChannel, TransferCounter,
};
use datafusion_tributary::inproc::InProcessTransport;
use url::Url;

#[path = "../../examples/custom_transport.rs"]
#[expect(dead_code, reason = "the example's main function isn't called here")]
mod custom_transport;

static NEXT: AtomicU64 = AtomicU64::new(0);

fn unique(scheme: &str) -> Url {
    let url = format!("{scheme}://conformance-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    url.parse().expect("a URL")
}

fn local() -> TransportFixture {
    TransportFixture::new(Arc::new(LocalTransport::default()), || unique("local"))
        .without_connections()
}

fn inproc(transport: InProcessTransport) -> TransportFixture {
    TransportFixture::new(Arc::new(transport), || unique("inproc")).without_connections()
}

mod worker {
    datafusion_tributary::core::conformance_suite!(super::local());
}

mod deadline_channel {
    use super::*;
    datafusion_tributary::core::conformance_suite!(
        local().wrapped(|inner| Arc::new(DeadlineChannel::new(inner)))
    );
}

mod metered_channel {
    use super::*;
    datafusion_tributary::core::conformance_suite!(local().wrapped(|inner| {
        let counter = TransferCounter::register(&ExecutionPlanMetricsSet::new(), 0);
        Arc::new(MeteredChannel::new(inner, Arc::new(counter)))
    }));
}

mod encoded_channel {
    use super::*;
    datafusion_tributary::core::conformance_suite!(
        local().wrapped(|inner| Arc::new(EncodedChannel::new(inner)))
    );
}

mod inproc_live {
    use super::*;
    datafusion_tributary::core::conformance_suite!(inproc(InProcessTransport::new()));
}

mod inproc_encoded {
    use super::*;
    datafusion_tributary::core::conformance_suite!(inproc(
        InProcessTransport::new().force_encode()
    ));
}

mod byte_pipe {
    use super::*;
    datafusion_tributary::core::conformance_suite!(custom_transport::pipe_fixture());
}

#[test]
fn every_clause_has_a_mutant() {
    assert_eq!(clauses_without_mutants(), [""; 0]);
}

#[test]
fn every_mutant_is_found_and_nothing_else() -> Result<(), String> {
    check_mutants(&custom_transport::pipe_fixture())
}
