//! The transport contract as a test suite.
//!
//! Each clause of [`WorkerChannel`](crate::transport::WorkerChannel)'s documentation has a case in
//! [`cases`] that is named after it. A [`Fixture`] says how to run them against a transport, and
//! [`conformance_suite!`](crate::conformance_suite) makes a test of each:
//!
//! ```text
//! datafusion_tributary_core::conformance_suite!(TransportFixture::new(
//!     Arc::new(MyTransport::new()),
//!     || "my://127.0.0.1:0".parse().expect("a URL"),
//! ));
//! ```
//!
//! Where there are sockets between the two ends, [`connection_suite!`](crate::connection_suite) makes
//! tests of [`connections`] in the same way.
//!
//! [`mutants`] are small broken channels, at least one for each clause, which prove that the clause's
//! case can fail.
//!
//! Cases never sleep and assert no elapsed time. They wait for what has to happen, for as long as
//! the fixture's [`patience`](Fixture::patience).

pub mod cases;
pub mod connections;
mod fixture;
mod host;
mod lab;
mod local;
pub mod mutants;
mod probe;
mod script;
pub mod streams;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

pub use self::fixture::{Capabilities, Fixture, TransportFixture};
pub use self::local::{LocalTransport, WrappedTransport};
use crate::error::TransportError;

/// Why a case has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(String);

/// What a case, or a step of it, found out.
pub type Verdict<T = ()> = Result<T, Failure>;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<TransportError> for Failure {
    fn from(error: TransportError) -> Self {
        Self(format!("an unexpected error: {error}"))
    }
}

/// A case: of a clause, or of connections.
#[derive(Clone, Copy)]
pub struct Case {
    /// The name of its function.
    pub name: &'static str,
    run: for<'a> fn(&'a dyn Fixture) -> BoxFuture<'a, Verdict>,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Case {
    /// The case of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        CASES.iter().chain(CONNECTION_CASES).find(|case| case.name == name)
    }

    /// Runs the case. One that panics or doesn't come to its end has failed.
    ///
    /// # Errors
    /// What is wrong with the transport.
    pub async fn run(&self, fixture: &dyn Fixture) -> Result<(), String> {
        // Each wait of a case has its own limit; this is for one in a place without.
        let limit = fixture.patience() * 4 + Duration::from_secs(5);
        let case = AssertUnwindSafe((self.run)(fixture)).catch_unwind();
        match tokio::time::timeout(limit, case).await {
            Ok(Ok(verdict)) => verdict.map_err(|failure| format!("{}: {failure}", self.name)),
            Ok(Err(_)) => Err(format!("{}: panicked", self.name)),
            Err(_) => Err(format!("{}: hangs", self.name)),
        }
    }
}

macro_rules! list_cases {
    ($folder:ident: $($module:ident::$name:ident,)*) => {
        &[$(Case {
            name: stringify!($name),
            run: |fixture| $folder::$module::$name(fixture).boxed(),
        },)*]
    };
}

/// The cases of all clauses, in their order.
pub const CASES: &[Case] = list_cases! { cases:
    start::c01_nothing_is_requested_before_the_first_poll,
    data::c02_order_within_an_output_is_kept,
    data::c03_batches_arrive_as_they_were_sent,
    data::c04_what_is_above_a_message_limit_arrives_whole,
    ends::c05_a_lost_connection_never_looks_like_the_end,
    ends::c06_batches_before_an_error_are_delivered_before_it,
    errors::c07_errors_keep_kind_origin_and_text,
    errors::c08_a_panic_becomes_an_error_and_the_worker_lives_on,
    release::c09_dropping_a_stream_releases_its_output,
    release::c10_nothing_is_left,
    start::c11_next_is_cancel_safe,
    flow::c12_buffered_bytes_stay_within_the_budget,
    flow::c13_a_stalled_output_never_blocks_a_sibling,
    lookup::c14_an_output_belongs_to_the_first_fetch_that_polls_it,
    lookup::c15_tasks_that_are_not_there_are_told_apart,
    loss::c16_a_dead_or_silent_peer_is_noticed,
    loss::c17_a_passed_deadline_gives_timeout_and_no_work,
    address::c18_an_unsupported_address_is_handed_back,
    address::c19_connections_are_reused_and_may_be_many,
    open::c20_metadata_makes_the_round_trip,
    open::c21_a_version_mismatch_is_refused_at_open,
    open::c22_a_draining_worker_finishes_what_it_has,
    open::c23_first_commands_go_along_with_the_opening,
};

