//! Who may fill which memory.

use std::sync::Arc;

use crate::conformance::lab::{Lab, MESSAGE_BYTES, Settings, check};
use crate::conformance::script::{Script, Step, long_rows};
use crate::conformance::{Fixture, Verdict};

/// Of each side.
const BUDGET_BYTES: usize = 16 * MESSAGE_BYTES;
const N_OUTPUTS: usize = 4;
const N_BATCHES: usize = 200;

/// **C12** With stalled consumers, buffered bytes stay within the budget plus one over-long row.
pub async fn c12_buffered_bytes_stay_within_the_budget(fixture: &dyn Fixture) -> Verdict {
    let (lab, script) = small_lab(fixture).await?;
    let query = lab.run(&script).await?;
    let mut streams = query.fetch([0, 1, 2, 3])?;
    for stream in &mut streams {
        lab.batch(stream).await?;
    }
    let n_produced = lab.at_rest(|| script.produced_by_all()).await?;
    // Both budgets, and for each output the batch that was read, one that its driver holds and one
    // that is on its way.
    let n_allowed = 2 * BUDGET_BYTES / MESSAGE_BYTES + 3 * N_OUTPUTS;
    check!(n_produced <= n_allowed, "{n_produced} batches were buffered, {n_allowed} fit");
    // A reader that waits may always have one message.
    let limit = BUDGET_BYTES + N_OUTPUTS * 2 * MESSAGE_BYTES;
    for (side, env) in [("server", &lab.server_env), ("client", &lab.client_env)] {
        let peak = env.budget.peak_bytes();
        check!(peak <= limit, "the {side} buffered {peak} bytes, its budget is {BUDGET_BYTES}");
    }
    for stream in &mut streams {
        let n_left = lab.all(stream).await?.len();
        check!(n_left == N_BATCHES - 1, "{n_left} batches were left");
    }
    Ok(())
}

/// **C13** A stalled output never blocks a sibling.
pub async fn c13_a_stalled_output_never_blocks_a_sibling(fixture: &dyn Fixture) -> Verdict {
    let (lab, script) = small_lab(fixture).await?;
    let query = lab.run(&script).await?;
    let [mut stalled, mut second, mut third, mut fourth] = query.fetch([0, 1, 2, 3])?;
    lab.batch(&mut stalled).await?;
    for sibling in [&mut fourth, &mut second, &mut third] {
        let n_batches = lab.all(sibling).await?.len();
        check!(n_batches == N_BATCHES, "{n_batches} batches of a sibling arrived");
    }
    let n_left = lab.all(&mut stalled).await?.len();
    check!(n_left == N_BATCHES - 1, "{n_left} batches were left of the stalled output");
    Ok(())
}

async fn small_lab(fixture: &dyn Fixture) -> Verdict<(Lab, Arc<Script>)> {
    let settings = Settings { budget_bytes: BUDGET_BYTES, ..Settings::default() };
    let lab = Lab::with(fixture, settings).await?;
    // With its offsets and its frame, a batch is a message.
    let batch = long_rows(1, MESSAGE_BYTES - 2048);
    let outputs = vec![vec![Step::Batch(batch.clone()); N_BATCHES]; N_OUTPUTS];
    Ok((lab, Script::new(batch.schema(), outputs)))
}
