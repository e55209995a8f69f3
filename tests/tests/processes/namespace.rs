//! A network namespace with a link to it that can be cut without closing anything.

use std::net::Ipv4Addr;
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};

/// An address that nobody has: what is sent there is lost.
const NOBODY: &str = "02:00:00:00:00:01";

/// A namespace with one link, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Namespace {
    name: String,
    /// Our end of the link; the other one is `eth0`.
    link: String,
    /// Our address.
    pub(crate) here: Ipv4Addr,
    /// The namespace's address.
    pub(crate) there: Ipv4Addr,
}

impl Namespace {
    /// Makes a namespace, of which there are two in each process at most.
    ///
    /// # Errors
    /// Why it can't be made, and what to do.
    pub(crate) fn create() -> Result<Self, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let (id, number) = (process::id(), MADE.fetch_add(1, Ordering::Relaxed) % 2);
        // Of 198.18.0.0/15, which is set aside for tests of networks, four addresses by our numbers.
        let first = (198 << 24) + (18 << 16) + (id % (1 << 14) * 2 + number) * 4;
        let namespace = Self {
            name: format!("tributary-{id}-{number}"),
            link: format!("tri{id}-{number}"),
            here: Ipv4Addr::from(first + 1),
            there: Ipv4Addr::from(first + 2),
        };
        let made = namespace.make();
        made.map(|()| namespace).map_err(|e| {
            format!(
                "no network namespace can be made: {e}. This test needs root and `ip` (install \
                 iproute2); TRIBUTARY_NO_NETNS=1 leaves it out"
            )
        })
    }

    fn make(&self) -> Result<(), String> {
        let Self { name, link, here, there } = self;
        ip(&format!("netns add {name}"))?;
        ip(&format!("link add {link} type veth peer name eth0 netns {name}"))?;
        ip(&format!("addr add {here}/30 dev {link}"))?;
        ip(&format!("link set {link} up"))?;
        ip(&format!("-n {name} addr add {there}/30 dev eth0"))?;
        ip(&format!("-n {name} link set lo up"))?;
        ip(&format!("-n {name} link set eth0 up"))
    }

    /// What runs the command behind it in the namespace.
    pub(crate) fn command(&self) -> [&str; 4] {
        ["ip", "netns", "exec", &self.name]
    }

    /// Loses what either side sends. Connections stay as they are, and so does the link.
    ///
    /// # Errors
    /// Of `ip`.
    pub(crate) fn cut(&self) -> Result<(), String> {
        let Self { name, link, here, there } = self;
        ip(&format!("neigh replace {there} lladdr {NOBODY} dev {link} nud permanent"))?;
        ip(&format!("-n {name} neigh replace {here} lladdr {NOBODY} dev eth0 nud permanent"))
    }

    /// Ends the cut.
    ///
    /// # Errors
    /// Of `ip`.
    pub(crate) fn mend(&self) -> Result<(), String> {
        let Self { name, link, here, there } = self;
        ip(&format!("neigh del {there} dev {link}"))?;
        ip(&format!("-n {name} neigh del {here} dev eth0"))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The other end goes with ours. What isn't there was never made.
        let _ = ip(&format!("link del {}", self.link));
        let _ = ip(&format!("netns del {}", self.name));
    }
}

fn ip(args: &str) -> Result<(), String> {
    let output = Command::new("ip")
        .args(args.split_whitespace())
        .output()
        .map_err(|e| format!("`ip` can't be run: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let errors = String::from_utf8_lossy(&output.stderr);
            Err(format!("`ip {args}` says: {}", errors.trim()))
        }
    }
}
