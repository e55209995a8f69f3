//! Functions that fail, panic, show the session's settings, or carry a value in their payload.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, Int64Array, StringArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::not_impl_err;
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, create_udf,
};

/// The number at which functions of this module fail.
pub const BAD: i64 = 77;

/// `name(x)`: `x`, and `error()` where `x` is [`BAD`].
pub fn failing(name: &str, error: fn() -> DataFusionError) -> ScalarUDF {
    let function = move |args: &[ColumnarValue]| {
        let [value] = args else {
            return not_impl_err!("it takes one argument");
        };
        match contains_bad(value)? {
            true => Err(error()),
            false => Ok(value.clone()),
        }
    };
    create_udf(
        name,
        vec![DataType::Int64],
        DataType::Int64,
        Volatility::Volatile,
        Arc::new(function),
    )
}

/// `panics(x)`: `x`, and a panic where `x` is [`BAD`].
pub fn panicking() -> ScalarUDF {
    failing("panics", || panic!("the function met {BAD}"))
}

/// `plus_one(x)`, found by its name.
pub fn plus_one() -> ScalarUDF {
    carried(Carried { name: "plus_one", is_product: false, operand: 1 })
}

fn contains_bad(value: &ColumnarValue) -> Result<bool> {
    let array = value.to_array(1)?;
    Ok(array.as_primitive::<Int64Type>().iter().any(|value| value == Some(BAD)))
}

/// A function of one number whose operand is no argument, so that only a codec can carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Carried {
    /// How SQL calls it.
    pub name: &'static str,
    /// Whether the operand is multiplied instead of added.
    pub is_product: bool,
    /// The other operand.
    pub operand: i64,
}

/// The function.
pub fn carried(function: Carried) -> ScalarUDF {
    ScalarUDF::from(CarriedUdf {
        function,
        signature: Signature::exact(vec![DataType::Int64], Volatility::Immutable),
    })
}

/// What a function made by [`carried`] is made of.
pub fn as_carried(function: &ScalarUDF) -> Option<Carried> {
    function.inner().downcast_ref::<CarriedUdf>().map(|udf| udf.function)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CarriedUdf {
    function: Carried,
    signature: Signature,
}

impl ScalarUDFImpl for CarriedUdf {
    fn name(&self) -> &str {
        self.function.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let array = args.args[0].to_array(args.number_rows)?;
        let Carried { is_product, operand, .. } = self.function;
        let apply = |value: i64| {
            if is_product { value * operand } else { value + operand }
        };
        let result: Int64Array =
            array.as_primitive::<Int64Type>().iter().map(|value| value.map(apply)).collect();
        Ok(ColumnarValue::Array(Arc::new(result)))
    }
}

/// `name(x)`: what `show` reads off the options of the process that evaluates it, for each row.
pub fn showing(name: &'static str, show: fn(&ConfigOptions) -> String) -> ScalarUDF {
    let signature = Signature::any(1, Volatility::Volatile);
    ScalarUDF::from(ShowingUdf { name, show, signature })
}

struct ShowingUdf {
    name: &'static str,
    show: fn(&ConfigOptions) -> String,
    signature: Signature,
}

impl fmt::Debug for ShowingUdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShowingUdf").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for ShowingUdf {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ShowingUdf {}

impl Hash for ShowingUdf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for ShowingUdf {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let text = (self.show)(&args.config_options);
        let texts = StringArray::from_iter_values((0..args.number_rows).map(|_| text.as_str()));
        Ok(ColumnarValue::Array(Arc::new(texts)))
    }
}
