//! Leaves workers out that couldn't run a query.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::DATAFUSION_VERSION;
use datafusion::common::runtime::SpawnedTask;
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::time::{MissedTickBehavior, interval, timeout};
use url::Url;

use super::{ChannelResolver, Channels, TransportRegistry, WorkerChannel};
use crate::error::{Result, TransportError};
use crate::protocol::{PROTOCOL_VERSION, WorkerInfo, WorkerState, reads_plans_of};

/// The workers of another resolver without those that don't answer, that drain, or that have another
/// version of the protocol or of DataFusion, so that no query is planned for them.
///
/// It asks every worker for its info when it is made and then again and again. A worker that wasn't
/// asked yet counts as healthy. Dropping it ends the asking.
#[derive(Debug)]
pub struct HealthyWorkers {
    checked: Arc<Checked>,
    _rounds: SpawnedTask<()>,
}

impl HealthyWorkers {
    /// Asks the workers of `channels` every `period`, and waits for each answer as long at most.
    ///
    /// # Panics
    /// Outside of a tokio runtime, and for a period of zero.
    pub fn new(channels: Channels, period: Duration) -> Self {
        let checked = Arc::new(Checked { channels, period, sick: Mutex::default() });
        let rounds = SpawnedTask::spawn(Arc::clone(&checked).ask_again_and_again());
        Self { checked, _rounds: rounds }
    }

    /// Asks all workers now and waits for their answers.
    pub async fn refresh(&self) {
        self.checked.ask_all().await;
    }

    /// The workers that are left out, and why.
    pub fn left_out(&self) -> Vec<(Url, String)> {
        let mut sick: Vec<_> = self.checked.sick.lock().clone().into_iter().collect();
        sick.sort();
        sick
    }
}

#[async_trait]
impl ChannelResolver for HealthyWorkers {
    /// # Errors
    /// The inner resolver's, and `Unavailable` with all reasons where no worker is left.
    fn workers(&self) -> Result<Vec<Url>> {
        let all = self.checked.channels.workers()?;
        let sick = self.checked.sick.lock();
        let healthy: Vec<_> = all.iter().filter(|url| !sick.contains_key(*url)).cloned().collect();
        if healthy.is_empty() && !all.is_empty() {
            let reasons = all.iter().filter_map(|url| Some(format!("{url}: {}", sick.get(url)?)));
            return Err(TransportError::Unavailable {
                worker: "all of them".to_owned(),
                reason: reasons.collect::<Vec<_>>().join("; "),
            });
        }
        Ok(healthy)
    }

    async fn channel(&self, worker: &Url) -> Result<Arc<dyn WorkerChannel>> {
        self.checked.channels.channel(worker).await
    }

    fn transports(&self) -> Option<Arc<TransportRegistry>> {
        Some(self.checked.channels.transports())
    }
}

/// What is known of the workers.
#[derive(Debug)]
struct Checked {
    channels: Channels,
    period: Duration,
    sick: Mutex<HashMap<Url, String>>,
}

impl Checked {
    async fn ask_again_and_again(self: Arc<Self>) {
        let mut rounds = interval(self.period);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            rounds.tick().await;
            self.ask_all().await;
        }
    }

    async fn ask_all(&self) {
        // A resolver that doesn't know its workers now says so to the query that asks.
        let Ok(workers) = self.channels.workers() else { return };
        let answers = join_all(workers.iter().map(|worker| self.ask(worker))).await;
        let sick: HashMap<_, _> =
            workers.into_iter().zip(answers).filter_map(|(url, sick)| Some((url, sick?))).collect();
        let before = std::mem::replace(&mut *self.sick.lock(), sick.clone());
        for (worker, reason) in sick.iter().filter(|(worker, _)| !before.contains_key(*worker)) {
            log::warn!("worker {worker} is left out of queries: {reason}");
        }
        for worker in before.keys().filter(|worker| !sick.contains_key(*worker)) {
            log::info!("worker {worker} takes part in queries again");
        }
    }

    /// Why a worker is left out.
    async fn ask(&self, worker: &Url) -> Option<String> {
        let info = async { self.channels.channel(worker).await?.info().await };
        match timeout(self.period, info).await {
            Ok(Ok(info)) => reason(&info),
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {:?}", self.period)),
        }
    }
}

