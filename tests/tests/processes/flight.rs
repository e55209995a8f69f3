//! A Flight client of another language reads a task's output by a ticket.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Decimal128Array, Decimal256Array, DictionaryArray,
    Int32Array, Int64Array, ListArray, StringArray, StringViewArray, StructArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Int64Type, i256};
use datafusion::arrow::ipc::reader::FileReader;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::FormatOptions;
use datafusion::arrow::util::pretty::pretty_format_batches_with_options;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_tributary::grpc::ticket;
use datafusion_tributary_tests::processes::by_hand::HandQuery;
use datafusion_tributary_tests::processes::loopback::{Loopback, LoopbackOptions};
use datafusion_tributary_tests::processes::within;
use tempfile::TempDir;
use tokio::process::Command;

const MESSAGE_BYTES: usize = 64 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_language_reads_outputs() {
    let Some(reader) = Reader::set_up().await else { return };
    let batches = [batch(0, "Größe"), batch(1000, "次")];
    let schema = batches[0].schema();
    let partitions = [batches.to_vec(), Vec::new()];
    let plan = MemorySourceConfig::try_new_exec(&partitions, Arc::clone(&schema), None);
    let plan: Arc<dyn ExecutionPlan> = plan.expect("a plan");
    let loopback = Loopback::start(LoopbackOptions::new(1)).await;
    let url = &loopback.client.urls()[0];
    let channel = loopback.client.channel(url).await.expect("a channel");
    let query = HandQuery::start(channel, &plan, 1).await;
    let location = url.as_str();
    let ticket = |output| {
        ticket(&query.request(0, &[output], MESSAGE_BYTES), &schema).expect("a ticket").to_vec()
    };

    let (said, read) = reader.read(location, &ticket(0)).await;
    assert_eq!(said, "read 2000 rows");
    assert_same(&read, &batches);

    let (said, read) = reader.read(location, &ticket(1)).await;
    assert_eq!(said, "read 0 rows");
    assert_same(&read, &[RecordBatch::new_empty(Arc::clone(&schema))]);

    // Each error has a class of Arrow's and says what is wrong.
    let (said, _) = reader.read(location, &ticket(0)).await;
    assert!(said.starts_with("failed ") && said.contains("already consumed"), "{said}");
    let (said, _) = reader.read(location, &ticket(7)).await;
    assert!(said.starts_with("failed ") && said.contains("has 2 outputs"), "{said}");
    for wrong in [&b"a ticket of somebody else"[..], &[], &ticket(0)[..20]] {
        let (said, _) = reader.read(location, wrong).await;
        assert!(said.starts_with("failed ") && said.contains("ticket"), "{said}");
    }
    let (said, _) = reader.read("grpc://127.0.0.1:1", &ticket(0)).await;
    assert!(said.starts_with("failed FlightUnavailableError"), "{said}");
    query.finish().await;
}

