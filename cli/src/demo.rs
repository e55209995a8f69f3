//! `tributary demo`: the main job, from no data to a distributed query, in one go.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use datafusion_tributary::QueryReport;

use crate::args::{DemoArgs, SessionArgs};
use crate::bench::suite::TPCH_Q3;
use crate::data::{self, DataSpec, DataSuite};
use crate::dirs;
use crate::error::{CliError, Result};
use crate::session::Backend;
use crate::tables;

/// Runs the command.
pub(crate) async fn run(args: &DemoArgs) -> Result<()> {
    let spec =
        DataSpec { suite: DataSuite::Tpch, scale_factor: 0.1, parts: 4, dir: data_dir(args)? };
    println!("1. Data: TPC-H at scale factor {}, in {}", spec.scale_factor, spec.dir.display());
    let made = data::generate(&spec)?;
    println!("   {} files, {} of them new\n", made.n_files, made.n_new_files);

    let session = SessionArgs { force_distribution: true, ..SessionArgs::in_process(4) };
    let backend = Backend::start(&session).await?;
    let ctx = backend.session(&session).await?;
    let tables = tables::register_folder(&ctx, &spec.dir).await?;
    println!("2. Cluster: {}, tables {}\n", backend.describe(), tables.join(", "));

    println!("3. Query 3 of TPC-H\n\n{}\n", TPCH_Q3.trim());
    println!("4. Its plan (EXPLAIN): stages end at exchanges, the Network...Exec nodes\n");
    println!("{}\n", explain(&ctx).await?);
    println!("5. Its result\n");
    query(&ctx).await?;
    next_steps(&spec);
    Ok(())
}

fn data_dir(args: &DemoArgs) -> Result<PathBuf> {
    let cache = || Some(dirs::cache()?.join("tpch-sf0.1"));
    args.dir.clone().or_else(cache).ok_or_else(|| {
        CliError::usage("there is no home folder to keep the data in; name a folder with --dir")
    })
}

async fn explain(ctx: &SessionContext) -> Result<String> {
    let batches = ctx.sql(&format!("EXPLAIN {TPCH_Q3}")).await?.collect().await?;
    for batch in &batches {
        let (kinds, plans) =
            (batch.column(0).as_string::<i32>(), batch.column(1).as_string::<i32>());
        for row in 0..batch.num_rows() {
            if kinds.value(row) == "physical_plan" {
                return Ok(plans.value(row).trim_end().to_string());
            }
        }
    }
    Err(CliError::usage("EXPLAIN shows no physical plan"))
}

async fn query(ctx: &SessionContext) -> Result<()> {
    let started = Instant::now();
    let frame = ctx.sql(TPCH_Q3).await?;
    let plan = frame.create_physical_plan().await?;
    let batches = collect(Arc::clone(&plan), Arc::new(frame.task_ctx())).await?;
    let elapsed = started.elapsed();
    println!("{}", pretty_format_batches(&batches)?);
    let n_rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
    println!("{n_rows} rows in {:.3} s\n", elapsed.as_secs_f64());
    match QueryReport::of(&plan) {
        Some(report) => {
            println!(
                "6. It ran as {} tasks in {} stages, which exchanged {}",
                report.n_tasks,
                report.n_stages,
                indicatif::BinaryBytes(report.exchanged_bytes)
            );
            for stage in &report.stages {
                println!(
                    "   stage {}: {} tasks of {} partitions",
                    stage.stage_id, stage.n_tasks, stage.n_partitions
                );
            }
            println!();
        }
        None => {
            println!("6. It ran in this process only: no part of its plan could be distributed\n")
        }
    }
    Ok(())
}

fn next_steps(spec: &DataSpec) {
    let dir = spec.dir.display();
    println!("Try next:");
    println!("  tributary sql --data {dir} --workers 4");
    println!("  tributary sql --data {dir} --spawn-workers 2");
    println!("  tributary sql --data {dir} -c 'SELECT count(*) FROM lineitem'");
    println!("  tributary bench --suite tpch --data {dir} --check --force-distribution");
    println!("  tributary data tpch --scale-factor 1 --out ./tpch-sf1");
    println!("  tributary bench --suite tpch --data ./tpch-sf1 --compare-single");
}
