//! Custom metrics after they travelled.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::physical_plan::metrics::CustomMetricValue;
use parking_lot::Mutex;

use super::value::CustomMetric;

/// What tasks said of a custom metric: the text and the number that its own code made of it, for
/// each task. Another process can't run that code, so texts are listed and numbers added.
#[derive(Debug, Default)]
pub struct ReportedValue(Mutex<Vec<CustomMetric>>);

impl ReportedValue {
    /// What one task said.
    pub fn new(said: CustomMetric) -> Self {
        Self(Mutex::new(vec![said]))
    }

    /// What each task said.
    pub fn parts(&self) -> Vec<CustomMetric> {
        self.0.lock().clone()
    }
}

impl fmt::Display for ReportedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.parts()[..] {
            [] => Ok(()),
            [one] => f.write_str(&one.text),
            all => {
                let texts: Vec<_> = all.iter().map(|part| part.text.as_str()).collect();
                write!(f, "[{}]", texts.join("; "))
            }
        }
    }
}

impl CustomMetricValue for ReportedValue {
    fn new_empty(&self) -> Arc<dyn CustomMetricValue> {
        Arc::new(Self::default())
    }

    fn aggregate(&self, other: Arc<dyn CustomMetricValue>) {
        if let Some(other) = other.as_any().downcast_ref::<Self>() {
            let parts = other.parts();
            self.0.lock().extend(parts);
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_usize(&self) -> usize {
        let numbers = self.0.lock();
        let sum = numbers.iter().fold(0_u64, |sum, part| sum.saturating_add(part.number));
        usize::try_from(sum).unwrap_or(usize::MAX)
    }

    fn is_eq(&self, other: &Arc<dyn CustomMetricValue>) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self.parts() == other.parts())
    }
}
