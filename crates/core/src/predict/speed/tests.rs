use super::*;
use crate::prng::{SplitMix64, below};

/// A pool of replicas that each take so many times as long as predicted, after `turns` prefills of each; `disturb` says
/// how many times as long a sample takes besides.
fn pool(ratios: &[f64], turns: usize, mut disturb: impl FnMut(usize) -> f64) -> (Vec<f64>, Scatter) {
    let mut scatter = Scatter::default();
    let mut speeds = vec![Speed::default(); ratios.len()];
    for _ in 0..turns {
        for (index, (speed, ratio)) in speeds.iter_mut().zip(ratios).enumerate() {
            speed.learn(ratio * disturb(index), 1.0, &mut scatter);
        }
    }
    (speeds.iter().map(|speed| speed.slowness(&scatter)).collect(), scatter)
}

/// The sum of four uniform numbers, as a logarithm: a factor with about this standard deviation.
fn noise(rng: &mut SplitMix64, deviation: f64) -> f64 {
    let sum: f64 = (0..4).map(|_| below(rng.next(), 1000) as f64 / 1000.0).sum();
    ((sum - 2.0) * 1.73 * deviation).exp()
}

#[test]
fn a_ratio_near_1_is_ignored_and_one_farther_off_is_believed_with_evidence() {
    assert_eq!(pool(&[1.2, 1.0, 1.0, 0.9], 100, |_| 1.0).0, [1.0; 4]);
    let slow = [2.0, 1.0, 1.0, 1.0];
    assert_eq!(pool(&slow, 2, |_| 1.0).0, [1.0; 4], "two samples prove little");
    let (known, _) = pool(&slow, 12, |_| 1.0);
    assert!((1.7..=2.0).contains(&known[0]) && known[1..] == [1.0; 3], "{known:?}");
    let (known, _) = pool(&[2.0, 2.0, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8], 100, |_| 1.0);
    assert!(known[..2].iter().all(|slow| (2.0..2.5).contains(slow)) && known[2..] == [1.0; 6], "{known:?}");
}

#[test]
fn where_predictions_are_bad_nobody_is_slow_by_chance_and_a_slow_one_is_still_found() {
    for seed in 0..20 {
        let mut rng = SplitMix64::new(seed);
        let (known, scatter) = pool(&[1.0; 8], 40, |_| noise(&mut rng, 0.7));
        assert_eq!(known, [1.0; 8], "seed {seed}");
        assert!((0.5..0.8).contains(&scatter.doubt()), "{scatter:?}");
    }
    let mut rng = SplitMix64::new(1);
    let (known, _) = pool(&[2.0, 1.0, 1.0, 1.0], 100, |_| noise(&mut rng, 0.3));
    assert!(known[0] > 1.5 && known[1..] == [1.0; 3], "{known:?}");
}

#[test]
fn a_replica_that_others_load_is_not_slow() {
    // Every second of its prefills has waited for somebody else's first.
    let mut turn = 0;
    let (known, _) = pool(&[1.0; 4], 100, |replica| {
        turn += 1;
        if replica == 0 && turn / 4 % 2 == 0 { 3.0 } else { 1.0 }
    });
    assert_eq!(known, [1.0; 4]);
}

#[test]
fn predictions_that_hold_are_not_doubted() {
    let mut last = Scatter::default().doubt();
    assert!((last - 0.25).abs() < 1e-9);
    for turns in [10, 100, 1000] {
        let doubt = pool(&[1.0], turns, |_| 1.0).1.doubt();
        assert!(doubt < last, "{turns}");
        last = doubt;
    }
    assert!(last < 0.01);
    // A pool with a slow replica is predicted well as soon as that is known.
    assert!(pool(&[2.0, 1.0, 1.0, 1.0], 300, |_| 1.0).1.doubt() < 0.1);
}

#[test]
fn short_prompts_that_take_long_do_not_make_a_replica_slow() {
    let mut scatter = Scatter::default();
    let mut speeds = [Speed::default(); 2];
    for _ in 0..100 {
        speeds[0].learn(0.05, 0.01, &mut scatter);
        speeds[1].learn(1.0, 1.0, &mut scatter);
    }
    assert_eq!(speeds[0].slowness(&scatter), 1.0);
}

#[test]
fn nonsense_teaches_nothing() {
    let (mut speed, mut scatter) = (Speed::default(), Scatter::default());
    speed.learn(f64::NAN, 1.0, &mut scatter);
    speed.learn(f64::INFINITY, 1.0, &mut scatter);
    assert_eq!((speed.slowness(&scatter), scatter.doubt()), (1.0, 0.25));
}
