//! Exchanges that a rule puts above scans.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tributary::{DistributedOptions, TaskCount, check_distributable};
use datafusion_tributary_cli::check::check_sql;
use datafusion_tributary_tests::boundaries::{AboveScans, Ask};
use datafusion_tributary_tests::tables::{
    self, BUILD_SIDE, DATA, EMPTY, NULLS, OTHER_NULLS, PARTITIONED_JOINS, PROBE_SIDE, SORTED,
};
use datafusion_tributary_tests::text::explain;
use datafusion_tributary_tests::world::Rules;
use datafusion_tributary_tests::{Check, Expect, Extras, Place, World, cases, or_hang};

use super::tasks;

/// As extras have them.
type MakeRules = fn() -> Rules;

const TABLES: [&str; 5] = [BUILD_SIDE, PROBE_SIDE, NULLS, OTHER_NULLS, EMPTY];
const GROUPED: &str = "SELECT id, count(*), sum(n) FROM probe_side GROUP BY id";

const STATEMENTS: &[(&str, &str)] = &[
    ("rows", "SELECT id, n FROM probe_side"),
    ("filtered", "SELECT n FROM probe_side WHERE id % 7 = 3"),
    ("grouped", GROUPED),
    ("aggregated", "SELECT count(k), sum(v), avg(v), min(s), max(k) FROM nulls"),
    ("grouped by two", "SELECT k, s, count(*), min(v) FROM nulls GROUP BY k, s"),
    ("distinct", "SELECT DISTINCT k % 5 FROM nulls"),
    ("sorted", "SELECT id, n FROM probe_side ORDER BY n"),
    ("first", "SELECT n FROM probe_side ORDER BY n DESC LIMIT 13"),
    ("limited", "SELECT count(*) FROM (SELECT n FROM probe_side WHERE n >= 0 LIMIT 3000)"),
    ("joined", "SELECT b.id, p.n FROM build_side b JOIN probe_side p ON b.id = p.id"),
    ("left", "SELECT a.k, a.v, b.v FROM nulls a LEFT JOIN other_nulls b ON a.k = b.k"),
    ("full", "SELECT a.v, b.v FROM nulls a FULL JOIN other_nulls b ON a.k = b.k AND a.v < b.v"),
    ("semi", "SELECT n FROM probe_side WHERE id IN (SELECT k FROM nulls)"),
    ("cross", "SELECT count(*) FROM build_side a CROSS JOIN nulls b WHERE a.id < b.v"),
    ("united", "SELECT id FROM build_side UNION ALL SELECT n FROM probe_side"),
    (
        "united and grouped",
        "SELECT id, count(*) FROM (SELECT id FROM build_side UNION ALL SELECT id FROM probe_side UNION ALL SELECT k FROM nulls) GROUP BY id",
    ),
    (
        "joined and grouped",
        "SELECT b.id, count(*), max(p.n) FROM build_side b JOIN probe_side p ON b.id = p.id GROUP BY b.id",
    ),
    ("window", "SELECT k, v, sum(v) OVER (PARTITION BY k ORDER BY v) AS s FROM nulls"),
    ("subquery", "SELECT n FROM probe_side WHERE id > (SELECT avg(id) FROM build_side)"),
    ("with nothing", "SELECT p.n FROM probe_side p LEFT JOIN empty e ON e.id = p.id"),
];

