//! Sizes and durations as people write them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A number of bytes, such as `4GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub usize);

/// `K` and so on are powers of 1024, as in DataFusion's own options.
const SIZES: [(&str, u64); 14] = [
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("kb", 1_000),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
    ("t", 1 << 40),
    ("tib", 1 << 40),
    ("tb", 1_000_000_000_000),
];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let n_bytes = scaled(text, &SIZES).and_then(|n_bytes| usize::try_from(n_bytes).ok());
        match n_bytes {
            Some(0) => Err("it must be more than 0".to_string()),
            Some(n_bytes) => Ok(Self(n_bytes)),
            None => Err(format!("'{text}' is no size such as 512MiB or 4GiB")),
        }
    }
}

impl fmt::Display for ByteSize {
    /// Bytes, which parse back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// More is as good as for ever, and would overflow clocks.
const MAX_MS: u64 = 365 * 24 * 3_600_000;

const TIMES: [(&str, u64); 5] =
    [("", 1_000), ("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// The duration in a text such as `30s`; a bare number means seconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    match scaled(text, &TIMES) {
        Some(ms @ 0..=MAX_MS) => Ok(Duration::from_millis(ms)),
        _ => Err(format!("'{text}' is no time such as 500ms, 30s or 2m")),
    }
}

/// A whole number times its unit.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim().to_ascii_lowercase();
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_numbers_with_units() {
        assert_eq!("4GiB".parse(), Ok(ByteSize(4 << 30)));
        assert_eq!(" 512 m".parse(), Ok(ByteSize(512 << 20)));
        assert_eq!("2kB".parse(), Ok(ByteSize(2000)));
        assert_eq!("17".parse(), Ok(ByteSize(17)));
        assert_eq!(ByteSize(1 << 30).to_string().parse(), Ok(ByteSize(1 << 30)));
        for wrong in ["", "0", "-1", "GiB", "1.5G", "4 gallons", "99999999999T"] {
            assert!(wrong.parse::<ByteSize>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_are_seconds_unless_they_say_otherwise() {
        assert_eq!(parse_duration("30"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        for wrong in ["", "s", "1w", "-1s", "9999999h"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
