//! Cases as data, and the one way to check them.

use std::path::Path;
use std::slice;
use std::sync::Arc;

use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion_tributary::QueryReport;
use datafusion_tributary_cli::check::{Rule, check_sql};
use tempfile::TempDir;

use crate::cluster::Cluster;
use crate::site::{Site, unique};
use crate::text::explain;
use crate::world::{Extras, Sessions, Stats, World, settled};
use crate::{or_hang, tables};

/// A statement that has to give the same with workers as without.
#[derive(Clone, Debug)]
pub struct Case {
    /// How failures name it.
    pub name: String,
    /// Statements that prepare both sessions.
    pub setup: Vec<String>,
    /// The statement.
    pub sql: String,
    /// What else has to be true.
    pub expect: Expect,
}

/// What a case claims besides equal results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Something runs on workers, and on more than one where there are more.
    Spread,
    /// Something runs on workers.
    Distributed,
    /// `EXPLAIN` says with these words why a part stays in the coordinator; the rest runs on workers.
    Partly(&'static str),
    /// `EXPLAIN` says with these words why the query stays in the coordinator.
    Local(&'static str),
    /// Where it runs doesn't matter, and it may fail on both sides.
    Anywhere,
    /// Both sides fail, with these words.
    Fails(&'static str),
}

impl Case {
    /// A case that is spread over workers.
    pub fn new(name: &str, setup: &[&str], sql: &str) -> Self {
        Self {
            name: name.to_string(),
            setup: setup.iter().map(ToString::to_string).collect(),
            sql: sql.to_string(),
            expect: Expect::Spread,
        }
    }

    /// The same case with another claim.
    #[must_use]
    pub fn expecting(mut self, expect: Expect) -> Self {
        self.expect = expect;
        self
    }
}

/// Cases with one set-up, each of a name and a statement.
pub fn cases(setup: &[&str], statements: &[(&str, &str)], expect: Expect) -> Vec<Case> {
    let case = |(name, sql): &(&str, &str)| Case::new(name, setup, sql).expecting(expect);
    statements.iter().map(case).collect()
}

/// Checks one case in every world, and over each network.
///
/// # Panics
/// With all failures.
pub async fn check_everywhere(case: &Case) {
    check_all(slice::from_ref(case)).await;
}

/// Checks cases in every world, and over each network. Neighbours with the same set-up share their sessions.
///
/// # Panics
/// With all failures.
pub async fn check_all(cases: &[Case]) {
    Check::default().run(cases).await;
}

/// Checks cases in worlds that cover every pair of settings: for cases that run everywhere with another
/// set-up already.
///
/// # Panics
/// With all failures.
pub async fn check_pairs(cases: &[Case]) {
    let (worlds, networks) = (World::pairs(), Site::over_networks_swapped());
    let check = Check { worlds, networks, ..Check::default() };
    check.run(cases).await;
}

/// A check that is not the usual one.
#[derive(Debug)]
pub struct Check {
    /// Where the cases run.
    pub worlds: Vec<World>,
    /// Where they run besides.
    pub networks: Vec<Site>,
    /// What sessions and workers have in addition.
    pub extras: Extras,
    /// The folder of the tables, in place of the shared one.
    pub data: Option<Arc<TempDir>>,
}

impl Default for Check {
    fn default() -> Self {
        Self {
            worlds: World::all(),
            networks: Site::over_networks(),
            extras: Extras::default(),
            data: None,
        }
    }
}

impl Check {
    /// The check with these extras.
    pub fn with(extras: Extras) -> Self {
        Self { extras, ..Self::default() }
    }

    /// Checks the cases.
    ///
    /// # Panics
    /// With all failures.
    pub async fn run(&self, cases: &[Case]) {
        assert!(!cases.is_empty(), "no cases");
        let data = match &self.data {
            Some(data) => Arc::clone(data),
            None => tables::files().await,
        };
        let mut failures = Vec::new();
        let sites = self.sites();
        for site in &sites {
            let found = self.run_at(site, cases, data.path()).await;
            failures.extend(found.into_iter().map(|failure| format!("[{site}] {failure}")));
            // a second site would most likely wait as long again
            if failures.iter().any(|failure| failure.contains("it hangs")) {
                break;
            }
        }
        let shown: Vec<_> = failures.iter().take(12).map(String::as_str).collect();
        assert!(
            failures.is_empty(),
            "{} of {} checks fail:\n{}",
            failures.len(),
            cases.len() * sites.len(),
            shown.join("\n\n")
        );
    }

    /// Where the cases run, each place once.
    fn sites(&self) -> Vec<Site> {
        let worlds = self.worlds.iter().map(|world| Site::from(*world));
        unique(worlds.chain(self.networks.iter().copied()))
    }

    async fn run_at(&self, site: &Site, cases: &[Case], data: &Path) -> Vec<String> {
        let world = &site.world;
        let cluster = match site.start(&self.extras).await {
            Ok(cluster) => cluster,
            Err(e) => return vec![format!("no cluster: {e}")],
        };
        let mut failures = Vec::new();
        let mut shared: Option<(&[String], Sessions)> = None;
        for case in cases {
            let sessions = match &shared {
                Some((setup, sessions)) if *setup == case.setup => Ok(sessions.clone()),
                _ => self.sessions(world, &cluster, case, data).await,
            };
            let checked = match sessions {
                Ok(sessions) => {
                    let checked = check_case(world, &sessions, &cluster, case).await;
                    shared = Some((&case.setup, sessions));
                    checked
                }
                Err(e) => Err(e.context("in the set-up")),
            };
            if let Err(e) = checked {
                failures.push(format!("{}: {}", case.name, shortened(e.strip_backtrace())));
            }
        }
        failures
    }

    async fn sessions(
        &self,
        world: &World,
        cluster: &Cluster,
        case: &Case,
        data: &Path,
    ) -> Result<Sessions> {
        let sessions = Sessions::new(world, &self.extras, cluster).await?;
        let setup: Vec<_> = case.setup.iter().map(String::as_str).collect();
        sessions.set_up(&setup, data).await?;
        Ok(sessions)
    }
}

/// A statement of some megabytes would hide what is wrong with it.
fn shortened(mut text: String) -> String {
    const SHOWN_BYTES: usize = 6000;
    if text.len() > SHOWN_BYTES {
        text.truncate(text.floor_char_boundary(SHOWN_BYTES));
        text.push_str(" ...");
    }
    text
}

/// Checks a case in sessions that are set up.
///
/// # Errors
/// What differs from the claim.
pub async fn check_case(
    world: &World,
    sessions: &Sessions,
    cluster: &impl Stats,
    case: &Case,
) -> Result<()> {
    let Sessions { single, distributed } = sessions;
    check_place(world, sessions, case).await?;
    let verdict = or_hang(check_sql(single, distributed, &case.sql)).await??;
    let both_fail = verdict.0.contains(&Rule::BothFail);
    match case.expect {
        Expect::Anywhere => {}
        Expect::Fails(words) => {
            if !both_fail {
                return exec_err!("it has to fail");
            }
            let text = crate::text::error_of(distributed, &case.sql).await.to_string();
            if !text.contains(words) {
                return exec_err!("the error doesn't say '{words}': {text}");
            }
        }
        _ if both_fail => {
            let error = crate::text::error_of(distributed, &case.sql).await;
            return exec_err!("both sides fail: {error}");
        }
        _ => {}
    }
    settled(cluster).await
}

/// Checks how many stages and tasks the statement has, or why it has none.
async fn check_place(world: &World, sessions: &Sessions, case: &Case) -> Result<()> {
    let text = || explain(&sessions.distributed, &case.sql);
    match case.expect {
        Expect::Anywhere | Expect::Fails(_) => return Ok(()),
        Expect::Local(words) | Expect::Partly(words) => {
            let text = text().await?;
            if !text.contains(words) {
                return exec_err!("EXPLAIN doesn't say '{words}':\n{text}");
            }
            if matches!(case.expect, Expect::Local(_)) {
                return Ok(());
            }
        }
        Expect::Spread | Expect::Distributed => {}
    }
    let frame = sessions.distributed.sql(&case.sql).await?;
    let report = QueryReport::of(&frame.create_physical_plan().await?);
    let (n_stages, n_tasks) = report.map_or((1, 1), |report| (report.n_stages, report.n_tasks));
    if n_stages < 2 {
        return exec_err!("it is not distributed:\n{}", text().await?);
    }
    if case.expect == Expect::Spread && world.n_workers > 1 && n_tasks <= 2 {
        let text = text().await?;
        return exec_err!("{n_tasks} tasks, which is one worker only:\n{text}");
    }
    Ok(())
}