/// One kind of exchange everywhere, and several in one query.
const RULES: [(&str, MakeRules); 10] = [
    ("gather 1", || above(&[Ask::Gather(1)])),
    ("gather 2", || above(&[Ask::Gather(2)])),
    ("merge 2", || above(&[Ask::Merge(2)])),
    ("merge 1", || above(&[Ask::Merge(1)])),
    ("round robin", || above(&[Ask::RoundRobin(TaskCount::Workers)])),
    ("hash 3", || above(&[Ask::Hash(TaskCount::AtMost(3))])),
    ("gather and none", || above(&[Ask::Gather(2), Ask::Leave])),
    ("none and merge", || above(&[Ask::Leave, Ask::Merge(2)])),
    ("round robin and gather", || above(&[Ask::RoundRobin(TaskCount::AtMost(3)), Ask::Gather(1)])),
    ("hash and round robin", || {
        above(&[Ask::Hash(TaskCount::AtMost(2)), Ask::RoundRobin(TaskCount::Workers), Ask::Leave])
    }),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_the_same() {
    for (name, rules) in RULES {
        let check =
            Check { worlds: World::pairs(), ..Check::with(Extras { rules, ..Extras::default() }) };
        let mut all = cases(&TABLES, STATEMENTS, Expect::Distributed);
        for case in &mut all {
            case.name = format!("{name}: {}", case.name);
        }
        check.run(&all).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_of_partitions() {
    let setup: Vec<_> = TABLES.iter().chain(&PARTITIONED_JOINS).copied().collect();
    let joins: Vec<_> =
        STATEMENTS.iter().filter(|(_, sql)| sql.contains("JOIN")).copied().collect();
    for (name, rules) in RULES {
        let check =
            Check { worlds: World::pairs(), ..Check::with(Extras { rules, ..Extras::default() }) };
        let mut all = cases(&setup, &joins, Expect::Distributed);
        for case in &mut all {
            case.name = format!("{name}: {}", case.name);
        }
        check.run(&all).await;
    }
}

/// An order that is relied on survives a gather, whether its partitions stay or are merged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders() {
    const ORDERED: &[(&str, &str)] = &[
        ("all", "SELECT k, n, v FROM sorted ORDER BY k, n"),
        ("first", "SELECT k, n FROM sorted ORDER BY k, n LIMIT 30"),
        ("window", "SELECT k, n, sum(v) OVER (PARTITION BY k ORDER BY n) AS s FROM sorted"),
        ("grouped", "SELECT k, count(*), sum(v) FROM sorted GROUP BY k ORDER BY k"),
    ];
    let rules: [MakeRules; 3] =
        [|| above(&[Ask::Gather(2)]), || above(&[Ask::Merge(2)]), || above(&[Ask::Merge(1)])];
    for rules in rules {
        let check = Check::with(Extras { rules, ..Extras::default() });
        check.run(&cases(&[SORTED], ORDERED, Expect::Distributed)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stages_and_tasks() {
    let expected: [(MakeRules, &[u32], &str); 9] = [
        (|| above(&[Ask::Leave]), &[4, 4], "NetworkShuffleExec: stage=1, tasks=4→4"),
        (|| above(&[Ask::Gather(2)]), &[4, 2, 2], "NetworkCoalesceExec: stage=1, tasks=4→2"),
        (|| above(&[Ask::Gather(3)]), &[4, 3, 3], "NetworkCoalesceExec: stage=1, tasks=4→3"),
        (|| above(&[Ask::Gather(1)]), &[4, 1], "NetworkCoalesceExec: stage=1, tasks=4→1"),
        (|| above(&[Ask::Merge(2)]), &[4, 2, 2], "NetworkCoalesceExec: stage=1, tasks=4→2"),
        (
            || above(&[Ask::RoundRobin(TaskCount::Workers)]),
            &[4, 4, 4],
            "NetworkRoundRobinExec: stage=1, tasks=4→4, partitions=2",
        ),
        (|| above(&[Ask::RoundRobin(TaskCount::AtMost(3))]), &[4, 3, 3], "DealExec: outputs=6"),
        // There are four workers.
        (
            || above(&[Ask::RoundRobin(TaskCount::AtMost(100))]),
            &[4, 4, 4],
            "NetworkRoundRobinExec: stage=1, tasks=4→4, partitions=2",
        ),
        (
            || above(&[Ask::Hash(TaskCount::AtMost(3))]),
            &[4, 3, 3],
            "NetworkShuffleExec: stage=1, tasks=4→3, partitions=2, hash=[id@0]",
        ),
    ];
    let world = World { n_workers: 4, target_partitions: 2, force_encode: false };
    for (rules, expected, words) in expected {
        let place = Place::open(world, Extras { rules, ..Extras::default() }, &TABLES).await;
        let (found, plan) = tasks(&place, GROUPED).await;
        assert_eq!(found, expected, "{plan}");
        assert!(plan.contains(words), "no {words}:\n{plan}");
        assert!(!plan.contains("ExchangeRequestExec"), "{plan}");
    }
}

/// Both read the same; a merge has one partition in each task.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_of_a_task() {
    let expected: [(MakeRules, usize); 2] =
        [(|| above(&[Ask::Gather(2)]), 1), (|| above(&[Ask::Merge(2)]), 2)];
    for n_workers in [1, 4] {
        let world = World { n_workers, target_partitions: 2, force_encode: false };
        for (rules, expected) in expected {
            let place = Place::open(world, Extras { rules, ..Extras::default() }, &TABLES).await;
            let (_, plan) = tasks(&place, GROUPED).await;
            // One is on top, where all results come together.
            let found = plan.matches("CoalescePartitionsExec").count();
            assert_eq!(found, expected, "{plan}");
        }
    }
}

/// On one worker nothing has to be exchanged, and what was asked for is done there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_worker() {
    let world = World { n_workers: 1, target_partitions: 2, force_encode: false };
    let expected: [(MakeRules, &str); 2] = [
        (|| above(&[Ask::RoundRobin(TaskCount::Workers)]), "DealExec: outputs=2"),
        (|| above(&[Ask::Merge(3)]), "AggregateExec: mode=Partial"),
    ];
    for (rules, words) in expected {
        let place = Place::open(world, Extras { rules, ..Extras::default() }, &TABLES).await;
        let (found, plan) = tasks(&place, GROUPED).await;
        assert_eq!(found, [1], "{plan}");
        assert!(plan.contains(words), "no {words}:\n{plan}");
    }
}

/// A plan with requests runs in a session that isn't distributed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_planner() {
    let data = tables::files().await;
    let data = data.path().display().to_string();
    let session = |rules: Rules| {
        let config = SessionConfig::new().with_target_partitions(4);
        let builder = SessionStateBuilder::new().with_config(config).with_default_features();
        let rules = rules.into_iter();
        let builder = rules.fold(builder, SessionStateBuilder::with_physical_optimizer_rule);
        SessionContext::new_with_state(builder.build())
    };
    let plain = session(Vec::new());
    for (name, rules) in RULES {
        let asking = session(rules());
        for ctx in [&plain, &asking] {
            for table in TABLES {
                ctx.deregister_table(table.split(' ').nth(3).expect("a name")).expect("no error");
                let sql = table.replace(DATA, &data);
                ctx.sql(&sql).await.expect("planned").collect().await.expect("created");
            }
        }
        let plan = explain(&asking, GROUPED).await.expect("explained");
        assert_eq!(plan.contains("ExchangeRequestExec"), name != "none and merge", "{plan}");
        for (_, sql) in STATEMENTS {
            let verdict = or_hang(check_sql(&plain, &asking, sql)).await.expect("no hang");
            let verdict = verdict.unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_ne!(verdict.to_string(), "both fail", "{name}: {sql}");
        }
    }
}

/// What runs in a request's place can be sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_are_distributable() {
    let world = World { n_workers: 2, target_partitions: 2, force_encode: false };
    let worker = Extras::default().worker_state().expect("a state");
    for (name, rules) in RULES {
        let place = Place::open(world, Extras { rules, ..Extras::default() }, &TABLES).await;
        let frame = place.sessions.distributed.sql(GROUPED).await.expect("planned");
        let plan = frame.create_physical_plan().await.expect("planned");
        let options = DistributedOptions::from(&place.cluster);
        check_distributable(&plan, &options, &worker).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

fn above(asks: &'static [Ask]) -> Rules {
    vec![Arc::new(AboveScans(asks))]
}
