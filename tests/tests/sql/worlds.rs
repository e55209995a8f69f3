//! The worlds in which cases run.

use std::collections::HashSet;

use datafusion_tributary_tests::World;

#[test]
fn pairs_cover_every_pair_of_settings() {
    let (all, pairs) = (World::all(), World::pairs());
    assert_eq!((all.len(), pairs.len()), (12, 6));
    let projections: [fn(&World) -> String; 3] = [
        |world| format!("{} {}", world.n_workers, world.target_partitions),
        |world| format!("{} {}", world.n_workers, world.force_encode),
        |world| format!("{} {}", world.target_partitions, world.force_encode),
    ];
    for projection in projections {
        let seen = |worlds: &[World]| worlds.iter().map(projection).collect::<HashSet<_>>();
        assert_eq!(seen(&all), seen(&pairs));
    }
}
