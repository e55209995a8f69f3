//! The tables of TPC-H, by `tpchgen`.

use datafusion::arrow::array::RecordBatchReader;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

use super::{Part, TableSize};
use crate::error::{CliError, Result};

/// All tables, the largest first so that the last part is a short one.
pub(super) fn tables(scale_factor: f64) -> Vec<TableSize> {
    let n_orders = OrderGenerator::calculate_row_count(scale_factor, 1, 1);
    let tables = [
        // an order has 1 to 7 lines
        ("lineitem", n_orders * 4),
        ("orders", n_orders),
        ("partsupp", PartSuppGenerator::calculate_row_count(scale_factor, 1, 1)),
        ("part", PartGenerator::calculate_row_count(scale_factor, 1, 1)),
        ("customer", CustomerGenerator::calculate_row_count(scale_factor, 1, 1)),
        ("supplier", SupplierGenerator::calculate_row_count(scale_factor, 1, 1)),
        ("nation", 25),
        ("region", 5),
    ];
    let size = |(name, n_rows)| TableSize { name, n_rows: u64::try_from(n_rows).unwrap_or(0) };
    tables.map(size).into()
}

/// The rows of one part.
pub(super) fn open(scale_factor: f64, part: &Part) -> Result<Box<dyn RecordBatchReader + Send>> {
    let too_many = |_| CliError::usage("too many parts; use fewer --parts");
    let sf = scale_factor;
    let i = i32::try_from(part.part_idx + 1).map_err(too_many)?;
    let n = i32::try_from(part.n_parts).map_err(too_many)?;
    Ok(match part.table {
        "lineitem" => Box::new(LineItemArrow::new(LineItemGenerator::new(sf, i, n))),
        "orders" => Box::new(OrderArrow::new(OrderGenerator::new(sf, i, n))),
        "partsupp" => Box::new(PartSuppArrow::new(PartSuppGenerator::new(sf, i, n))),
        "part" => Box::new(PartArrow::new(PartGenerator::new(sf, i, n))),
        "customer" => Box::new(CustomerArrow::new(CustomerGenerator::new(sf, i, n))),
        "supplier" => Box::new(SupplierArrow::new(SupplierGenerator::new(sf, i, n))),
        "nation" => Box::new(NationArrow::new(NationGenerator::new(sf, i, n))),
        "region" => Box::new(RegionArrow::new(RegionGenerator::new(sf, i, n))),
        table => return Err(CliError::usage(format!("TPC-H has no table '{table}'"))),
    })
}