fn reason(info: &WorkerInfo) -> Option<String> {
    if info.protocol_version != PROTOCOL_VERSION {
        return Some(format!(
            "it speaks protocol version {}, this process {PROTOCOL_VERSION}",
            info.protocol_version
        ));
    }
    if !reads_plans_of(&info.datafusion_version) {
        return Some(format!(
            "it has DataFusion {}, this process {DATAFUSION_VERSION}",
            info.datafusion_version
        ));
    }
    (info.state == WorkerState::Draining).then(|| "it drains".to_owned())
}

#[cfg(test)]
mod tests {
    use crate::ids::Incarnation;
    use crate::protocol::{FetchRequest, OpenQuery, QuerySession};
    use crate::transport::{BatchStream, TransportRegistry};

    use super::*;

    /// Workers that answer as they are told to.
    #[derive(Debug, Default)]
    struct Answering(Mutex<HashMap<Url, WorkerInfo>>);

    #[async_trait]
    impl ChannelResolver for Answering {
        fn workers(&self) -> Result<Vec<Url>> {
            let names = ["fine", "draining", "old", "older", "gone"];
            Ok(names.map(url).to_vec())
        }

        async fn channel(&self, worker: &Url) -> Result<Arc<dyn WorkerChannel>> {
            let info = self.0.lock().get(worker).cloned();
            match info {
                Some(info) => Ok(Arc::new(Answer(info))),
                None => Err(TransportError::Unavailable {
                    worker: worker.to_string(),
                    reason: "nobody listens there".to_owned(),
                }),
            }
        }
    }

    #[derive(Debug)]
    struct Answer(WorkerInfo);

    #[async_trait]
    impl WorkerChannel for Answer {
        async fn open_query(&self, _open: OpenQuery) -> Result<QuerySession> {
            Err(TransportError::Cancelled)
        }

        fn fetch(&self, _request: FetchRequest) -> Vec<BatchStream> {
            Vec::new()
        }

        async fn info(&self) -> Result<WorkerInfo> {
            Ok(self.0.clone())
        }
    }

    fn url(name: &str) -> Url {
        format!("test://{name}").parse().expect("a URL")
    }

    fn fine() -> WorkerInfo {
        WorkerInfo {
            protocol_version: PROTOCOL_VERSION,
            version: "0".to_owned(),
            datafusion_version: DATAFUSION_VERSION.to_owned(),
            incarnation: Incarnation::random(),
            n_cores: 1,
            n_queries: 0,
            n_tasks: 0,
            state: WorkerState::Ready,
        }
    }

    #[tokio::test]
    async fn only_healthy_workers_are_listed_and_the_others_have_a_reason() {
        let workers = Arc::new(Answering::default());
        let tell = |name, info| workers.0.lock().insert(url(name), info);
        tell("fine", fine());
        tell("draining", WorkerInfo { state: WorkerState::Draining, ..fine() });
        tell("old", WorkerInfo { protocol_version: 0, ..fine() });
        tell("older", WorkerInfo { datafusion_version: "54.0.0".to_owned(), ..fine() });
        let channels =
            Channels::new(Arc::clone(&workers) as _, Arc::new(TransportRegistry::default()));
        let healthy = HealthyWorkers::new(channels, Duration::from_secs(3600));
        healthy.refresh().await;
        assert_eq!(healthy.workers().expect("one is left"), [url("fine")]);
        let left_out = healthy.left_out();
        let reasons: Vec<_> =
            left_out.iter().map(|(url, reason)| (url.host_str(), reason.as_str())).collect();
        assert_eq!(reasons.len(), 4, "{reasons:?}");
        for (name, words) in [
            ("draining", "drains"),
            ("old", "protocol version 0"),
            ("older", "DataFusion 54.0.0"),
            ("gone", "nobody listens there"),
        ] {
            let found = reasons.iter().find(|(host, _)| *host == Some(name));
            assert!(found.is_some_and(|(_, reason)| reason.contains(words)), "{reasons:?}");
        }

        tell("gone", fine());
        tell("fine", WorkerInfo { state: WorkerState::Draining, ..fine() });
        healthy.refresh().await;
        assert_eq!(healthy.workers().expect("one is left"), [url("gone")]);

        workers.0.lock().clear();
        healthy.refresh().await;
        let error = healthy.workers().expect_err("none is left").to_string();
        assert!(error.contains("test://older: "), "{error}");
    }
}
