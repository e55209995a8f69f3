//! Messages through the wire.

use std::time::{Duration, Instant};

use bytes::Bytes;
use datafusion::common::ScalarValue;
use proptest::prelude::*;
use url::Url;

use crate::config::Compression;
use crate::error::{ErrorKind, RemoteError, TransportError};
use crate::ids::{Incarnation, OutputIdx, QueryId, StageId, TaskId, TaskIdx};
use crate::limits::{MAX_CONTROL_BYTES, PLAN_PIECE_BYTES};
use crate::metadata::Metadata;
use crate::metrics::{
    CustomMetric, NodeMetric, NodeMetricValue, NodeMetrics, Pruning, Ratio, RatioMerge,
};
use crate::protocol::{
    AddTasks, FetchRequest, OpenQuery, Peer, SessionCommand, SessionEvent, StagePlan, StageRoutes,
    TaskPlan, TaskReport, WorkerInfo, WorkerState,
};
use crate::wire::{
    Call, CommandDecoder, SessionMessage, decode_call, decode_info, decode_session_message,
    encode_call, encode_command, encode_info, encode_session_message,
};

pub(super) fn task() -> TaskId {
    TaskId { query: QueryId::from_u128(u128::MAX - 1), stage: StageId(3), task: TaskIdx(7) }
}

fn through(command: SessionCommand) -> Vec<SessionCommand> {
    let mut decoder = CommandDecoder::default();
    let messages = encode_command(command).expect("encodes");
    messages.filter_map(|message| decoder.decode(message).expect("decodes")).collect()
}

pub(super) fn add_tasks(plan: Bytes, leaves: Vec<Bytes>) -> AddTasks {
    let list = ScalarValue::new_list_nullable(
        &[ScalarValue::Int64(Some(1))],
        &arrow::datatypes::DataType::Int64,
    );
    AddTasks {
        stage: StagePlan {
            stage: StageId(2),
            n_tasks: 5,
            plan,
            subquery_values: vec![
                ScalarValue::Null,
                ScalarValue::Int64(None),
                ScalarValue::Utf8View(Some("✓".into())),
                ScalarValue::Decimal128(Some(12), 10, 2),
                ScalarValue::List(list),
            ],
            inputs: vec![StageRoutes {
                stage: StageId(1),
                workers: vec![Url::parse("pipe://a").expect("a URL")],
            }],
        },
        tasks: vec![TaskPlan { task: TaskIdx(4), leaves }],
    }
}

#[test]
fn open_query_survives_but_for_its_peer() {
    let mut metadata = Metadata::default();
    metadata.insert("traceparent", vec![0, 255]).expect("legal");
    let open = OpenQuery {
        deadline: Some(Instant::now() + Duration::from_secs(60)),
        options: vec![("a.b".into(), String::new())],
        metadata: metadata.clone(),
        peer: Some(Peer { address: None, names: vec!["forged".into()] }),
        ..OpenQuery::new(task().query)
    };
    let Ok(Call::OpenQuery(back)) = decode_call(encode_call(&Call::OpenQuery(open.clone()))) else {
        panic!("another call");
    };
    assert_eq!((back.query, back.protocol_version), (open.query, open.protocol_version));
    assert_eq!(back.datafusion_version, open.datafusion_version);
    assert_eq!((back.options, back.metadata, back.peer), (open.options, metadata, None));
    let (sent, received) = (open.deadline.expect("set"), back.deadline.expect("set"));
    assert!(received >= sent && received < sent + Duration::from_secs(60));
}

#[test]
fn a_passed_deadline_stays_passed() {
    let fetch = FetchRequest {
        task: task(),
        outputs: vec![OutputIdx(0), OutputIdx(9)],
        deadline: Some(Instant::now()),
        message_target_bytes: usize::MAX,
        compression: Compression::Zstd,
    };
    let Ok(Call::Fetch(back)) = decode_call(encode_call(&Call::Fetch(fetch.clone()))) else {
        panic!("another call");
    };
    assert!(back.deadline.expect("set") <= Instant::now());
    assert_eq!((back.task, back.outputs), (fetch.task, fetch.outputs));
    assert_eq!(back.message_target_bytes, fetch.message_target_bytes);
    assert_eq!(back.compression, fetch.compression);
    assert!(matches!(decode_call(encode_call(&Call::Info)), Ok(Call::Info)));
}

#[test]
fn plans_travel_in_pieces_and_arrive_whole() {
    let plan =
        Bytes::from((0..5_u32 * PLAN_PIECE_BYTES as u32 / 2).map(|n| n as u8).collect::<Vec<_>>());
    let add = add_tasks(plan, vec![Bytes::new(), Bytes::from_static(b"slice")]);
    let messages =
        encode_command(SessionCommand::AddTasks(Box::new(add.clone()))).expect("encodes");
    let lengths: Vec<_> = messages.map(|message| message.len()).collect();
    assert!(
        lengths.len() > 2 && lengths.iter().all(|len| *len <= PLAN_PIECE_BYTES + 64),
        "{lengths:?}"
    );

    let back = through(SessionCommand::AddTasks(Box::new(add.clone())));
    let [SessionCommand::AddTasks(back)] = back.as_slice() else { panic!("{back:?}") };
    assert_eq!((&back.stage, &back.tasks), (&add.stage, &add.tasks));
}

