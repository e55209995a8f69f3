//! A cluster whose workers are built one by one, for workers that differ from their coordinator.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use datafusion::execution::SessionState;
use datafusion_tributary::{ChannelResolver, DistributedOptions, TransportRegistry, WorkerChannel};
use datafusion_tributary_core::codec::CodecRegistry;
use datafusion_tributary_core::error::{Result, TransportError};
use datafusion_tributary_core::transport::Channels;
use datafusion_tributary_core::worker::{Worker, WorkerOptions};
use url::Url;

/// Workers that a resolver of our own hands out. They end with it.
#[derive(Debug)]
pub struct HandMade {
    directory: Arc<Directory>,
}

impl HandMade {
    /// One worker for each state, with codecs. Needs a running tokio runtime.
    pub fn start(workers: Vec<(SessionState, CodecRegistry)>) -> Self {
        let directory = Arc::new(Directory::default());
        let transports = Arc::new(TransportRegistry::default());
        for (idx, (state, codecs)) in workers.into_iter().enumerate() {
            let url = format!("test://worker/{idx}");
            let resolver: Arc<dyn ChannelResolver> = Arc::clone(&directory) as _;
            let channels = Channels::new(resolver, Arc::clone(&transports));
            let mut options = WorkerOptions::new(url.clone(), state, channels);
            options.codecs = codecs;
            let url = Url::parse(&url).expect("a URL");
            directory.lock().push((url, Arc::new(Worker::new(options))));
        }
        Self { directory }
    }

    /// Where sessions find the workers.
    pub fn options(&self) -> DistributedOptions {
        let resolver: Arc<dyn ChannelResolver> = Arc::clone(&self.directory) as _;
        resolver.into()
    }
}

impl Drop for HandMade {
    /// The workers hold the directory that holds them.
    fn drop(&mut self) {
        self.directory.lock().clear();
    }
}

type Entry = (Url, Arc<dyn WorkerChannel>);

#[derive(Debug, Default)]
struct Directory {
    workers: Mutex<Vec<Entry>>,
}

impl Directory {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Entry>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ChannelResolver for Directory {
    fn workers(&self) -> Result<Vec<Url>> {
        Ok(self.lock().iter().map(|(url, _)| url.clone()).collect())
    }

    async fn channel(&self, worker: &Url) -> Result<Arc<dyn WorkerChannel>> {
        let workers = self.lock();
        let found = workers.iter().find(|(url, _)| url == worker);
        found.map(|(_, channel)| Arc::clone(channel)).ok_or_else(|| TransportError::Unavailable {
            worker: worker.to_string(),
            reason: "the test has ended it".to_owned(),
        })
    }
}