/// A thousand rows whose dictionaries are others for each word.
fn batch(first: i64, word: &str) -> RecordBatch {
    let numbers = || first..first + 1000;
    let some = |n: &i64| n % 7 != 3;
    let text = |n: i64| some(&n).then(|| format!("{word} {}", n % 5));
    let long = |n: i64| some(&n).then(|| format!("{word} of more than twelve bytes, {n}"));
    let keys: Int32Array = numbers().map(|n| some(&n).then_some((n % 3) as i32)).collect();
    let words = StringArray::from_iter_values((0..3).map(|n| format!("{word} {n}")));
    let dictionary = DictionaryArray::<Int32Type>::new(keys, Arc::new(words));
    let items = |n: i64| some(&n).then(|| (0..n % 4).map(|item| some(&item).then_some(item)));
    let narrow = numbers().map(|n| some(&n).then_some(i128::from(n) * i128::from(i64::MAX)));
    let narrow: Decimal128Array = narrow.collect();
    let wide = numbers().map(|n| some(&n).then_some(i256::from_parts(u128::MAX, n.into())));
    let wide: Decimal256Array = wide.collect();
    let views: StringViewArray =
        numbers().map(|n| if n % 2 == 0 { text(n) } else { long(n) }).collect();
    let bytes: BinaryViewArray = numbers().map(|n| long(n).map(String::into_bytes)).collect();
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(numbers().map(items));
    let members: [(_, ArrayRef); 2] = [
        (
            Arc::new(Field::new("yes", DataType::Boolean, true)),
            Arc::new(numbers().map(|n| some(&n).then_some(n % 2 == 0)).collect::<BooleanArray>()),
        ),
        (
            Arc::new(Field::new("word", DataType::Utf8, true)),
            Arc::new(numbers().map(text).collect::<StringArray>()),
        ),
    ];
    let columns: [(&str, ArrayRef, bool); 8] = [
        ("n", Arc::new(Int64Array::from_iter_values(numbers())), false),
        ("dictionary", Arc::new(dictionary), true),
        ("views", Arc::new(views), true),
        ("bytes", Arc::new(bytes), true),
        ("lists", Arc::new(lists), true),
        ("narrow", Arc::new(narrow.with_precision_and_scale(38, 10).expect("fits")), true),
        ("wide", Arc::new(wide.with_precision_and_scale(76, 20).expect("fits")), true),
        ("members", Arc::new(StructArray::from(members.to_vec())), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).expect("a batch")
}

fn assert_same(actual: &[RecordBatch], expected: &[RecordBatch]) {
    let options = FormatOptions::default().with_null("NULL").with_types_info(true);
    let shown = |batches| {
        pretty_format_batches_with_options(batches, &options).expect("printed").to_string()
    };
    let (actual, expected) = (shown(actual), shown(expected));
    let differing = actual.lines().zip(expected.lines()).find(|(here, there)| here != there);
    assert_eq!(differing, None);
    assert_eq!(actual.lines().count(), expected.lines().count());
}

/// Python with pyarrow.
struct Reader {
    python: PathBuf,
    script: PathBuf,
    dir: TempDir,
}

impl Reader {
    /// None where the test is left out.
    async fn set_up() -> Option<Self> {
        if std::env::var_os("TRIBUTARY_NO_PYTHON").is_some_and(|value| value == "1") {
            println!("left out, because TRIBUTARY_NO_PYTHON is 1");
            return None;
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
        let setup = Command::new(folder.join("setup.sh")).kill_on_drop(true).output();
        let output = within(Duration::from_secs(600), "Python with its packages", setup).await;
        let output = output.expect("the script can be run");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
        assert!(
            output.status.success(),
            "{}\nTRIBUTARY_NO_PYTHON=1 leaves this test out",
            text(&output.stderr)
        );
        Some(Self {
            python: text(&output.stdout).into(),
            script: folder.join("read_ticket.py"),
            dir: tempfile::tempdir().expect("a folder"),
        })
    }

    /// What the script says, and the rows that it has written.
    async fn read(&self, location: &str, ticket: &[u8]) -> (String, Vec<RecordBatch>) {
        let [ticket_file, rows_file] =
            ["ticket", "rows.arrow"].map(|name| self.dir.path().join(name));
        std::fs::write(&ticket_file, ticket).expect("written");
        let script = Command::new(&self.python)
            .args([&self.script, &PathBuf::from(location), &ticket_file, &rows_file])
            .kill_on_drop(true)
            .output();
        let output = within(Duration::from_secs(60), "the end of the script", script).await;
        let output = output.expect("the script can be run");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let said = String::from_utf8_lossy(&output.stdout).trim().to_string();
        if !said.starts_with("read") {
            return (said, Vec::new());
        }
        let file = std::fs::File::open(&rows_file).expect("the script has written it");
        let reader = FileReader::try_new(file, None).expect("an Arrow file");
        let schema = reader.schema();
        let mut batches = reader.collect::<Result<Vec<_>, _>>().expect("batches");
        // Its columns count where it has no rows.
        batches.insert(0, RecordBatch::new_empty(schema));
        (said, batches)
    }
}
