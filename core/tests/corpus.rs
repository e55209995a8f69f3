//! What peers send, right and wrong, never panics or aborts: the files of `tests/corpus`, and
//! thousands of variants of the right ones. `wire::tests::corpus` writes the files.

mod corpus_feed;

use std::fs;
use std::path::Path;

use datafusion_tributary_core::error::TransportError;

use self::corpus_feed::{Outcome, feed};

/// The files and their names.
fn files() -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let paths =
        fs::read_dir(directory).expect("a directory").map(|file| file.expect("a file").path());
    let mut files: Vec<_> = paths
        .map(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).expect("a plain name");
            (name.to_owned(), fs::read(&path).expect("can be read"))
        })
        .collect();
    // Directories have no order, and failures should be the same again.
    files.sort();
    files
}

#[test]
fn files_are_read_or_refused_as_their_names_say() {
    let files = files();
    let n_bad = files.iter().filter(|(name, _)| name.starts_with("bad-")).count();
    assert!(n_bad > 80 && files.len() - n_bad > 10, "{n_bad} of {} files", files.len());
    for (name, bytes) in files {
        let Outcome { n_values, refusals } = feed(&bytes);
        if name.starts_with("ok-") {
            assert!(n_values > 0 && refusals.is_empty(), "{name}: {n_values}, {refusals:?}");
        } else {
            assert_eq!((n_values, refusals.len()), (0, 1), "{name}: {refusals:?}");
            assert_protocol(&name, &refusals);
        }
    }
}

#[test]
fn variants_of_good_files_are_read_or_refused() {
    let good: Vec<_> = files().into_iter().filter(|(name, _)| name.starts_with("ok-")).collect();
    let (mut n_read, mut n_refused) = (0, 0);
    let n_variants = 4000;
    let mut random = Random(1);
    for variant in 0..n_variants {
        let (name, bytes) = &good[random.below(good.len())];
        let (_, other) = &good[random.below(good.len())];
        let Outcome { refusals, .. } = feed(&random.variant(bytes, other));
        let is_refused = !refusals.is_empty();
        n_read += usize::from(!is_refused);
        n_refused += usize::from(is_refused);
        // An error that was changed is another error, or none.
        assert_protocol(&format!("variant {variant}, of {name}"), &refusals);
    }
    assert!(n_read > 0 && n_refused > n_variants / 2, "{n_read} read, {n_refused} refused");
}

fn assert_protocol(name: &str, refusals: &[TransportError]) {
    for refusal in refusals {
        assert!(matches!(refusal, TransportError::Protocol(_)), "{name}: {refusal}");
    }
}

/// A small generator, so that a failure is the same again.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).expect("below a length")
    }

    /// Changed in a few bytes, cut, or with a part of another file in it.
    fn variant(&mut self, bytes: &[u8], other: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        // The first byte only says what the others are.
        let at = 1 + self.below(bytes.len() - 1);
        match self.below(3) {
            0 => {
                for _ in 0..=self.below(3) {
                    let at = 1 + self.below(bytes.len() - 1);
                    bytes[at] = self.next().to_le_bytes()[0];
                }
            }
            1 => bytes.truncate(at),
            _ => {
                let start = self.below(other.len());
                let end = start + self.below((other.len() - start).min(100));
                bytes.splice(at..at, other[start..end].iter().copied());
            }
        }
        bytes
    }
}
