//! The tables of TPC-DS, by `tpcdsgen`. `dbgen_version` is left out: it holds the time of its making.

use datafusion::arrow::array::RecordBatchReader;
use tpcdsgen::config::{Session, SessionBuilder, Table};
use tpcdsgen_arrow::{
    CallCenterArrow, CatalogPageArrow, CatalogReturnsArrow, CatalogSalesArrow,
    CustomerAddressArrow, CustomerArrow, CustomerDemographicsArrow, DateDimArrow,
    HouseholdDemographicsArrow, IncomeBandArrow, InventoryArrow, ItemArrow, PromotionArrow,
    ReasonArrow, ShipModeArrow, StoreArrow, StoreReturnsArrow, StoreSalesArrow, TimeDimArrow,
    WarehouseArrow, WebPageArrow, WebReturnsArrow, WebSalesArrow, WebSiteArrow,
};

use super::{Part, TableSize};
use crate::error::{CliError, Result};

/// All tables, the largest first so that the last part is a short one.
pub(super) fn tables(scale_factor: f64) -> Vec<TableSize> {
    let Ok(session) = session(scale_factor) else {
        return Vec::new();
    };
    let tables = Table::values().iter().filter(|table| **table != Table::DbgenVersion);
    let size = |table: &Table| TableSize {
        name: table.get_name(),
        // a row of a table with history depends on the one before it
        n_rows: if table.keeps_history() { 0 } else { session.get_scaling().get_row_count(*table) },
    };
    let mut sizes: Vec<_> = tables.map(size).collect();
    sizes.sort_by_key(|size| std::cmp::Reverse(size.n_rows));
    sizes
}

/// The rows of one part.
pub(super) fn open(scale_factor: f64, part: &Part) -> Result<Box<dyn RecordBatchReader + Send>> {
    let session = session(scale_factor)?;
    let table = Table::values()
        .iter()
        .find(|table| table.get_name() == part.table)
        .ok_or_else(|| CliError::usage(format!("TPC-DS has no table '{}'", part.table)))?;
    // Sources of rows, such as orders: one makes some lines and their returns. The generator's own
    // chunks leave tables below a million sources whole, hence ranges of ours.
    let n_sources = session.get_scaling().get_row_count(*table);
    let bound = |idx: u32| n_sources * u64::from(idx) / u64::from(part.n_parts);
    let (first, last) = (bound(part.part_idx) + 1, bound(part.part_idx + 1));

    macro_rules! reader {
        ($arrow:ident) => {{
            let reader = $arrow::new(session);
            // a whole table needs no range, and small ones may have no sources to count
            if part.n_parts == 1 {
                Box::new(reader)
            } else {
                Box::new(reader.with_source_row_range(first, last))
            }
        }};
    }
    Ok(match table {
        Table::CallCenter => reader!(CallCenterArrow),
        Table::CatalogPage => reader!(CatalogPageArrow),
        Table::CatalogReturns => reader!(CatalogReturnsArrow),
        Table::CatalogSales => reader!(CatalogSalesArrow),
        Table::Customer => reader!(CustomerArrow),
        Table::CustomerAddress => reader!(CustomerAddressArrow),
        Table::CustomerDemographics => reader!(CustomerDemographicsArrow),
        Table::DateDim => reader!(DateDimArrow),
        Table::HouseholdDemographics => reader!(HouseholdDemographicsArrow),
        Table::IncomeBand => reader!(IncomeBandArrow),
        Table::Inventory => reader!(InventoryArrow),
        Table::Item => reader!(ItemArrow),
        Table::Promotion => reader!(PromotionArrow),
        Table::Reason => reader!(ReasonArrow),
        Table::ShipMode => reader!(ShipModeArrow),
        Table::Store => reader!(StoreArrow),
        Table::StoreReturns => reader!(StoreReturnsArrow),
        Table::StoreSales => reader!(StoreSalesArrow),
        Table::TimeDim => reader!(TimeDimArrow),
        Table::Warehouse => reader!(WarehouseArrow),
        Table::WebPage => reader!(WebPageArrow),
        Table::WebReturns => reader!(WebReturnsArrow),
        Table::WebSales => reader!(WebSalesArrow),
        Table::WebSite => reader!(WebSiteArrow),
        Table::DbgenVersion => return Err(CliError::usage("dbgen_version is not made")),
    })
}

fn session(scale_factor: f64) -> Result<Session> {
    SessionBuilder::new()
        .with_scale_factor(scale_factor)
        .build()
        .map_err(|e| CliError::usage(format!("no TPC-DS data at this scale factor: {e}")))
}
