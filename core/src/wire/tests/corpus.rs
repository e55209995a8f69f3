//! The corpus in `tests/corpus`: inputs of the fuzz target and of `tests/corpus.rs`, one file for
//! each kind of message and each way in which one can be wrong.
//!
//! `TRIBUTARY_BLESS=1 cargo test -p datafusion-tributary-core --lib wire::tests::corpus` writes it
//! anew. Otherwise files stay as they are: also those that an older Arrow wrote should be read.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bytes::Bytes;

use super::hostile;
use super::kinds;
use super::messages::{add_tasks, report, task};
use super::raw::Raw;
use crate::config::Compression;
use crate::error::TransportError;
use crate::ids::{Incarnation, OutputIdx};
use crate::protocol::{FetchRequest, SessionCommand, SessionEvent, WorkerInfo, WorkerState};
use crate::wire::{
    BatchEncoder, Call, SessionMessage, encode_call, encode_command, encode_error, encode_info,
    encode_session_message, samples,
};

const MAX_BYTES: usize = 200 * 1024;

/// The first byte of a file, which says what the others are. `tests/corpus_feed` reads them.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Kind {
    Messages,
    Frame,
    Call,
    Commands,
    SessionMessage,
    Error,
    Info,
}

#[test]
fn every_case_is_stored() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let files: BTreeMap<_, _> = files().into_iter().collect();
    if std::env::var_os("TRIBUTARY_BLESS").is_some() {
        // It isn't there the first time.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).expect("can be made");
        for (name, bytes) in &files {
            fs::write(directory.join(name), bytes).expect("can be written");
        }
    }
    let mut stored = Vec::new();
    let mut n_bytes = 0;
    for file in fs::read_dir(&directory).expect("a directory") {
        let file = file.expect("a file");
        n_bytes += file.metadata().expect("of a file").len();
        stored.push(file.file_name().into_string().expect("a plain name"));
    }
    stored.sort_unstable();
    assert!(
        stored.iter().eq(files.keys()),
        "tests/corpus has other cases than this test; run TRIBUTARY_BLESS=1 cargo test -p \
         datafusion-tributary-core --lib wire::tests::corpus"
    );
    assert!(n_bytes < MAX_BYTES as u64, "{n_bytes} bytes");
}

fn files() -> Vec<(String, Vec<u8>)> {
    let good = messages().into_iter().chain(others());
    let good = good.map(|(name, bytes)| (format!("ok-{name}"), bytes));
    let cases = hostile::cases().into_iter();
    let bad = cases.map(|(name, messages)| (format!("bad-{name}"), file(&messages)));
    good.chain(bad).collect()
}

/// Valid messages of all kinds, and one frame.
fn messages() -> Vec<(String, Vec<u8>)> {
    let sample = [samples::batch(&samples::schema(), 3, 7)];
    let mut files = vec![
        ("samples-plain".to_owned(), file(&Raw::all(&sample, Compression::None))),
        ("samples-lz4".to_owned(), file(&Raw::all(&sample, Compression::Lz4))),
        ("numbers".to_owned(), file(&Raw::all(&[kinds::numbers().slice(2, 5)], Compression::None))),
    ];
    for (name, batches) in kinds::all() {
        let compression = match name {
            "samples" | "numbers" => continue,
            "views" => Compression::Zstd,
            "runs" => Compression::Lz4,
            _ => Compression::None,
        };
        if name == "views" {
            let frame = BatchEncoder::new(Compression::None).encode(&batches[1]).expect("encodes");
            files.push(("frame".to_owned(), tagged(Kind::Frame, &frame)));
        }
        files.push((name.to_owned(), file(&Raw::all(&batches, compression))));
    }
    files
}

fn others() -> Vec<(String, Vec<u8>)> {
    let fetch = FetchRequest {
        task: task(),
        outputs: vec![OutputIdx(0), OutputIdx(9)],
        deadline: None,
        message_target_bytes: 1 << 20,
        compression: Compression::Zstd,
    };
    let info = WorkerInfo {
        protocol_version: 1,
        version: "v".into(),
        datafusion_version: "d".into(),
        incarnation: Incarnation(7),
        n_cores: 2,
        n_queries: 3,
        n_tasks: 4,
        state: WorkerState::Draining,
    };
    let add = add_tasks(Bytes::from_static(b"a plan"), vec![Bytes::from_static(b"a slice")]);
    let commands = [
        SessionCommand::AddTasks(Box::new(add)),
        SessionCommand::Ping(7),
        SessionCommand::Seal,
        SessionCommand::Finish,
    ];
    let mut command_bytes = Vec::new();
    for message in
        commands.into_iter().flat_map(|command| encode_command(command).expect("encodes"))
    {
        command_bytes.extend((message.len() as u32).to_le_bytes());
        command_bytes.extend_from_slice(&message);
    }
    let finished = SessionMessage::Event(SessionEvent::Finished(vec![report(5), report(0)]));
    let lost = TransportError::ConnectionLost { worker: "w".into(), reason: "r".into() };
    [
        ("call", tagged(Kind::Call, &encode_call(&Call::Fetch(fetch)))),
        ("commands", tagged(Kind::Commands, &command_bytes)),
        ("session-message", tagged(Kind::SessionMessage, &encode_session_message(&finished))),
        ("error", tagged(Kind::Error, &encode_error(&lost))),
        ("info", tagged(Kind::Info, &encode_info(&info))),
    ]
    .map(|(name, bytes)| (name.to_owned(), bytes))
    .into()
}

fn tagged(kind: Kind, bytes: &[u8]) -> Vec<u8> {
    [&[kind as u8], bytes].concat()
}

/// Messages, each with its lengths in front and the length of the chunks in which it arrives.
fn file(messages: &[Raw]) -> Vec<u8> {
    let mut file = vec![Kind::Messages as u8];
    for (Raw { header, body }, n_chunk_bytes) in messages.iter().zip([0_u16, 7, 100].iter().cycle())
    {
        file.extend((header.len() as u32).to_le_bytes());
        file.extend((body.len() as u32).to_le_bytes());
        file.extend(n_chunk_bytes.to_le_bytes());
        file.extend(header);
        file.extend(body);
    }
    file
}
