//! The tables of TPC-H, by `tpchgen`.

use std::fmt::{Display, Write};
use std::path::Path;

use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;
use tpchgen::csv::{CustomerCsv, LineItemCsv, OrderCsv, PartCsv};
use tpchgen::distribution::Distributions;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen::text::TextPool;

use super::write_file;

/// Writes the whole tables as `.tbl` files, and some rows of four of them as CSV files.
pub(super) fn write(root: &Path) -> Result<()> {
    let pool = TextPool::new(POOL_SIZE, Distributions::static_default());
    let tbl = root.join("datafusion/sqllogictest/test_files/tpch/data");
    write_tbl(&tbl, &Tables::new(SCALE_FACTOR, &pool))?;
    let csv = root.join("datafusion/core/tests/tpch-csv");
    write_csv(&csv, &Tables::new(CSV_SCALE_FACTOR, &pool))
}

/// The comments are cut from a text of this size. The usual one, of 300 MiB, takes far longer to
/// make than all tables.
const POOL_SIZE: i32 = 1024 * 1024;
/// DataFusion's own answers are of scale factor 0.1. A tenth of it keeps the tests quick.
const SCALE_FACTOR: f64 = 0.01;
/// So small that the orders find their customers, and the lines their parts.
const CSV_SCALE_FACTOR: f64 = 0.001;
const N_CSV_ORDERS: usize = 200;
/// About those of the orders.
const N_CSV_LINES: usize = 800;

fn write_tbl(dir: &Path, tables: &Tables<'_>) -> Result<()> {
    let files = [
        ("customer", lines(tables.customer.iter())?),
        ("lineitem", lines(tables.lineitem.iter())?),
        ("nation", lines(tables.nation.iter())?),
        ("orders", lines(tables.orders.iter())?),
        ("part", lines(tables.part.iter())?),
        ("partsupp", lines(tables.partsupp.iter())?),
        ("region", lines(tables.region.iter())?),
        ("supplier", lines(tables.supplier.iter())?),
    ];
    for (table, rows) in files {
        write_file(&dir.join(format!("{table}.tbl")), rows)?;
    }
    Ok(())
}

fn write_csv(dir: &Path, tables: &Tables<'_>) -> Result<()> {
    let orders = tables.orders.iter().take(N_CSV_ORDERS);
    let items = tables.lineitem.iter().take(N_CSV_LINES);
    let files = [
        ("customer", CustomerCsv::header(), lines(tables.customer.iter().map(CustomerCsv::new))?),
        ("orders", OrderCsv::header(), lines(orders.map(OrderCsv::new))?),
        ("lineitem", LineItemCsv::header(), lines(items.map(LineItemCsv::new))?),
        ("part", PartCsv::header(), lines(tables.part.iter().map(PartCsv::new))?),
    ];
    for (table, header, rows) in files {
        write_file(&dir.join(format!("{table}.csv")), format!("{header}\n{rows}"))?;
    }
    Ok(())
}

fn lines(rows: impl Iterator<Item = impl Display>) -> Result<String> {
    let mut text = String::new();
    for row in rows {
        writeln!(text, "{row}").map_err(|e| exec_datafusion_err!("a row of TPC-H: {e}"))?;
    }
    Ok(text)
}

struct Tables<'a> {
    customer: CustomerGenerator<'a>,
    lineitem: LineItemGenerator<'a>,
    nation: NationGenerator<'a>,
    orders: OrderGenerator<'a>,
    part: PartGenerator<'a>,
    partsupp: PartSuppGenerator<'a>,
    region: RegionGenerator<'a>,
    supplier: SupplierGenerator<'a>,
}

#[rustfmt::skip]
impl<'a> Tables<'a> {
    fn new(sf: f64, pool: &'a TextPool) -> Self {
        let dist = Distributions::static_default();
        Self {
            customer: CustomerGenerator::new_with_distributions_and_text_pool(sf, 1, 1, dist, pool),
            lineitem: LineItemGenerator::new_with_distributions_and_text_pool(sf, 1, 1, dist, pool),
            nation: NationGenerator::new_with_distributions_and_text_pool(dist, pool),
            orders: OrderGenerator::new_with_distributions_and_text_pool(sf, 1, 1, dist, pool),
            part: PartGenerator::new_with_distributions_and_text_pool(sf, 1, 1, dist, pool),
            partsupp: PartSuppGenerator::new_with_text_pool(sf, 1, 1, pool),
            region: RegionGenerator::new_with_distributions_and_text_pool(dist, pool),
            supplier: SupplierGenerator::new_with_distributions_and_text_pool(sf, 1, 1, dist, pool),
        }
    }
}
