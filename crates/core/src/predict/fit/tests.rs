use super::*;
use crate::prng::{SplitMix64, below};

impl Fit {
    /// A fit that has learned this much a token, and no attention.
    pub(crate) fn linear(per_token: f64) -> Self {
        Self { size: per_token, lookback: 0.0, ..Self::default() }
    }
}

/// Prompts of 200 to 30,000 tokens, as an engine with these coefficients takes them.
fn learned(size: f64, lookback: f64, samples: usize, disturb: impl Fn(u64, f64) -> f64) -> Fit {
    let mut rng = SplitMix64::new(1);
    let mut fit = Fit::default();
    for _ in 0..samples {
        let work = Work::of(200 + below(rng.next(), 30_000) as u32, 0);
        let seconds = work.size as f64 * size + work.lookback as f64 * lookback;
        fit.learn(Sample { work, seconds: disturb(rng.next(), seconds) });
    }
    fit
}

fn off(fit: &Fit, size: f64, lookback: f64) -> f64 {
    [300, 3000, 30_000]
        .into_iter()
        .map(|tokens| {
            let work = Work::of(tokens, 0);
            let truth = work.size as f64 * size + work.lookback as f64 * lookback;
            (fit.seconds(work) / truth - 1.0).abs()
        })
        .fold(0.0, f64::max)
}

#[test]
fn before_there_is_data_it_is_a_mid_size_model_on_one_gpu() {
    // 1,000 * 0.1 ms and 1,000 * 500 * 4 ns.
    assert!((Fit::default().seconds(Work::of(1000, 0)) - 0.102).abs() < 1e-12);
    let fit = learned(PRIOR_SIZE, PRIOR_LOOKBACK, 1, |_, seconds| seconds);
    assert!(off(&fit, PRIOR_SIZE, PRIOR_LOOKBACK) < 1e-6, "a sample as predicted changes nothing");
}

#[test]
fn it_finds_the_coefficients_of_engines_far_from_the_prior() {
    for (size, lookback) in [(1e-4, 4e-9), (2e-5, 1e-9), (2e-3, 2e-8), (5e-5, 0.0), (3e-4, 1e-7)] {
        let fit = learned(size, lookback, 60, |_, seconds| seconds);
        assert!(off(&fit, size, lookback) < 0.1, "{size} {lookback}: {fit:?}");
    }
}

#[test]
fn noise_averages_out_and_outliers_pull_little() {
    let noise = |word, seconds: f64| seconds * (0.8 + 0.4 * below(word, 1000) as f64 / 1000.0);
    assert!(off(&learned(1e-4, 4e-9, 400, noise), 1e-4, 4e-9) < 0.08);
    // One in twenty takes 30 times as long: at most half of its prediction counts, some 2 % on average.
    let stalls = |word, seconds: f64| if word % 20 == 0 { seconds * 30.0 } else { seconds };
    assert!(off(&learned(1e-4, 4e-9, 400, stalls), 1e-4, 4e-9) < 0.08);
}

#[test]
fn another_engine_is_noticed() {
    let mut rng = SplitMix64::new(2);
    let mut fit = learned(1e-4, 4e-9, 400, |_, seconds| seconds);
    for _ in 0..150 {
        let work = Work::of(200 + below(rng.next(), 30_000) as u32, 0);
        fit.learn(Sample { work, seconds: 10.0 * (work.size as f64 * 1e-4 + work.lookback as f64 * 4e-9) });
    }
    assert!(off(&fit, 1e-3, 4e-8) < 0.25, "{fit:?}");
}

#[test]
fn prompts_of_one_length_alone_leave_the_shape_as_it_was() {
    let mut fit = Fit::default();
    for _ in 0..2000 {
        fit.learn(Sample { work: Work::of(4000, 0), seconds: 0.864 });
    }
    // Twice the prior at 4,000 tokens.
    assert!((fit.seconds(Work::of(4000, 0)) - 0.864).abs() < 0.01);
    for tokens in [100, 400, 40_000] {
        let ratio = fit.seconds(Work::of(tokens, 0)) / Fit::default().seconds(Work::of(tokens, 0));
        assert!((1.2..3.0).contains(&ratio), "{tokens} tokens: {ratio} times the prior");
    }
}

#[test]
fn nonsense_teaches_nothing() {
    let mut fit = Fit::default();
    for (size, seconds) in [(0, 1.0), (100, 0.0), (100, f64::NAN), (100, f64::INFINITY)] {
        fit.learn(Sample { work: Work { size, lookback: 0 }, seconds });
    }
    assert_eq!(fit.seconds(Work::of(1000, 0)), Fit::default().seconds(Work::of(1000, 0)));
    (0..500).for_each(|_| fit.learn(Sample { work: Work::of(1000, 0), seconds: 1e-9 }));
    assert!(fit.per_token() > 0.0, "an engine that takes no time still takes some");
}

/// What a step takes besides prefill is most of the time of a short prompt, and says nothing of a long one.
#[test]
fn short_prompts_do_not_make_long_ones_seem_slow() {
    for (tokens, seconds) in [(1, 0.01), (12, 0.025), (12, 0.08), (100, 0.05), (200, 0.1)] {
        let mut fit = Fit::default();
        for samples in 1..=200 {
            fit.learn(Sample { work: Work::of(tokens, 0), seconds });
            let long = Work::of(5000, 0);
            let (now, before) = (fit.seconds(long), Fit::default().seconds(long));
            assert!(now < 3.0 * before, "{samples} of {tokens} tokens in {seconds} s: {now} s, not {before}");
        }
    }
}
