//! The processes at both ends of the path.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum};
use datafusion::common::runtime::JoinSet;
use datafusion_tributary_core::tls::TlsIdentity;
use datafusion_tributary_core::transport::{BatchStream, TransportEnv};
use datafusion_tributary_transport_quic::{Congestion, Network, QuicConfig};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use url::Url;

use super::messages::{self, N_OUTPUTS, now, sent};
use crate::measure::{median, percentile};
use crate::prepared::fetch_each;
use crate::wire::{Wire, WireSettings};
use crate::{Error, Result};

/// Connecting may take some attempts where packets are lost.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Messages at the beginning that don't count: connections find out then how fast they may be.
const WARM_UP: Duration = Duration::from_millis(500);

/// What both ends have to know.
#[derive(Args, Clone, Debug)]
pub struct EndSettings {
    /// The transport.
    #[arg(long, value_enum)]
    pub wire: Wire,
    /// Connections for data.
    #[arg(long)]
    pub connections: usize,
    /// The folder with the certificates.
    #[arg(long)]
    pub identity: PathBuf,
    /// How QUIC finds out how fast it may send.
    #[command(flatten)]
    pub quic: QuicSettings,
}

/// What QUIC may have otherwise than by default.
#[derive(Args, Clone, Copy, Debug)]
pub struct QuicSettings {
    /// What QUIC sends before it has heard how fast it may, in bytes: by default what it does
    /// elsewhere.
    #[arg(long, default_value_t = 1024 * 1024)]
    pub initial_window: usize,
    /// QUIC's congestion control.
    #[arg(long, value_enum, default_value_t = QuicCongestion::Cubic)]
    pub quic_congestion: QuicCongestion,
}

/// The congestion controls of QUIC.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum QuicCongestion {
    /// Cubic.
    Cubic,
    /// New Reno.
    NewReno,
    /// BBR.
    Bbr,
}

impl QuicCongestion {
    fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::NewReno => "new-reno",
            Self::Bbr => "bbr",
        }
    }

    fn setting(self) -> Congestion {
        match self {
            Self::Cubic => Congestion::Cubic,
            Self::NewReno => Congestion::NewReno,
            Self::Bbr => Congestion::Bbr,
        }
    }
}

impl EndSettings {
    /// As arguments of a process.
    pub fn arguments(&self) -> Vec<String> {
        vec![
            format!("--wire={}", self.wire.scheme()),
            format!("--connections={}", self.connections),
            format!("--identity={}", self.identity.display()),
            format!("--initial-window={}", self.quic.initial_window),
            format!("--quic-congestion={}", self.quic.quic_congestion.name()),
        ]
    }

    fn wire_settings(&self) -> Result<WireSettings> {
        let quic = QuicConfig::default()
            .with_network(Network::Ethernet)
            // A lost packet is one packet.
            .with_segmentation_offload(false)
            .with_congestion(self.quic.quic_congestion.setting())
            .with_initial_window_bytes(self.quic.initial_window);
        let identity = TlsIdentity::from_dir(&self.identity)?;
        let settings = WireSettings::new(self.connections).with_identity(identity);
        Ok(WireSettings { connect_timeout: CONNECT_TIMEOUT, quic, ..settings })
    }
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Subcommand)]
pub enum Load {
    /// Large batches, as fast as they go.
    Bulk {
        /// Bytes of all outputs.
        bytes: usize,
    },
    /// Small batches, as fast as they go.
    Unpaced {
        /// Of all outputs.
        messages: usize,
    },
    /// Small batches at a pace.
    Paced {
        /// Of all outputs.
        messages: usize,
        /// How many a second.
        per_second: f64,
    },
}

impl Load {
    /// As arguments of a process, after all others.
    pub fn arguments(self) -> Vec<String> {
        match self {
            Self::Bulk { bytes } => vec!["bulk".into(), bytes.to_string()],
            Self::Unpaced { messages } => vec!["unpaced".into(), messages.to_string()],
            Self::Paced { messages, per_second } => {
                vec!["paced".into(), messages.to_string(), per_second.to_string()]
            }
        }
    }
}

