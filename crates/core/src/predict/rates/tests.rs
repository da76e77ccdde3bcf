use super::*;

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

fn near(got: f64, expected: f64, within: f64) {
    assert!((got / expected - 1.0).abs() < within, "{got} is not {expected}");
}

fn rates(replicas: usize) -> Rates {
    let mut rates = Rates::default();
    (0..replicas).for_each(|_| rates.add_replica());
    rates
}

#[test]
fn an_even_stream_has_its_rate_soon() {
    let mut rates = rates(2);
    for second in 0..600 {
        for _ in 0..4 {
            rates.sent(at(second), 0, 1000, 0.1);
        }
        if second >= 10 {
            near(rates.arrivals(at(second + 1)), 4.0, 0.2);
            near(rates.utilisation(at(second + 1), 2), 0.2, 0.2);
        }
    }
    // The memory is a minute: two later about a seventh is left.
    near(rates.arrivals(at(720)), 4.0 / (1.0 + 2.0 + 2.0 + 8.0 / 6.0), 0.05);
}

#[test]
fn a_pool_is_never_taken_to_be_wholly_busy() {
    let mut rates = rates(1);
    (0..100).for_each(|second| rates.sent(at(second), 0, 1000, 50.0));
    assert_eq!(rates.utilisation(at(100), 1), 0.9);
    assert_eq!(Rates::default().utilisation(at(5), 0), 0.0);
    assert_eq!(Rates::default().arrivals(at(5)), 0.0);
}

#[test]
fn recent_traffic_is_kept_by_replica() {
    let mut rates = rates(3);
    (0..300).for_each(|second| rates.sent(at(second), usize::from(second % 4 == 0), 1000, 0.1));
    near(rates.traffic(0) / rates.all_traffic(), 0.75, 0.05);
    near(rates.traffic(1) / rates.all_traffic(), 0.25, 0.05);
    assert_eq!((rates.traffic(2), rates.traffic(7)), (0.0, 0.0));
}

#[test]
fn means_begin_with_the_first_sample() {
    let mut rates = rates(1);
    assert_eq!((rates.mean_output(), rates.usual().prefill), (250.0, 0.0));
    rates.generated(100);
    rates.generated(200);
    rates.sent(at(0), 0, 3000, 0.3);
    assert_eq!((rates.mean_output(), rates.usual().prefill, rates.usual().prompt), (150.0, 0.3, 3000.0));
    (0..1000).for_each(|_| rates.generated(400));
    near(rates.mean_output(), 400.0, 0.01);
}
