//! Kinds of bugs that distributed engines are known for, one module each.

mod aggregates_of_nothing;
mod build_side;
mod codec_order;
mod decimals;
mod dictionaries;
mod dropped_streams;
mod empty_build_sides;
mod errors;
mod grouping_sets;
mod large_values;
mod limits;
mod lost_workers;
mod metrics;
mod no_encoding;
mod null_equality;
mod orders;
mod scalar_subqueries;
mod settings;
mod shadowed_functions;
mod shared_work;
mod string_views;
mod union_branches;
mod unsplittable;
mod zero_columns;
mod zero_partitions;
