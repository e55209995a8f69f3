//! Codecs for the functions and nodes of these tests.

use std::sync::Arc;

use datafusion::common::not_impl_err;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::ScalarUDF;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};

use crate::custom::NumbersExec;
use crate::functions::{Carried, as_carried, carried};

/// Carries the functions of one name. Two of them have the same payload, so that mixing them up gives
/// wrong rows and no error.
#[derive(Debug)]
pub struct FunctionCodec {
    /// The functions' name.
    pub name: &'static str,
    /// Whether it decodes to a product.
    pub is_product: bool,
}

impl PhysicalExtensionCodec for FunctionCodec {
    fn try_decode(
        &self,
        _buf: &[u8],
        _inputs: &[Arc<dyn ExecutionPlan>],
        _ctx: &TaskContext,
        _proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        not_impl_err!("{} is a codec of functions", self.name)
    }

    fn try_encode(
        &self,
        _node: Arc<dyn ExecutionPlan>,
        _buf: &mut Vec<u8>,
        _proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        not_impl_err!("{} is a codec of functions", self.name)
    }

    fn try_encode_udf(&self, node: &ScalarUDF, buf: &mut Vec<u8>) -> Result<()> {
        match as_carried(node) {
            Some(function) if function.name == self.name => {
                buf.extend(function.operand.to_le_bytes());
                Ok(())
            }
            _ => not_impl_err!("not a function named {}", self.name),
        }
    }

    fn try_decode_udf(&self, _name: &str, buf: &[u8]) -> Result<Arc<ScalarUDF>> {
        let Ok(operand) = buf.try_into().map(i64::from_le_bytes) else {
            return not_impl_err!("a payload of {} bytes", buf.len());
        };
        let (name, is_product) = (self.name, self.is_product);
        Ok(Arc::new(carried(Carried { name, is_product, operand })))
    }
}

/// Carries [`NumbersExec`].
#[derive(Debug)]
pub struct NumbersCodec;

impl PhysicalExtensionCodec for NumbersCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        _inputs: &[Arc<dyn ExecutionPlan>],
        _ctx: &TaskContext,
        _proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match buf {
            [first, n_partitions, is_projected] => {
                let (first, n_partitions) = (usize::from(*first), usize::from(*n_partitions));
                Ok(Arc::new(NumbersExec::slice(first, n_partitions, *is_projected == 1)))
            }
            _ => not_impl_err!("a payload of {} bytes", buf.len()),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        _proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(numbers) = node.downcast_ref::<NumbersExec>() else {
            return not_impl_err!("not a NumbersExec");
        };
        buf.extend([
            u8::try_from(numbers.first()).unwrap_or(u8::MAX),
            u8::try_from(numbers.n_partitions()).unwrap_or(u8::MAX),
            u8::from(numbers.has_column()),
        ]);
        Ok(())
    }
}