#[test]
fn small_commands_survive() {
    assert!(matches!(through(SessionCommand::Seal)[..], [SessionCommand::Seal]));
    assert!(matches!(through(SessionCommand::Finish)[..], [SessionCommand::Finish]));
    assert!(matches!(
        through(SessionCommand::Ping(u64::MAX))[..],
        [SessionCommand::Ping(u64::MAX)]
    ));
}

pub(super) fn report(n_metrics: usize) -> TaskReport {
    let values = [
        NodeMetricValue::Count(1),
        NodeMetricValue::Gauge(2),
        NodeMetricValue::PeakBytes(3),
        NodeMetricValue::TimeNs(u64::MAX),
        NodeMetricValue::TimestampNs(-4),
        NodeMetricValue::Pruning(Pruning { pruned: 3, matched: 4, fully_matched: 5 }),
        NodeMetricValue::Ratio(Ratio {
            part: 5,
            total: 6,
            merge: RatioMerge::SetTotal,
            is_bare: true,
        }),
        NodeMetricValue::Ratio(Ratio { merge: RatioMerge::SetPart, ..Ratio::default() }),
        NodeMetricValue::Custom(CustomMetric { text: "seven".into(), number: 7 }),
    ];
    let metric = |value: &NodeMetricValue| NodeMetric {
        name: "elapsed".into(),
        partition: Some(1),
        labels: vec![("file".into(), "a".into())],
        summary: true,
        category: Some("bytes".into()),
        value: value.clone(),
    };
    let metrics: Vec<_> = values.iter().cycle().take(n_metrics).map(metric).collect();
    let sent = metrics.iter().take(1).cloned().collect();
    let node = NodeMetrics { name: "FilterExec".into(), n_children: 1, metrics };
    TaskReport { task: task(), metrics: vec![NodeMetrics::default(), node], sent }
}

#[test]
fn events_survive() {
    let error = RemoteError::new(ErrorKind::Execution, "no");
    let events = [
        SessionMessage::Opened,
        SessionMessage::Event(SessionEvent::TaskDone(report(9))),
        SessionMessage::Event(SessionEvent::TaskFailed { task: task(), error: Box::new(error) }),
        SessionMessage::Event(SessionEvent::Finished(vec![report(9), report(0)])),
        SessionMessage::Event(SessionEvent::Pong(9)),
        SessionMessage::Event(SessionEvent::Failed(TransportError::Cancelled)),
    ];
    for event in events {
        let back = decode_session_message(encode_session_message(&event)).expect("decodes");
        assert_eq!(format!("{back:?}"), format!("{event:?}"));
    }
}

#[test]
fn an_answer_above_the_limit_travels_without_metrics() {
    let event = SessionMessage::Event(SessionEvent::Finished(vec![report(1 << 20)]));
    let bytes = encode_session_message(&event);
    assert!(bytes.len() <= MAX_CONTROL_BYTES);
    let back = decode_session_message(bytes).expect("decodes");
    let SessionMessage::Event(SessionEvent::Finished(reports)) = back else {
        panic!("another event")
    };
    assert_eq!(reports, [TaskReport { task: task(), metrics: vec![], sent: vec![] }]);
}

#[test]
fn info_survives() {
    for state in [WorkerState::Ready, WorkerState::Draining] {
        let info = WorkerInfo {
            protocol_version: 1,
            version: "v".into(),
            datafusion_version: "d".into(),
            incarnation: Incarnation::random(),
            n_cores: 2,
            n_queries: 3,
            n_tasks: u32::MAX,
            state,
        };
        assert_eq!(decode_info(encode_info(&info)), Ok(info));
    }
}

proptest! {
    #[test]
    fn plans_of_any_size_survive(
        plan in prop::collection::vec(any::<u8>(), 0..300),
        leaves in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..4),
    ) {
        let add = add_tasks(plan.into(), leaves.into_iter().map(Bytes::from).collect());
        let back = through(SessionCommand::AddTasks(Box::new(add.clone())));
        let [SessionCommand::AddTasks(back)] = back.as_slice() else { panic!("{back:?}") };
        prop_assert_eq!((&back.stage, &back.tasks), (&add.stage, &add.tasks));
    }

    #[test]
    fn metadata_survives(entries in prop::collection::btree_map("[a-s][a-z0-9._-]{0,20}", prop::collection::vec(any::<u8>(), 0..50), 0..10)) {
        let mut metadata = Metadata::default();
        for (key, value) in entries {
            metadata.insert(&key, value).expect("legal");
        }
        let open = OpenQuery { metadata: metadata.clone(), ..OpenQuery::new(QueryId::random()) };
        let Ok(Call::OpenQuery(back)) = decode_call(encode_call(&Call::OpenQuery(open))) else { panic!("lost") };
        prop_assert_eq!(back.metadata, metadata);
        prop_assert_eq!(back.deadline, None);
    }

    #[test]
    fn arbitrary_bytes_are_values_or_protocol_errors(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let bytes = Bytes::from(bytes);
        let errors = [
            decode_call(bytes.clone()).err(),
            decode_info(bytes.clone()).err(),
            decode_session_message(bytes.clone()).err(),
            CommandDecoder::default().decode(bytes).err(),
        ];
        for error in errors.into_iter().flatten() {
            prop_assert!(matches!(error, TransportError::Protocol(_)), "{error}");
        }
    }
}
