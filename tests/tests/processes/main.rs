//! Workers and coordinators in processes of their own: what becomes of a query, and of those who take
//! part in it, when one of them dies, falls silent, freezes, blocks or is told to stop.
//!
//! What is large, and what must not grow, is tried in this process, and the Flight service with a client
//! of another language. What depends on how workers are reached is tried over each transport.

/// Makes two tests of each function of a module that takes a network: over gRPC, and over QUIC.
macro_rules! over_each_network {
    (@ $network:ident: $($test:ident),+) => {
        mod $network {
            use datafusion_tributary_tests::processes::Network;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    super::$test(Network::$network()).await;
                }
            )+
        }
    };
    ($($test:ident),+ $(,)?) => {
        over_each_network!(@ grpc: $($test),+);
        over_each_network!(@ quic: $($test),+);
    };
}

mod blocked;
mod coordinator;
mod drain;
mod flight;
mod frozen;
mod health;
mod interrupted;
mod killed;
mod large;
mod many_files;
mod namespace;
mod refusals;
mod restarted;
mod silent;
mod stalled;
mod unreachable;

use datafusion_tributary_tests::processes::play_role;

/// No test, but what the others start as another process.
#[test]
fn worker_process() {
    play_role();
}
