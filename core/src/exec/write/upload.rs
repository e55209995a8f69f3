//! A file that is staged in parts.

use std::future::ready;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::object_store::path::Path;
use datafusion::object_store::{MultipartUpload, PutPayload, PutResult, Result, UploadPart};
use parking_lot::Mutex;

use super::files::{StagedFiles, is_over};
use super::panics::{call_without_panic, without_panic};

/// An upload until it is completed or aborted.
pub(super) type SharedUpload = Arc<Mutex<Option<Box<dyn MultipartUpload>>>>;

/// The sink's half of an upload.
///
/// # Drop
/// The upload stays with the task's files, which abort it when the query is over.
#[derive(Debug)]
pub(super) struct StagedUpload {
    files: Arc<StagedFiles>,
    location: Path,
    upload: SharedUpload,
}

impl StagedUpload {
    pub(super) fn new(files: Arc<StagedFiles>, location: Path, upload: SharedUpload) -> Self {
        Self { files, location, upload }
    }
}

#[async_trait]
impl MultipartUpload for StagedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        // Called at once: parts are in the order of the calls.
        let part =
            call_without_panic(|| self.upload.lock().as_mut().map(|upload| upload.put_part(data)));
        let files = Arc::clone(&self.files);
        Box::pin(async move {
            match part {
                Ok(Some(part)) => files.run(part).await,
                Ok(None) => Err(is_over()),
                Err(panic) => files.run(ready(Err(panic))).await,
            }
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let (files, location) = (Arc::clone(&self.files), self.location.clone());
        let upload = Arc::clone(&self.upload);
        let completing = async move {
            // Taken when nothing refuses any more, so that a late one is aborted.
            let taken = upload.lock().take();
            let mut upload = taken.ok_or_else(is_over)?;
            match without_panic(upload.complete()).await {
                Ok(result) => {
                    files.add_written(location);
                    Ok(result)
                }
                Err(error) => {
                    // The error is the one that counts.
                    let _ = without_panic(upload.abort()).await;
                    Err(error)
                }
            }
        };
        self.files.run(completing).await
    }

    async fn abort(&mut self) -> Result<()> {
        let upload = Arc::clone(&self.upload);
        let aborting = async move {
            let taken = upload.lock().take();
            taken.ok_or_else(is_over)?.abort().await
        };
        self.files.run(aborting).await
    }
}
