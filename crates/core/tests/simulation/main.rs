//! A seeded simulation: random events against the pool, and against a shadow model that recounts everything from
//! scratch. A failure prints the line that replays it.
//!
//! `SLUICEGATE_SEED=n` runs one seed, `SLUICEGATE_SEEDS=n` that many instead of 256.

mod random;
mod shadow;
mod waiting;
mod world;

use world::World;

struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay: SLUICEGATE_SEED={} cargo test -p sluicegate-core --test simulation", self.0);
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

fn run(seed: u64) {
    let _replay = Replay(seed);
    let mut world = World::new(seed);
    for _ in 0..400 {
        world.step();
    }
    world.finish();
}

#[test]
fn random_events_never_part_the_pool_from_its_shadow() {
    match number("SLUICEGATE_SEED") {
        Some(seed) => run(seed),
        None => (0..number("SLUICEGATE_SEEDS").unwrap_or(256)).for_each(run),
    }
}
