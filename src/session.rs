//! The one method that makes a session distributed.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion_tributary_core::config::DistributedConfig;
use datafusion_tributary_planner::{DistributedOptions, DistributedQueryPlanner};

/// Makes sessions distributed.
pub trait DistributedExt {
    /// Distributes the session's queries over the workers of a resolver, which is given itself or
    /// in [`DistributedOptions`]. Wraps the query planner that the builder has, so call it after
    /// setting one; `SET distributed.*` works afterwards.
    #[must_use]
    fn with_distributed_planner(self, options: impl Into<DistributedOptions>) -> Self;
}

impl DistributedExt for SessionStateBuilder {
    fn with_distributed_planner(mut self, options: impl Into<DistributedOptions>) -> Self {
        let options = options.into();
        let config = self.config().get_or_insert_default().options_mut();
        if config.extensions.get::<DistributedConfig>().is_none() {
            config.extensions.insert(DistributedConfig::default());
        }
        let inner = self.query_planner().take();
        let planner = DistributedQueryPlanner::new(inner, options);
        self.with_query_planner(Arc::new(planner))
    }
}
