//! What a probe of an orchestrator does, byte by byte: this package names no library for it.

use std::time::Duration;

use datafusion_tributary_tests::processes::within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::Url;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// What the standard health service says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// It takes queries.
    Serving,
    /// It doesn't.
    NotServing,
}

/// Asks for the health of a server.
///
/// # Panics
/// Where it doesn't answer, or something else.
pub(crate) async fn health(url: &Url) -> Health {
    let answer = within(Duration::from_secs(10), "an answer about health", ask(url)).await;
    // A length, and field 1 with the status.
    match answer.expect("a connection").as_slice() {
        [0, 0, 0, 0, 2, 8, 1] => Health::Serving,
        [0, 0, 0, 0, 2, 8, 2] => Health::NotServing,
        other => panic!("no answer about health: {other:?}"),
    }
}

/// Calls `grpc.health.v1.Health/Check` with an empty request.
async fn ask(url: &Url) -> std::io::Result<Vec<u8>> {
    let address = format!("{}:{}", url.host_str().expect("a host"), url.port().expect("a port"));
    let mut stream = TcpStream::connect(&address).await?;
    // Two of HPACK's static table, then names of it with values: path, authority, content type.
    let mut headers = vec![0x83, 0x86];
    headers.push(0x04);
    put_text(&mut headers, "/grpc.health.v1.Health/Check");
    headers.push(0x01);
    put_text(&mut headers, &address);
    headers.extend([0x0f, 0x10]);
    put_text(&mut headers, "application/grpc");
    headers.push(0x00);
    put_text(&mut headers, "te");
    put_text(&mut headers, "trailers");

    let mut request = PREFACE.to_vec();
    put_frame(&mut request, SETTINGS, 0, 0, &[]);
    put_frame(&mut request, HEADERS, END_HEADERS, 1, &headers);
    put_frame(&mut request, DATA, END_STREAM, 1, &[0; 5]);
    stream.write_all(&request).await?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let n_bytes = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(n_bytes).expect("a short frame")];
        stream.read_exact(&mut payload).await?;
        if head[3] == DATA {
            return Ok(payload);
        }
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.push(u8::try_from(text.len()).ok().filter(|n| *n < 127).expect("a short text"));
    out.extend(text.as_bytes());
}

fn put_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let n_bytes = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    out.extend(&n_bytes[1..]);
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
}
