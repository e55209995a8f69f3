//! Addresses and connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::future::try_join_all;
use url::Url;

use crate::conformance::host::Host;
use crate::conformance::lab::{Lab, check, fetch};
use crate::conformance::script::{Script, Step, numbered};
use crate::conformance::{Failure, Fixture, Verdict};
use crate::error::{Result, TransportError};
use crate::ids::StageId;
use crate::transport::{
    Channels, Server, ShuffleTransport, StaticWorkers, TransportEnv, TransportRegistry,
    WorkerChannel,
};

/// **C18** An unsupported address is handed back in the error.
pub async fn c18_an_unsupported_address_is_handed_back(fixture: &dyn Fixture) -> Verdict {
    let lab = Lab::start(fixture).await?;
    let foreign =
        Url::parse("nobody-serves-this://example:1/path").map_err(|error| error.to_string())?;
    check!(!lab.transport.schemes().is_empty(), "the transport serves no scheme");
    let registry = Arc::new(
        TransportRegistry::new(lab.client_env.clone()).with_transport(fixture.transport()),
    );
    let channels = Channels::new(Arc::new(StaticWorkers::new(Vec::new())), Arc::clone(&registry));
    let worker: Arc<dyn WorkerChannel> = Arc::new(lab.worker.clone());
    let answers = [
        lab.within("an answer", lab.transport.connect(&foreign, &lab.client_env)).await?.err(),
        lab.within("an answer", lab.transport.serve(&foreign, worker, &lab.server_env))
            .await?
            .err(),
        registry.channel(&foreign).await.err(),
        registry.check(&foreign).err(),
        channels.channel(&foreign).await.err(),
    ];
    for answer in answers {
        let error =
            answer.ok_or_else(|| Failure::from("a foreign address was accepted".to_owned()))?;
        let is_handed_back = matches!(
            &error,
            TransportError::Unsupported { address, .. } if *address == foreign.to_string()
        );
        check!(is_handed_back, "the address isn't handed back: {error:?}");
    }
    registry.check(&lab.url)?;
    Ok(())
}

/// **C19** `connect` may be called per request and `channel` reuses connections.
pub async fn c19_connections_are_reused_and_may_be_many(fixture: &dyn Fixture) -> Verdict {
    let lab = Lab::start(fixture).await?;
    let known = lab.within("the worker's info", lab.channel.info()).await??.incarnation;
    for _ in 0..5 {
        let connecting = lab.transport.connect(&lab.url, &lab.client_env);
        let channel = lab.within("another connection", connecting).await??;
        let info = lab.within("the worker's info", channel.info()).await??;
        check!(info.incarnation == known, "another connection leads to another worker");
        let script = Script::new(numbered(0).schema(), vec![vec![Step::Batch(numbered(0))]]);
        let query = lab.run(&script).await?;
        let [mut stream] = fetch(channel.as_ref(), query.request(StageId(1), &[0]))?;
        let batches = lab.all(&mut stream).await?;
        check!(batches == [numbered(0)], "another connection doesn't reach the query");
    }
    reused(&lab).await?;
    retried(&lab, fixture).await
}

async fn reused(lab: &Lab) -> Verdict {
    let counting =
        Arc::new(Counting { inner: Arc::clone(&lab.transport), n_connects: AtomicUsize::new(0) });
    let registry =
        TransportRegistry::new(lab.client_env.clone()).with_transport(Arc::clone(&counting) as _);
    let channels = (0..10).map(|_| registry.channel(&lab.url));
    for channel in lab.within("ten channels", try_join_all(channels)).await?? {
        lab.within("the worker's info", channel.info()).await??;
    }
    let n_connects = counting.n_connects.load(Ordering::Acquire);
    check!(n_connects == 1, "ten channels to one worker were connected {n_connects} times");
    Ok(())
}

/// A failed attempt isn't remembered.
async fn retried(lab: &Lab, fixture: &dyn Fixture) -> Verdict {
    let registry =
        TransportRegistry::new(lab.client_env.clone()).with_transport(Arc::clone(&lab.transport));
    let listen = fixture.listen();
    // A transport may connect at the first call only.
    let early = async { registry.channel(&listen).await?.info().await };
    let early = lab.within("an answer", early).await?;
    check!(
        matches!(early, Err(TransportError::Unavailable { .. })),
        "an address where nobody is served gave {early:?}"
    );
    let worker: Arc<dyn WorkerChannel> = Arc::new(lab.worker.clone());
    let serving = Host::serve(Arc::clone(&lab.transport), listen, worker, lab.server_env.clone());
    let host = lab.within("the server", serving).await??;
    for url in &host.urls {
        let channel = lab.within("the channel", registry.channel(url)).await??;
        lab.within("the worker's info", channel.info()).await??;
    }
    Ok(())
}

/// Counts connections.
#[derive(Debug)]
struct Counting {
    inner: Arc<dyn ShuffleTransport>,
    n_connects: AtomicUsize,
}

#[async_trait]
impl ShuffleTransport for Counting {
    fn schemes(&self) -> &[&str] {
        self.inner.schemes()
    }

    async fn connect(&self, worker: &Url, env: &TransportEnv) -> Result<Arc<dyn WorkerChannel>> {
        self.n_connects.fetch_add(1, Ordering::AcqRel);
        self.inner.connect(worker, env).await
    }

    async fn serve(
        &self,
        listen: &Url,
        worker: Arc<dyn WorkerChannel>,
        env: &TransportEnv,
    ) -> Result<Server> {
        self.inner.serve(listen, worker, env).await
    }
}
