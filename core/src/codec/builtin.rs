//! DataFusion's own functions.
//!
//! They are resolved apart from a worker's registry, because another function may be registered under
//! the name of one that a plan calls: Spark's `date_part`, say, is planned as a call of DataFusion's.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};

/// A kind of functions that DataFusion brings.
pub(super) trait BuiltIn: PartialEq + Sized + 'static {
    /// The one of this name.
    fn named(name: &str) -> Option<&'static Arc<Self>>;

    /// Its name.
    fn name(&self) -> &str;

    /// Whether this function is the one that DataFusion brings under its name.
    fn is_built_in(&self) -> bool {
        Self::named(self.name()).is_some_and(|known| known.as_ref() == self)
    }
}

macro_rules! built_in {
    ($kind:ty, $defaults:ident) => {
        impl BuiltIn for $kind {
            fn named(name: &str) -> Option<&'static Arc<Self>> {
                static KNOWN: LazyLock<HashMap<String, Arc<$kind>>> = LazyLock::new(|| {
                    let functions = SessionStateDefaults::$defaults().into_iter();
                    functions.map(|function| (function.name().to_owned(), function)).collect()
                });
                KNOWN.get(name)
            }

            fn name(&self) -> &str {
                self.name()
            }
        }
    };
}

built_in!(ScalarUDF, default_scalar_functions);
built_in!(AggregateUDF, default_aggregate_functions);
built_in!(WindowUDF, default_window_functions);
