//! Session options on their way to the workers.

use std::collections::HashMap;

use datafusion::common::config::ConfigOptions;
use datafusion::execution::config::SessionConfig;

/// Options whose default depends on the machine, so that equality with the default here says
/// nothing about the default there.
const MACHINE_DEPENDENT: &[&str] =
    &["datafusion.execution.target_partitions", "datafusion.execution.planning_concurrency"];

/// Every `datafusion.*` option that differs from its default, and every entry of every extension.
pub fn changed_options(options: &ConfigOptions) -> Vec<(String, String)> {
    let defaults: HashMap<_, _> = ConfigOptions::default()
        .entries()
        .into_iter()
        .map(|entry| (entry.key, entry.value))
        .collect();
    let built_in = options.entries().into_iter().filter_map(|entry| {
        let is_changed = defaults.get(&entry.key).is_some_and(|default| *default != entry.value);
        let is_sent = is_changed || MACHINE_DEPENDENT.contains(&entry.key.as_str());
        is_sent.then_some(entry.value).flatten().map(|value| (entry.key, value))
    });
    let extensions = options.extensions.iter().flat_map(|(prefix, extension)| {
        extension.entries().into_iter().filter_map(move |entry| {
            // The macro's keys lack the prefix, hand-written ones may have it.
            let has_prefix =
                entry.key.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.'));
            let key = if has_prefix { entry.key } else { format!("{prefix}.{}", entry.key) };
            entry.value.map(|value| (key, value))
        })
    });
    built_in.chain(extensions).collect()
}

/// The worker's configuration for a query: its own extensions and typed objects, DataFusion's
/// defaults, and the coordinator's options over them. What the worker doesn't know is ignored with
/// a warning, because another version's option must not fail a query that doesn't need it.
pub fn apply_options(base: &SessionConfig, options: &[(String, String)]) -> SessionConfig {
    let mut config = base.clone();
    let mut fresh = ConfigOptions::default();
    fresh.extensions = base.options().extensions.clone();
    for (key, value) in options {
        if let Err(error) = fresh.set(key, value) {
            log::warn!("option {key} of the coordinator is ignored: {}", error.strip_backtrace());
        }
    }
    *config.options_mut() = fresh;
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DistributedConfig;

    #[test]
    fn changed_and_extension_options_arrive_over_the_defaults() {
        let mut here = SessionConfig::new().with_option_extension(DistributedConfig::default());
        here.options_mut().set("datafusion.execution.time_zone", "+02:00").expect("known");
        here.options_mut().set("distributed.broadcast_joins", "false").expect("known");
        let sent = changed_options(here.options());
        assert!(sent.contains(&("distributed.broadcast_joins".into(), "false".into())), "{sent:?}");

        let mut base = SessionConfig::new().with_option_extension(DistributedConfig::default());
        base.options_mut().set("datafusion.execution.batch_size", "7").expect("known");
        let there = apply_options(&base, &sent);
        assert_eq!(there.options().execution.time_zone, here.options().execution.time_zone);
        assert_eq!(there.options().execution.batch_size, here.options().execution.batch_size);
        assert!(!DistributedConfig::of(there.options()).broadcast_joins);
    }

    #[test]
    fn unknown_options_are_ignored() {
        let sent = [("nobody.knows".to_owned(), "1".to_owned())];
        let there = apply_options(&SessionConfig::new(), &sent);
        assert_eq!(there.options().execution.batch_size.get(), 8192);
    }
}
