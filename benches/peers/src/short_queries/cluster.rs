//! Worker processes.

use tempfile::TempDir;
use url::Url;

use crate::Result;
use crate::identity::Pem;
use crate::process::Process;
use crate::resources::Resources;
use crate::wire::Wire;

/// Running worker processes, and the certificates of all.
#[derive(Debug)]
pub struct Cluster {
    workers: Vec<Process>,
    urls: Vec<Url>,
    pem: Pem,
    folder: TempDir,
}

impl Cluster {
    /// Starts processes and waits until each says where it listens.
    ///
    /// # Errors
    /// When one doesn't.
    pub async fn start(wire: Wire, n_workers: usize) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let pem = Pem::of(&["127.0.0.1"])?;
        pem.write(folder.path())?;
        let mut cluster = Self { workers: Vec::new(), urls: Vec::new(), pem, folder };
        for _ in 0..n_workers {
            let identity = cluster.folder.path().display().to_string();
            let arguments = ["worker".to_owned(), wire.scheme().to_owned(), identity];
            let mut worker = Process::start(None, &arguments)?;
            cluster.urls.push(worker.line().await?.parse()?);
            cluster.workers.push(worker);
        }
        Ok(cluster)
    }

    /// Where the workers are.
    pub fn urls(&self) -> &[Url] {
        &self.urls
    }

    /// The certificates that the workers trust.
    pub fn pem(&self) -> &Pem {
        &self.pem
    }

    /// What the workers hold together.
    ///
    /// # Errors
    /// When one doesn't say.
    pub async fn resources(&mut self) -> Result<Resources> {
        let mut sum = Resources::default();
        for worker in &mut self.workers {
            worker.say("what do you hold?").await?;
            sum = sum.plus(Resources::parse(&worker.line().await?)?);
        }
        Ok(sum)
    }

    /// Lets the processes end, and waits for them.
    ///
    /// # Errors
    /// When one failed.
    pub async fn stop(self) -> Result<()> {
        for worker in self.workers {
            worker.stop().await?;
        }
        Ok(())
    }
}