/// Serves at an address, prints the URL and ends when the standard input does.
///
/// # Errors
/// The transport's.
pub async fn run_sender(settings: &EndSettings, address: &str, load: Load) -> Result<()> {
    let worker = Arc::new(match load {
        Load::Bulk { bytes } => messages::bulk(bytes)?,
        Load::Unpaced { messages } => messages::unpaced(messages)?,
        Load::Paced { messages, per_second } => messages::paced(messages, per_second),
    });
    let env = TransportEnv::default();
    let transport = settings.wire.transport(&settings.wire_settings()?)?;
    let server = transport.serve(&settings.wire.listen(address)?, worker, &env).await?;
    println!("{}", server.urls().first().ok_or("the server has no URL")?);
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    server.shutdown().await;
    Ok(())
}

/// What the receiver saw.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received {
    /// From the first request to the last end.
    pub seconds: f64,
    /// Messages that count.
    pub n_messages: f64,
    /// The share of them that were on their way for longer than the limit.
    pub late: f64,
    /// How long they were on their way, in milliseconds.
    pub median_ms: f64,
    /// What one in a hundred exceeds.
    pub p99_ms: f64,
}

impl Received {
    /// As the receiver prints it.
    ///
    /// # Errors
    /// Of a line that isn't one.
    pub fn parse(line: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(line)?;
        let number = |name: &str| value[name].as_f64().unwrap_or(f64::NAN);
        Ok(Self {
            seconds: number("seconds"),
            n_messages: number("n_messages"),
            late: number("late"),
            median_ms: number("median_ms"),
            p99_ms: number("p99_ms"),
        })
    }

    fn text(&self) -> String {
        json!({
            "seconds": self.seconds,
            "n_messages": self.n_messages,
            "late": self.late,
            "median_ms": self.median_ms,
            "p99_ms": self.p99_ms,
        })
        .to_string()
    }
}

/// Reads all outputs of a sender and prints what it saw. Messages are late that were on their way
/// for longer than `limit`.
///
/// # Errors
/// The transport's.
pub async fn run_receiver(settings: &EndSettings, url: &Url, limit: Duration) -> Result<()> {
    let env = TransportEnv::default();
    let transport = settings.wire.transport(&settings.wire_settings()?)?;
    let channel = transport.connect(url, &env).await?;
    let start = Instant::now();
    let mut readers = JoinSet::new();
    for stream in fetch_each(channel.as_ref(), N_OUTPUTS) {
        readers.spawn(read(stream));
    }
    let mut messages = Vec::new();
    while let Some(read) = readers.join_next().await {
        messages.append(&mut read??);
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{}", Received { seconds, ..judge(&messages, limit) }.text());
    Ok(())
}

/// A message that came.
struct Message {
    sent: i64,
    received: i64,
}

async fn read(mut stream: BatchStream) -> Result<Vec<Message>> {
    let mut messages = Vec::new();
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        // Large batches have no time.
        if let Ok(sent) = sent(&batch) {
            messages.push(Message { sent, received: now()? });
        }
    }
    Ok::<_, Error>(messages)
}

fn judge(messages: &[Message], limit: Duration) -> Received {
    let first = messages.iter().map(|message| message.sent).min().unwrap_or(0);
    let warm_up = i64::try_from(WARM_UP.as_nanos()).unwrap_or(i64::MAX);
    let counted = messages.iter().filter(|message| message.sent - first >= warm_up);
    let ms: Vec<_> = counted.map(|it| (it.received - it.sent) as f64 / 1e6).collect();
    let n_late = ms.iter().filter(|ms| **ms > limit.as_secs_f64() * 1e3).count();
    Received {
        seconds: 0.0,
        n_messages: ms.len() as f64,
        late: n_late as f64 / ms.len() as f64,
        median_ms: median(ms.iter().copied()),
        p99_ms: percentile(ms.iter().copied(), 99),
    }
}
