//! What is sent is what arrives.

use std::sync::Arc;

use arrow::compute::concat_batches;
use arrow::datatypes::Schema;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};

use crate::config::Compression;
use crate::conformance::lab::{Lab, MESSAGE_BYTES, Settings, check, fetch};
use crate::conformance::script::{Script, Step, long_rows, numbered};
use crate::conformance::{Failure, Fixture, Verdict};
use crate::error::{ErrorKind, TransportError};
use crate::ids::StageId;
use crate::limits::{MAX_MESSAGE_BYTES, PLAN_PIECE_BYTES};
use crate::wire::samples;

/// **C02** The order within an output is kept.
pub async fn c02_order_within_an_output_is_kept(fixture: &dyn Fixture) -> Verdict {
    let lab = Lab::start(fixture).await?;
    let sent: Vec<_> = (0..300).map(numbered).collect();
    let script = Script::new(numbered(0).schema(), vec![steps(&sent)]);
    let query = lab.run(&script).await?;
    let [mut stream] = query.fetch([0])?;
    let received = lab.all(&mut stream).await?;
    check!(received.len() == sent.len(), "{} of {} batches arrived", received.len(), sent.len());
    let odd = (0..sent.len()).find(|nth| received[*nth] != sent[*nth]);
    check!(odd.is_none(), "another batch in the place of number {odd:?}");
    Ok(())
}

/// **C03** Batches arrive as they were sent: schema with metadata, dictionaries, views, nested and
/// extension types, sliced arrays, zero columns with a row count, empty batches, the Null type.
pub async fn c03_batches_arrive_as_they_were_sent(fixture: &dyn Fixture) -> Verdict {
    let lab = Lab::start(fixture).await?;
    let schema = samples::schema();
    // Each batch has dictionaries of its own, and so replaces those before it.
    let all_types =
        (0..6).map(|seed| samples::batch(&schema, [40, 0, 1, 7, 64, 3][seed], seed as u64));
    let all_types: Vec<_> = all_types.collect();
    let columnless = |n_rows| {
        let options = RecordBatchOptions::new().with_row_count(Some(n_rows));
        RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)
    };
    let columnless: Vec<_> = [5, 0, 1].map(|n_rows| columnless(n_rows).expect("no columns")).into();
    for (nth, sent) in [all_types, columnless].into_iter().enumerate() {
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let script = Script::new(sent[0].schema(), vec![steps(&sent)]);
            let query = lab.run(&script).await?;
            let request = crate::protocol::FetchRequest {
                compression,
                // Batches that aren't cut can be compared one by one.
                message_target_bytes: MAX_MESSAGE_BYTES,
                ..query.request(StageId(1), &[0])
            };
            let [mut stream] = fetch(lab.channel.as_ref(), request)?;
            let received = lab.all(&mut stream).await?;
            check!(
                received.len() == sent.len(),
                "{} of {} batches arrived",
                received.len(),
                sent.len()
            );
            for (received, sent) in received.iter().zip(&sent) {
                same(received, sent)
                    .map_err(|why| Failure::from(format!("list {nth}, {compression}: {why}")))?;
            }
        }
    }
    Ok(())
}

/// **C04** A batch or plan above any message limit is split and arrives whole; a row above it
/// travels as one message, up to `max_row_bytes`; above that the sender fails with
/// `ResourcesExhausted`.
pub async fn c04_what_is_above_a_message_limit_arrives_whole(fixture: &dyn Fixture) -> Verdict {
    let settings = Settings { max_row_bytes: 8 << 20, ..Settings::default() };
    let lab = Lab::with(fixture, settings).await?;
    let large = long_rows(10_000, 2000);
    let long_row = long_rows(1, 6 << 20);
    let too_long = long_rows(1, 9 << 20);
    let sent = [large.clone(), long_row.clone(), numbered_like(&large)];
    let outputs = vec![steps(&sent), steps(&[long_row.clone(), too_long])];
    let script = Script::padded(large.schema(), outputs, 5 * PLAN_PIECE_BYTES + 1);
    let query = lab.run(&script).await?;
    let [mut stream, mut failing] = query.fetch([0, 1])?;

    let received = lab.all(&mut stream).await?;
    let joined = concat_batches(&large.schema(), &received)
        .map_err(|error| Failure::from(error.to_string()))?;
    let expected =
        concat_batches(&large.schema(), &sent).map_err(|error| Failure::from(error.to_string()))?;
    check!(joined == expected, "rows were lost or changed");
    check!(
        received.len() > large.num_rows() * 2000 / (4 * MESSAGE_BYTES),
        "the batch was not split"
    );
    check!(received.contains(&long_row), "the long row did not travel alone");

    lab.batch(&mut failing).await?;
    match lab.error(&mut failing).await? {
        TransportError::Remote(error) if error.kind == ErrorKind::ResourcesExhausted => Ok(()),
        other => Err(format!("a row above the limit gave another error: {other}").into()),
    }
}

fn steps(batches: &[RecordBatch]) -> Vec<Step> {
    batches.iter().cloned().map(Step::Batch).collect()
}

fn numbered_like(batch: &RecordBatch) -> RecordBatch {
    batch.slice(3, 1)
}

fn same(received: &RecordBatch, sent: &RecordBatch) -> Result<(), String> {
    let (schema, arrived) = (sent.schema(), received.schema());
    let changed =
        schema.fields().iter().zip(arrived.fields()).find(|(field, arrived)| field != arrived);
    if let Some((field, arrived)) = changed {
        return Err(format!("the field {field} arrived as {arrived}"));
    }
    if schema != arrived {
        return Err(format!(
            "the schema's metadata {:?} arrived as {:?}",
            schema.metadata(),
            arrived.metadata()
        ));
    }
    if received.num_rows() != sent.num_rows() {
        return Err(format!("{} rows arrived as {}", sent.num_rows(), received.num_rows()));
    }
    let differs =
        (0..sent.num_columns()).find(|column| received.column(*column) != sent.column(*column));
    differs.map_or(Ok(()), |column| Err(format!("{} differs", schema.field(column))))
}