/// The cases of connections.
pub const CONNECTION_CASES: &[Case] = list_cases! { connections:
    drops::ten_thousand_streams_dropped_midway_leave_the_connection_alive,
    drops::a_dropped_stream_stops_its_sender_at_once,
    drops::a_stalled_output_leaves_its_siblings_alone,
    drops::a_shut_down_server_cuts_its_connections,
    peers::the_server_says_who_asks,
    peers::a_worker_that_was_restarted_is_reached_again,
};

/// Makes a `#[tokio::test]` of each clause, in the module where it is called. The argument is an
/// expression that makes a [`Fixture`]; the calling crate needs tokio's `macros` and
/// `rt-multi-thread`.
#[macro_export]
macro_rules! conformance_suite {
    ($fixture:expr) => {
        $crate::conformance_suite! { @tests CASES, $fixture =>
            c01_nothing_is_requested_before_the_first_poll
            c02_order_within_an_output_is_kept
            c03_batches_arrive_as_they_were_sent
            c04_what_is_above_a_message_limit_arrives_whole
            c05_a_lost_connection_never_looks_like_the_end
            c06_batches_before_an_error_are_delivered_before_it
            c07_errors_keep_kind_origin_and_text
            c08_a_panic_becomes_an_error_and_the_worker_lives_on
            c09_dropping_a_stream_releases_its_output
            c10_nothing_is_left
            c11_next_is_cancel_safe
            c12_buffered_bytes_stay_within_the_budget
            c13_a_stalled_output_never_blocks_a_sibling
            c14_an_output_belongs_to_the_first_fetch_that_polls_it
            c15_tasks_that_are_not_there_are_told_apart
            c16_a_dead_or_silent_peer_is_noticed
            c17_a_passed_deadline_gives_timeout_and_no_work
            c18_an_unsupported_address_is_handed_back
            c19_connections_are_reused_and_may_be_many
            c20_metadata_makes_the_round_trip
            c21_a_version_mismatch_is_refused_at_open
            c22_a_draining_worker_finishes_what_it_has
            c23_first_commands_go_along_with_the_opening
        }
    };
    (@tests $cases:ident, $fixture:expr => $($case:ident)*) => {
        #[test]
        fn every_case_has_a_test() {
            let names: ::std::vec::Vec<_> =
                $crate::conformance::$cases.iter().map(|case| case.name).collect();
            assert_eq!(names, [$(stringify!($case)),*]);
        }

        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() -> ::std::result::Result<(), ::std::string::String> {
                let case = $crate::conformance::Case::named(stringify!($case)).expect("a listed case");
                case.run(&$fixture).await
            }
        )*
    };
}

/// Makes a `#[tokio::test]` of each of [`CONNECTION_CASES`](crate::conformance::CONNECTION_CASES), as
/// [`conformance_suite!`](crate::conformance_suite) does of each clause. The fixture's addresses are on
/// loopback.
#[macro_export]
macro_rules! connection_suite {
    ($fixture:expr) => {
        $crate::conformance_suite! { @tests CONNECTION_CASES, $fixture =>
            ten_thousand_streams_dropped_midway_leave_the_connection_alive
            a_dropped_stream_stops_its_sender_at_once
            a_stalled_output_leaves_its_siblings_alone
            a_shut_down_server_cuts_its_connections
            the_server_says_who_asks
            a_worker_that_was_restarted_is_reached_again
        }
    };
}
