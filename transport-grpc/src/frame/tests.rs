use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion_tributary_core::config::Compression;
use datafusion_tributary_core::wire::BatchEncoder;

use super::*;
use crate::proto::{Nothing, Up, UpKind};

fn meta() -> FrameMeta {
    FrameMeta::new(3, FrameKind::Batch(77))
}

/// A message as any encoder of protobuf writes it.
fn flight_data(body: &[u8]) -> Vec<u8> {
    #[derive(Clone, PartialEq, Message)]
    struct FlightData {
        #[prost(bytes = "vec", tag = "2")]
        data_header: Vec<u8>,
        #[prost(bytes = "vec", tag = "3")]
        app_metadata: Vec<u8>,
        #[prost(bytes = "vec", tag = "1000")]
        data_body: Vec<u8>,
    }
    let data = FlightData {
        data_header: b"header".to_vec(),
        app_metadata: meta().encode_to_vec(),
        data_body: body.to_vec(),
    };
    message(&data).to_vec()
}

/// The heads and bodies in bytes that arrive in pieces of `n_bytes`.
fn read(bytes: &[u8], n_bytes: usize) -> Result<(Vec<Head>, Vec<u8>, bool)> {
    let mut reader = FlightReader::default();
    let (mut heads, mut bodies) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(n_bytes) {
        let mut piece = Bytes::copy_from_slice(piece);
        while let Some(found) = reader.next(&mut piece)? {
            match found {
                Found::Head(head) => heads.push(head),
                Found::Body(body) => bodies.extend_from_slice(&body),
            }
        }
        assert!(piece.is_empty(), "the reader takes all that it is given");
    }
    Ok((heads, bodies, reader.is_midway()))
}

#[test]
fn messages_are_cut_wherever_the_pieces_end() {
    let mut bytes = flight_data(&[7; 300]);
    bytes.extend(flight_data(b""));
    let mut end = Pieces::gathered();
    put_meta(&mut end, 1, FrameKind::End(Nothing {}));
    bytes.extend(end.take().concat());
    for n_bytes in [1, 2, 5, 17, 64, 1000] {
        let (heads, bodies, is_midway) = read(&bytes, n_bytes).expect("well-formed");
        assert_eq!(heads.len(), 3, "{n_bytes}");
        assert_eq!((heads[0].meta.clone(), heads[0].n_body_bytes), (meta(), 300));
        assert_eq!(heads[0].header.as_ref(), b"header");
        assert_eq!(heads[2].meta.kind, Some(FrameKind::End(Nothing {})));
        assert_eq!((bodies.len(), is_midway), (300, false));
    }
    for cut in [1, 5, 8, 40, 200] {
        assert!(read(&bytes[..cut], 1000).expect("a beginning").2, "{cut} bytes are midway");
    }
}

#[test]
fn bytes_of_another_form_are_refused() {
    let compressed = [1, 0, 0, 0, 0];
    let beyond_its_message = [0, 0, 0, 0, 4, 0x12, 0x7f, 0, 0];
    let a_number = [0, 0, 0, 0, 2, 0x10, 1];
    let body_first = [0, 0, 0, 0, 8, 0xc2, 0x3e, 1, 0, 0x12, 2, 0, 0];
    let huge_field = [0, 0xff, 0xff, 0xff, 0xff, 0x12, 0xff, 0xff, 0xff, 0xff, 0x0e];
    for bytes in [&compressed[..], &beyond_its_message, &a_number, &body_first, &huge_field] {
        assert!(matches!(read(bytes, 100), Err(TransportError::Protocol(_))), "{bytes:?}");
    }
}

#[test]
fn control_messages_have_a_limit() {
    let up = Up { kind: Some(UpKind::Call(Bytes::from_static(b"call"))) };
    let bytes = message(&up);
    let mut reader = MessageReader::default();
    for byte in &bytes {
        assert_eq!(reader.next(100).expect("a beginning"), None);
        reader.push(&[*byte]);
    }
    let read = reader.next(100).expect("whole").expect("whole");
    assert_eq!(Up::decode(read).expect("an Up"), up);
    assert!(!reader.is_midway());
    reader.push(&[0, 0xff, 0xff, 0xff, 0xff]);
    assert!(matches!(reader.next(100), Err(TransportError::Protocol(_))));
}

#[test]
fn large_bodies_are_aligned_behind_the_header_of_their_frame() {
    let mut n_bodies = 0;
    for (output, n_rows) in [(0, 33_000), (200, 40_001), (70_000, 100_000)] {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..n_rows));
        let batch = RecordBatch::try_from_iter([("n", column)]).expect("a batch");
        let mut encoder = BatchEncoder::new(Compression::None);
        let mut pieces = Pieces::gathered();
        put_meta(&mut pieces, output, FrameKind::Want(7));
        for message in encoder.encode_messages(&batch).expect("encodes") {
            let meta = FrameMeta::new(output, FrameKind::Batch(message.n_bytes() as u64));
            put_flight_data(&mut pieces, Some(meta), Some(&message));
        }
        let block = Bytes::from(pieces.take().concat());
        let (mut reader, mut rest) = (FlightReader::default(), block.clone());
        while let Some(found) = reader.next(&mut rest).expect("well-formed") {
            if let Found::Body(body) = found {
                let start = body.as_ptr() as usize - block.as_ptr() as usize;
                assert_eq!((H2_HEADER_BYTES + start) % BODY_ALIGNMENT, 0, "{n_rows} rows");
                n_bodies += 1;
            }
        }
        assert!(!reader.is_midway());
    }
    assert_eq!(n_bodies, 3);
}
