//! Numbers that look random and depend on nothing but what they are of, so that any part of the table
//! can be made alone, and the same each time. Whole numbers only: floats could differ between machines.

/// Of all data sets of this kind. Another one would give another table.
const SEED: u64 = 20_130_701;

/// The odd number next to 2^64 divided by the golden ratio, which SplitMix64 steps by.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number that belongs to `idx`, say a row, in the sequence of a topic.
pub(super) fn random(topic: u64, idx: u64) -> u64 {
    let sequence = mix(SEED.wrapping_add(topic.wrapping_mul(STEP)));
    mix(sequence.wrapping_add(idx.wrapping_mul(STEP)))
}

/// Another number, from a number. It is the output function of SplitMix64 (Steele, Lea and Flood, "Fast
/// Splittable Pseudorandom Number Generators", OOPSLA 2014) with the constants of Vigna's version.
pub(super) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// True for that many of a hundred random numbers.
pub(super) fn chance(random: u64, percent: u64) -> bool {
    random % 100 < percent
}

/// A rank from 0 to 2^`n_octaves` - 2, by Zipf's law: rank `r` about as often as 1 of `r + 1`. An octave
/// holds twice as many ranks as the one before, each half as often.
pub(super) fn rank(random: u64, n_octaves: u32) -> u64 {
    let octave = ((random >> 40) * u64::from(n_octaves)) >> 24;
    let n_ranks = 1 << octave;
    n_ranks - 1 + random % n_ranks
}

/// One of a list, the first ones often. The list isn't empty.
pub(super) fn choose<T: Copy>(list: &[T], random: u64) -> T {
    let n_octaves = list.len().ilog2() + 1;
    let rank = usize::try_from(rank(random, n_octaves)).unwrap_or(0);
    list[rank % list.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_as_they_are() {
        // The first output of SplitMix64 with the seed 0, as published with it.
        assert_eq!(mix(STEP), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random(1, 2), random(1, 2));
        assert_ne!(random(1, 2), random(2, 1));
    }

    #[test]
    fn low_ranks_are_frequent_and_all_occur() {
        let mut counts = [0_u32; 15];
        for row in 0..10_000 {
            counts[usize::try_from(rank(random(0, row), 4)).expect("small")] += 1;
        }
        assert!((2_300..2_700).contains(&counts[0]), "{counts:?}");
        assert!((1_100..1_400).contains(&counts[1]), "{counts:?}");
        assert!(counts.iter().all(|count| *count > 200), "{counts:?}");
    }

    #[test]
    fn every_item_of_a_list_is_chosen() {
        for len in 1..=20 {
            let list: Vec<usize> = (0..len).collect();
            for item in &list {
                assert!((0..10_000).any(|row| choose(&list, random(0, row)) == *item));
            }
        }
    }
}
