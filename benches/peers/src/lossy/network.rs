//! Two network namespaces with a pair of virtual network cards between them.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::Result;

/// Where the addresses of the namespaces begin; nothing outside of them sees these.
const PREFIX: &str = "10.77.0.";

/// Names of namespaces begin so, and the number of the process that made them follows.
const NAME: &str = "tributary-lossy-";

const FOLDER: &str = "/run/netns";

/// Congestion controls that a namespace may choose; the system's own list may be shorter.
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// The namespaces.
///
/// # Drop
/// Removes them, and what is in them.
#[derive(Debug)]
pub struct Network {
    ends: [End; 2],
    allowed_before: String,
}

/// One of the namespaces.
#[derive(Clone, Debug)]
pub struct End {
    /// Its name, as `ip netns` knows it.
    pub namespace: String,
    /// Its address.
    pub address: String,
}

impl Network {
    /// Makes the namespaces, and removes those of runs that were killed.
    ///
    /// # Errors
    /// Where that isn't allowed, or a program is missing.
    pub fn create() -> Result<Self> {
        remove_leftovers()?;
        let end = |nth: u32| End {
            namespace: format!("{NAME}{}-{nth}", std::process::id()),
            address: format!("{PREFIX}{nth}"),
        };
        let allowed_before = std::fs::read_to_string(ALLOWED)?;
        // From here on its drop removes what is there.
        let network = Self { ends: [end(1), end(2)], allowed_before };
        network.set_up()?;
        Ok(network)
    }

    /// Both ends.
    pub fn ends(&self) -> &[End; 2] {
        &self.ends
    }

    /// The congestion control of TCP connections that are made from now on.
    ///
    /// # Errors
    /// Of one that this kernel doesn't have.
    pub fn set_congestion(&self, name: &str) -> Result<()> {
        for end in &self.ends {
            end.run(&["sysctl", "-qw", &format!("net.ipv4.tcp_congestion_control={name}")])?;
        }
        Ok(())
    }

    fn set_up(&self) -> Result<()> {
        allow("cubic", &self.allowed_before)?;
        let [one, other] = &self.ends;
        for end in &self.ends {
            run(&["ip", "netns", "add", &end.namespace])?;
        }
        run(&[
            &["ip", "link", "add", "veth0", "netns", &one.namespace][..],
            &["type", "veth", "peer", "name", "veth0", "netns", &other.namespace],
        ]
        .concat())?;
        for end in &self.ends {
            end.set_up()?;
        }
        Ok(())
    }
}

impl End {
    /// Runs a program in it.
    fn run(&self, command: &[&str]) -> Result<()> {
        run(&[&["ip", "netns", "exec", &self.namespace], command].concat())
    }

    fn set_up(&self) -> Result<()> {
        self.run(&["ip", "address", "add", &format!("{}/24", self.address), "dev", "veth0"])?;
        self.run(&["ip", "link", "set", "lo", "up"])?;
        self.run(&["ip", "link", "set", "veth0", "up"])?;
        // A lost packet is one packet.
        let offloads = ["tso", "off", "gso", "off", "gro", "off", "tx-udp-segmentation", "off"];
        self.run(&[&["ethtool", "-K", "veth0"], &offloads[..]].concat())?;
        // What one connection finds out about the path isn't for the next one.
        self.run(&["sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1"])?;
        // As packets come in: on their way out they would count as not sent, and TCP would wait.
        let rule = ["-A", "PREROUTING", "-i", "veth0", "-j", "NFQUEUE", "--queue-num"];
        let queue = super::path::QUEUE.to_string();
        self.run(&[&["iptables", "-w", "-t", "mangle"], &rule[..], &[&queue]].concat())
    }
}

/// Lets namespaces choose a congestion control.
fn allow(name: &str, allowed: &str) -> Result<()> {
    if !allowed.split_whitespace().any(|other| other == name) {
        std::fs::write(ALLOWED, format!("{} {name}", allowed.trim()))?;
    }
    Ok(())
}

fn run(command: &[&str]) -> Result<()> {
    let [program, arguments @ ..] = command else { return Err("no program".into()) };
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| {
        format!("{program}: {error} (iproute2, iptables and ethtool are needed, and root)")
    })?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{}: {}: {}", command.join(" "), output.status, errors.trim()).into())
}

/// Removes namespaces whose process is gone.
fn remove_leftovers() -> Result<()> {
    let Ok(folder) = std::fs::read_dir(FOLDER) else { return Ok(()) };
    for entry in folder {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(NAME).and_then(|rest| rest.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            run(&["ip", "netns", "delete", &name])?;
        }
    }
    Ok(())
}

impl Drop for Network {
    fn drop(&mut self) {
        for end in &self.ends {
            if Path::new(FOLDER).join(&end.namespace).exists()
                && let Err(error) = run(&["ip", "netns", "delete", &end.namespace])
            {
                eprintln!("{error}");
            }
        }
        if let Err(error) = std::fs::write(ALLOWED, &self.allowed_before) {
            eprintln!("{ALLOWED}: {error}");
        }
    }
}
