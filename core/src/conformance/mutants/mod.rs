//! Small broken channels. Each breaks one clause, whose case has to find it: a case that no mutant
//! can fail proves nothing.

mod channel;
mod stream;
mod transport;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use url::Url;

use self::channel::Break;
use self::transport::{BrokenTransport, Defect};
use super::{Capabilities, Case, Fixture};
use crate::transport::ShuffleTransport;

/// A defect and the case that has to find it.
#[derive(Clone, Copy)]
pub struct Mutant {
    /// What is broken.
    pub name: &'static str,
    /// The clause that it breaks, as in `c01`.
    pub clause: &'static str,
    defect: Defect,
}

impl fmt::Debug for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.clause, self.name)
    }
}

macro_rules! mutants {
    ($($clause:ident $name:literal $defect:expr;)*) => {
        /// All mutants.
        pub const MUTANTS: &[Mutant] = &[$(Mutant {
            name: $name,
            clause: stringify!($clause),
            defect: $defect,
        },)*];
    };
}

mutants! {
    c01 "fetches eagerly" Defect::Channel(Break::FetchesEagerly);
    c02 "swaps two batches" Defect::Channel(Break::SwapsTwo);
    c02 "drops the last batch" Defect::Channel(Break::DropsLast);
    c03 "loses the schema's metadata" Defect::Channel(Break::LosesSchemaMetadata);
    c03 "drops empty batches" Defect::Channel(Break::DropsEmpty);
    c04 "has a message limit" Defect::Channel(Break::HasMessageLimit);
    c05 "ends without a marker" Defect::Channel(Break::EndsWithoutMarker);
    c06 "lets an error overtake a batch" Defect::Channel(Break::ErrorOvertakes);
    c06 "swallows the error" Defect::Channel(Break::SwallowsErrors);
    c07 "loses the origin" Defect::Channel(Break::LosesOrigin);
    c07 "cuts no text" Defect::Channel(Break::CutsNoText);
    c08 "ends on a panic" Defect::Channel(Break::EndsOnPanic);
    c09 "leaks its streams" Defect::Channel(Break::LeaksStreams);
    c10 "leaks a task" Defect::Channel(Break::LeaksTask);
    c11 "remembers the first waker" Defect::Channel(Break::FirstWaker);
    c12 "buffers without bound" Defect::Channel(Break::BuffersWithoutBound);
    c13 "blocks a sibling" Defect::Channel(Break::BlocksSiblings);
    c14 "takes a consumed output for an empty one" Defect::Channel(Break::ConsumedIsEmpty);
    c15 "takes an ended query for an unknown one" Defect::Channel(Break::EndedIsUnknown);
    c15 "doesn't name the stage" Defect::Channel(Break::NamesNoStage);
    c16 "hangs when the peer is lost" Defect::Channel(Break::HangsOnLoss);
    c16 "takes a lost peer for an unavailable one" Defect::Channel(Break::LostIsUnavailable);
    c17 "forgets the deadline" Defect::Channel(Break::ForgetsDeadlines);
    c18 "forgets the address" Defect::ForgetsAddress;
    c19 "connects once" Defect::ConnectsOnce;
    c20 "loses the metadata" Defect::Channel(Break::LosesMetadata);
    c21 "claims the current version" Defect::Channel(Break::ClaimsVersion);
    c22 "gives up a draining worker" Defect::Channel(Break::GivesUpDraining);
    c23 "forgets the first commands" Defect::Channel(Break::ForgetsFirstCommands);
}

impl Mutant {
    /// What the clause's case finds in the mutant over a sound transport, which has to have
    /// connections; none if the mutant survives.
    pub fn found(&self, sound: &dyn Fixture) -> Option<String> {
        let case = super::CASES.iter().find(|case| case.name.starts_with(self.clause))?;
        run_alone(case, &Broken { sound, defect: self.defect }).err()
    }
}

/// Checks that over a sound transport, which has to have connections, the cases find each mutant, and
/// nothing without one.
///
/// # Errors
/// What they find without a mutant, or else the mutants that survive.
pub fn check_mutants(sound: &dyn Fixture) -> Result<(), String> {
    let found = found_without_defect(sound);
    if !found.is_empty() {
        return Err(format!("the suite fails without a mutant: {found:?}"));
    }
    let survived: Vec<_> = MUTANTS.iter().filter(|mutant| mutant.found(sound).is_none()).collect();
    match &survived[..] {
        [] => Ok(()),
        _ => Err(format!("the suite doesn't notice that a channel {survived:?}")),
    }
}

/// What the cases find in the sound transport itself, under the same conditions: has to be nothing,
/// or what they find in a mutant is no proof.
pub fn found_without_defect(sound: &dyn Fixture) -> Vec<String> {
    let control = Broken { sound, defect: Defect::None };
    super::CASES.iter().filter_map(|case| run_alone(case, &control).err()).collect()
}

/// Runs a case on a runtime of its own, where a mutant's leftovers disturb nobody.
fn run_alone(case: &Case, fixture: &dyn Fixture) -> Result<(), String> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    // A machine without threads to spare finds nothing.
    let Ok(runtime) = runtime else { return Ok(()) };
    let verdict = runtime.block_on(case.run(fixture));
    runtime.shutdown_background();
    verdict
}

/// The clauses that no mutant breaks.
pub fn clauses_without_mutants() -> Vec<&'static str> {
    let has_mutant =
        |case: &&Case| MUTANTS.iter().any(|mutant| case.name.starts_with(mutant.clause));
    super::CASES.iter().filter(|case| !has_mutant(case)).map(|case| case.name).collect()
}

struct Broken<'a> {
    sound: &'a dyn Fixture,
    defect: Defect,
}

impl Fixture for Broken<'_> {
    fn transport(&self) -> Arc<dyn ShuffleTransport> {
        Arc::new(BrokenTransport::new(self.sound.transport(), self.defect))
    }

    fn listen(&self) -> Url {
        self.sound.listen()
    }

    fn capabilities(&self) -> Capabilities {
        self.sound.capabilities()
    }

    /// Some mutants hang.
    fn patience(&self) -> Duration {
        Duration::from_secs(3)
    }
}
