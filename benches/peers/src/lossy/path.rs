//! One direction of a slow and lossy path: a process that judges each packet.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use clap::Args;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use super::queue::{Packet, PacketQueue};
use crate::Result;

/// The number of the queue in each namespace.
pub(super) const QUEUE: u16 = 0;

/// Packets that wait in a router for the link, as time: about what routers in data centres hold at
/// rates like these.
const ROUTER_QUEUE: Duration = Duration::from_millis(20);

/// Packets that are taken before those that are due go on.
const MAX_AT_ONCE: usize = 64;

/// What a path does to packets, the same in both directions.
#[derive(Args, Clone, Copy, Debug, PartialEq)]
pub struct PathSettings {
    /// Microseconds that each packet takes.
    #[arg(long)]
    pub delay_us: u64,
    /// Packets of a million that are lost, each by a draw of its own.
    #[arg(long)]
    pub lost_ppm: u64,
    /// Megabits a second; 0 is no limit.
    #[arg(long)]
    pub mbit: u64,
    /// Makes the draws differ.
    #[arg(long)]
    pub seed: u64,
}

impl PathSettings {
    /// As arguments of the process.
    pub fn arguments(&self) -> Vec<String> {
        vec![
            format!("--delay-us={}", self.delay_us),
            format!("--lost-ppm={}", self.lost_ppm),
            format!("--mbit={}", self.mbit),
            format!("--seed={}", self.seed),
        ]
    }
}

/// Says `ready`, judges packets until the standard input ends, and prints the counts.
///
/// # Errors
/// The kernel's.
pub fn run_path(settings: PathSettings) -> Result<()> {
    // Packets leave in time rather than many at once.
    nix::sys::prctl::set_timerslack(1_000)?;
    let mut path = Path::try_new(settings)?;
    println!("ready");
    std::io::stdout().flush()?;
    while !path.wait()? {
        path.take()?;
        path.pass()?;
    }
    let overflows = PacketQueue::overflows();
    println!("{} {} {} {overflows}", path.counts.passed, path.counts.lost, path.counts.queue_full);
    Ok(())
}

/// What a path did to packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Those that arrived.
    pub passed: u64,
    /// Those that were drawn.
    pub lost: u64,
    /// Those that found the router's queue full.
    pub queue_full: u64,
    /// Those that the kernel lost because this process was too slow. There should be none.
    pub overflows: u64,
}

impl Counts {
    /// As the process prints them.
    pub fn parse(line: &str) -> Option<Self> {
        let numbers: Vec<u64> = line.split(' ').map_while(|it| it.parse().ok()).collect();
        let [passed, lost, queue_full, overflows] = numbers.try_into().ok()?;
        Some(Self { passed, lost, queue_full, overflows })
    }
}

struct Path {
    settings: PathSettings,
    queue: PacketQueue,
    draws: Draws,
    /// In the order in which they are due.
    waiting: VecDeque<(Instant, Packet)>,
    /// When the link has sent all that it has to.
    link_free: Instant,
    counts: Counts,
}

impl Path {
    fn try_new(settings: PathSettings) -> Result<Self> {
        Ok(Self {
            settings,
            queue: PacketQueue::bind(QUEUE)?,
            draws: Draws(settings.seed),
            waiting: VecDeque::new(),
            link_free: Instant::now(),
            counts: Counts::default(),
        })
    }

    /// Waits for a packet, or until one is due; true when the standard input has ended.
    fn wait(&self) -> Result<bool> {
        let until_due = self
            .waiting
            .front()
            .map(|(due, _)| TimeSpec::from_duration(due.saturating_duration_since(Instant::now())));
        let stdin = std::io::stdin();
        let mut files = [
            PollFd::new(self.queue.as_fd(), PollFlags::POLLIN),
            PollFd::new(stdin.as_fd(), PollFlags::POLLIN),
        ];
        match ppoll(&mut files, until_due, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_over = files[1].any().unwrap_or(false);
        Ok(is_over && stdin.lock().read(&mut [0])? == 0)
    }

    /// Draws for packets that are there.
    fn take(&mut self) -> Result<()> {
        for _ in 0..MAX_AT_ONCE {
            let Some(packet) = self.queue.next()? else { break };
            let now = Instant::now();
            if self.draws.below(1_000_000) < self.settings.lost_ppm {
                self.counts.lost += 1;
                self.queue.lose(packet)?;
                continue;
            }
            let starts = self.link_free.max(now);
            if starts - now > ROUTER_QUEUE {
                self.counts.queue_full += 1;
                self.queue.lose(packet)?;
                continue;
            }
            self.link_free = starts + self.sending(packet);
            let due = self.link_free + Duration::from_micros(self.settings.delay_us);
            self.waiting.push_back((due, packet));
        }
        Ok(())
    }

    /// How long the link is busy with a packet.
    fn sending(&self, packet: Packet) -> Duration {
        let bits = packet.n_bytes as u64 * 8;
        Duration::from_nanos((bits * 1000).checked_div(self.settings.mbit).unwrap_or(0))
    }

    /// Lets those go that are due.
    fn pass(&mut self) -> Result<()> {
        let now = Instant::now();
        let mut last = None;
        while let Some((_, packet)) = self.waiting.pop_front_if(|(due, _)| *due <= now) {
            self.counts.passed += 1;
            last = Some(packet);
        }
        last.map_or(Ok(()), |last| self.queue.pass_up_to(last))
    }
}

/// Numbers that look like random ones (SplitMix64).
struct Draws(u64);

impl Draws {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_drawn_as_shall_be() {
        let mut draws = Draws(1);
        let n_drawn = (0..1_000_000).filter(|_| draws.below(1_000_000) < 10_000).count();
        assert!((9_500..10_500).contains(&n_drawn), "{n_drawn}");
    }

    #[test]
    fn counts_are_read_as_they_are_printed() {
        let counts = Counts::parse("1 2 3 4").expect("counts");
        assert_eq!((counts.passed, counts.lost, counts.queue_full, counts.overflows), (1, 2, 3, 4));
        assert!(Counts::parse("1 2 3").is_none());
    }
}
