//! How batches get from worker to worker.

use std::env;
use std::fmt;
use std::str::FromStr;

/// Names the one way in which all tests run that have a choice.
const VARIABLE: &str = "TRIBUTARY_TEST_TRANSPORT";

/// How batches get from worker to worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Handed over within the process.
    Inproc,
    /// Within the process, but encoded and decoded.
    Encoded,
    /// Over gRPC on loopback.
    Grpc,
    /// Over QUIC on loopback.
    Quic,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Inproc, Self::Encoded, Self::Grpc, Self::Quic];

    /// The way that the environment asks for; none where tests choose.
    ///
    /// # Panics
    /// Where it asks for one that there isn't.
    pub fn chosen() -> Option<Self> {
        let name = env::var(VARIABLE).ok().filter(|name| !name.is_empty())?;
        Some(name.parse().unwrap_or_else(|error| panic!("{VARIABLE}: {error}")))
    }

    /// The scheme of its workers' URLs.
    pub fn scheme(self) -> &'static str {
        match self {
            Self::Inproc | Self::Encoded => "inproc",
            Self::Grpc => "grpc",
            Self::Quic => "quic",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inproc => "inproc",
            Self::Encoded => "encoded",
            Self::Grpc => "grpc",
            Self::Quic => "quic",
        })
    }
}

impl FromStr for Way {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let way = Self::ALL.into_iter().find(|way| way.to_string() == name);
        way.ok_or_else(|| format!("no transport '{name}': use inproc, encoded, grpc or quic"))
    }
}

/// Some of them: names with commas between, or `all`.
#[derive(Clone, Debug)]
pub struct Ways(pub Vec<Way>);

impl FromStr for Ways {
    type Err = String;

    fn from_str(names: &str) -> Result<Self, String> {
        match names {
            "all" => Ok(Self(Way::ALL.to_vec())),
            names => names.split(',').map(str::parse).collect::<Result<_, _>>().map(Self),
        }
    }
}
