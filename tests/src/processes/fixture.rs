//! A worker whose tasks hold and block, which `tributary worker` has no use for.

use std::io::{self, Read};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use datafusion_tributary::{StaticWorkers, TransportEnv, Worker, WorkerOptions};
use datafusion_tributary_core::codec::CodecRegistry;
use datafusion_tributary_core::transport::{Channels, Server};
use tokio::runtime::Builder;

use super::hold::{CODEC, HoldCodec, Place, hold_at};
use super::{Network, blocking};
use crate::Extras;

/// Serves until standard input ends.
pub(super) fn run(args: &[String]) -> ExitCode {
    let mut n_threads = 2;
    let mut network = Network::grpc();
    for pair in args.chunks(2) {
        match [&pair[0], &pair[1]].map(String::as_str) {
            ["network", word] => network = Network::from_word(word),
            ["hold", "start"] => hold_at(Place::Start),
            ["hold", "end"] => hold_at(Place::End),
            ["block-secs", n] => blocking::block_once(Duration::from_secs(number(n))),
            ["threads", n] => n_threads = usize::try_from(number(n)).expect("few threads"),
            other => panic!("no such setting: {other:?}"),
        }
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(n_threads)
        .enable_all()
        .build()
        .expect("threads");
    let server = runtime.block_on(serve(&network));
    println!("ready {}", server.urls()[0]);
    let _ = io::stdin().read_to_end(&mut Vec::new());
    ExitCode::SUCCESS
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

async fn serve(network: &Network) -> Server {
    let registry = Arc::new(network.transports(TransportEnv::default()));
    let channels = Channels::new(Arc::new(StaticWorkers::new(Vec::new())), Arc::clone(&registry));
    let extras = Extras { functions: || vec![blocking::blocks()], ..Extras::default() };
    let state = extras.worker_state().expect("a state");
    let mut options =
        WorkerOptions::new(format!("process {}", std::process::id()), state, channels);
    options.codecs = CodecRegistry::default().with_codec(CODEC, Arc::new(HoldCodec));
    let worker = Arc::new(Worker::new(options));
    let serving = network.transport();
    serving.serve(&network.listen(), worker, registry.env()).await.expect("a free port")
}
