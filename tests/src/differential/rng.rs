//! Random choices that a number repeats.

/// SplitMix64. It is written out because a query's seed has to give the same query for as long as
/// the generator is the same, also with other versions of dependencies.
#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than `n`, which isn't 0.
    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.number() % n as u64) as usize
    }

    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of several, which aren't none.
    pub(super) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// One of several, where there is one.
    pub(super) fn pick_any<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        (!items.is_empty()).then(|| self.pick(items))
    }

    /// Up to `n` different ones, in any order.
    pub(super) fn some_of<T: Clone>(&mut self, items: &[T], n: usize) -> Vec<T> {
        let mut left = items.to_vec();
        let mut taken = Vec::new();
        while taken.len() < n && !left.is_empty() {
            taken.push(left.swap_remove(self.below(left.len())));
        }
        taken
    }
}
