//! Queries that fail while workers are silent, as one is that was stopped or that is overloaded.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion_tributary::inproc::InProcessCluster;
use datafusion_tributary::{ChannelResolver, DistributedOptions, WorkerChannel};
use datafusion_tributary_core::error::Result;
use datafusion_tributary_core::protocol::{
    FetchRequest, OpenQuery, QuerySession, SessionPeer, WorkerInfo,
};
use datafusion_tributary_core::transport::BatchStream;
use datafusion_tributary_tests::processes::client::error_of_stream;
use datafusion_tributary_tests::{Extras, Place, or_hang, settled};
use futures::StreamExt;
use tokio::runtime::Handle;
use tokio::sync::watch;
use url::Url;

use super::{Planned, TABLES, WORLD};

/// The error is there before any worker has said how far it came. What they say then is shown, whether
/// somebody reads on or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_waits_for_nobody() {
    for is_read_on in [true, false] {
        let cluster = InProcessCluster::start(WORLD.n_workers).expect("workers");
        let (speak, may_speak) = watch::channel(false);
        let resolver = Silent { cluster: cluster.clone(), may_speak };
        let options = DistributedOptions::new(Arc::new(resolver));
        let place = Place::with(cluster, options, WORLD, Extras::default(), &TABLES).await;
        let sql = "SELECT id FROM probe_side WHERE 10 / (n - 77) > 0";
        let planned = Planned::spread(&place.sessions.distributed, sql).await;

        let mut rows = planned.plan.execute(0, Arc::clone(&planned.task)).expect("begun");
        let error = or_hang(error_of_stream(&mut rows)).await.expect("no hang").to_string();
        speak.send_replace(true);
        assert!(error.contains("Divide by zero"), "{error}");
        if is_read_on {
            assert!(or_hang(rows.next()).await.expect("no hang").is_none());
        } else {
            drop(rows);
            let shown = async {
                while planned.rows_of("DataSourceExec") == 0 {
                    tokio::task::yield_now().await;
                }
            };
            or_hang(shown).await.expect("what workers said is lost");
        }
        assert!(planned.rows_of("DataSourceExec") > 0, "what workers said is lost");
        settled(&place.cluster).await.expect("nothing is left");
    }
}

/// A cluster whose workers say nothing in their sessions until they may.
#[derive(Debug)]
struct Silent {
    cluster: InProcessCluster,
    may_speak: watch::Receiver<bool>,
}

#[async_trait]
impl ChannelResolver for Silent {
    fn workers(&self) -> Result<Vec<Url>> {
        Ok(self.cluster.urls())
    }

    async fn channel(&self, worker: &Url) -> Result<Arc<dyn WorkerChannel>> {
        let inner = self.cluster.channel(worker).await?;
        Ok(Arc::new(SilentChannel { inner, may_speak: self.may_speak.clone() }))
    }
}

#[derive(Debug)]
struct SilentChannel {
    inner: Arc<dyn WorkerChannel>,
    may_speak: watch::Receiver<bool>,
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl WorkerChannel for SilentChannel {
    async fn open_query(&self, open: OpenQuery) -> Result<QuerySession> {
        let inner = self.inner.open_query(open).await?;
        let (session, outer) = QuerySession::pair();
        // Detached: it ends with one of the halves.
        drop(Handle::current().spawn(pass_on(inner, outer, self.may_speak.clone())));
        Ok(session)
    }

    fn fetch(&self, request: FetchRequest) -> Vec<BatchStream> {
        self.inner.fetch(request)
    }

    async fn info(&self) -> Result<WorkerInfo> {
        self.inner.info().await
    }
}

/// Passes commands on at once, and events once the worker may speak.
async fn pass_on(inner: QuerySession, outer: SessionPeer, mut may_speak: watch::Receiver<bool>) {
    let (mut from, to) = (outer.commands, inner.commands);
    let commands = async move {
        while let Some(command) = from.recv().await {
            if to.send(command).await.is_err() {
                break;
            }
        }
    };
    let (mut from, to) = (inner.events, outer.events);
    let events = async move {
        let is_over = may_speak.wait_for(|may_speak| *may_speak).await.is_err();
        while !is_over && let Some(event) = from.recv().await {
            if to.send(event).await.is_err() {
                break;
            }
        }
    };
    tokio::join!(commands, events);
}
