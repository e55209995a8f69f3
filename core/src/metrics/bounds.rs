//! How much a report may say of one node.

use datafusion::physical_plan::metrics::Metric;

use super::{NodeMetric, NodeMetricValue, fold};
use crate::limits::{MAX_METRIC_LABELS, MAX_METRIC_TEXT_BYTES, MAX_NODE_METRICS};

/// What a worker says of a node that measured this: many metrics are summed by name, and what is still
/// beyond the limits is cut off, as their receiver would.
pub(super) fn said(mut metrics: Vec<NodeMetric>) -> Vec<NodeMetric> {
    if metrics.len() > MAX_NODE_METRICS {
        let all: Vec<Metric> = metrics.iter().map(NodeMetric::to_metric).collect();
        metrics = fold::by_name(&all).iter().filter_map(NodeMetric::of).collect();
    }
    cut(&mut metrics);
    metrics
}

/// Cuts off what is beyond the limits: metrics of a node, labels of each, and bytes of each text. Says
/// what the first of it was.
pub(crate) fn cut(metrics: &mut Vec<NodeMetric>) -> Option<String> {
    let n_metrics = metrics.len();
    let mut beyond = None;
    if n_metrics > MAX_NODE_METRICS {
        metrics.truncate(MAX_NODE_METRICS);
        metrics.shrink_to_fit();
        beyond = Some(format!("{n_metrics} metrics of a node, of {MAX_NODE_METRICS} at most"));
    }
    for metric in metrics {
        let found = cut_metric(metric);
        beyond = beyond.or(found);
    }
    beyond
}

fn cut_metric(metric: &mut NodeMetric) -> Option<String> {
    let NodeMetric { name, labels, category, value, partition: _, summary: _ } = metric;
    let n_labels = labels.len();
    if n_labels > MAX_METRIC_LABELS {
        labels.truncate(MAX_METRIC_LABELS);
        labels.shrink_to_fit();
    }
    let said = match value {
        NodeMetricValue::Custom(custom) => Some(&mut custom.text),
        _ => None,
    };
    let labels = labels.iter_mut().flat_map(|(name, value)| [name, value]);
    let texts = std::iter::once(name).chain(category).chain(said).chain(labels);
    let n_bytes = texts.map(cut_text).max().unwrap_or_default();
    if n_labels > MAX_METRIC_LABELS {
        return Some(format!("{n_labels} labels of a metric, of {MAX_METRIC_LABELS} at most"));
    }
    let is_long = n_bytes > MAX_METRIC_TEXT_BYTES;
    is_long.then(|| format!("a text of {n_bytes} bytes, of {MAX_METRIC_TEXT_BYTES} at most"))
}

/// Cuts a text, and says how many bytes it had.
fn cut_text(text: &mut String) -> usize {
    let n_bytes = text.len();
    if n_bytes > MAX_METRIC_TEXT_BYTES {
        text.truncate(text.floor_char_boundary(MAX_METRIC_TEXT_BYTES));
        text.shrink_to_fit();
    }
    n_bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{CustomMetric, NodeMetrics};

    fn metric(name: &str, value: u64) -> NodeMetric {
        NodeMetric {
            name: name.to_owned(),
            partition: None,
            labels: Vec::new(),
            summary: false,
            category: None,
            value: NodeMetricValue::Count(value),
        }
    }

    #[test]
    fn what_is_within_the_limits_stays_as_it_is() {
        let text = "x".repeat(MAX_METRIC_TEXT_BYTES);
        let labels = vec![(text.clone(), text.clone()); MAX_METRIC_LABELS];
        let value = NodeMetricValue::Custom(CustomMetric { text: text.clone(), number: u64::MAX });
        let category = Some(text.clone());
        let mut metrics = vec![metric("short", 1); MAX_NODE_METRICS - 1];
        metrics.push(NodeMetric { labels, category, value, ..metric(&text, 0) });
        let before = metrics.clone();
        assert_eq!(cut(&mut metrics), None);
        assert_eq!(metrics, before);
        assert_eq!(said(metrics), before);
    }

    #[test]
    fn what_is_beyond_the_limits_is_cut_off() {
        // not at the end of a character
        let text = "é✓".repeat(MAX_METRIC_TEXT_BYTES);
        let labels = vec![(text.clone(), text.clone()); 10 * MAX_METRIC_LABELS];
        let value = NodeMetricValue::Custom(CustomMetric { text: text.clone(), number: 7 });
        let long = NodeMetric { labels, category: Some(text.clone()), value, ..metric(&text, 0) };
        let mut metrics = vec![metric("fits", 1), long];
        assert!(cut(&mut metrics).is_some_and(|beyond| beyond.contains("160 labels")));
        assert_eq!(metrics[0], metric("fits", 1));
        let NodeMetric { name, labels, category, value, .. } = &metrics[1];
        let NodeMetricValue::Custom(custom) = value else { panic!("{value:?}") };
        assert_eq!((labels.len(), custom.number), (MAX_METRIC_LABELS, 7));
        let labels = labels.iter().flat_map(|(name, value)| [name, value]);
        for kept in labels.chain(category).chain([name, &custom.text]) {
            let n_missing = MAX_METRIC_TEXT_BYTES - kept.len();
            assert!(n_missing < 3 && text.starts_with(kept.as_str()), "{n_missing} bytes less");
            assert!(kept.capacity() < 2 * MAX_METRIC_TEXT_BYTES, "{} bytes", kept.capacity());
        }
        assert_eq!(cut(&mut metrics), None);

        let mut metrics = vec![metric("fits", 1); 100 * MAX_NODE_METRICS];
        assert!(cut(&mut metrics).is_some_and(|beyond| beyond.contains("102400 metrics")));
        assert_eq!(metrics, vec![metric("fits", 1); MAX_NODE_METRICS]);
        assert!(metrics.capacity() < 2 * MAX_NODE_METRICS);

        let mut metrics = vec![metric(&text, 1)];
        assert!(cut(&mut metrics).is_some_and(|beyond| beyond.contains("5120 bytes")));
    }

    /// Also where nodes that were added to a plan are told with another one.
    #[test]
    fn a_worker_says_sums_instead_of_a_part() {
        let mut metrics = vec![metric("rows", 2); MAX_NODE_METRICS];
        metrics.push(metric("groups", 3));
        let node = NodeMetrics::new("AggregateExec", 1, metrics);
        let sums = [metric("rows", 2 * MAX_NODE_METRICS as u64), metric("groups", 3)];
        assert_eq!(node.metrics, sums);
        let names = (0..=MAX_NODE_METRICS).map(|idx| metric(&idx.to_string(), 1)).collect();
        let node = NodeMetrics::new("AggregateExec", 1, names);
        assert_eq!(node.metrics.len(), MAX_NODE_METRICS);
    }
}
