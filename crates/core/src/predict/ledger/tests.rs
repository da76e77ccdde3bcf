use super::*;
use crate::predict::burden::Usual;
use crate::predict::fit::Fit;

/// Exactly 0.1 ms a token: the prior without its attention.
fn fit() -> Fit {
    Fit::linear(1e-4)
}

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

fn work(tokens: u32) -> Work {
    Work::of(tokens, 0)
}

/// Others' requests take half a second of prefill, of 2,000 tokens.
const USUAL: Usual = Usual { prefill: 0.5, prompt: 2000.0 };

fn wait(ledger: &Ledger, millis: u64) -> f64 {
    ledger.burden(1.0, 0.0).wait(at(millis), &fit(), USUAL)
}

/// Nothing is believed to have been done of the next one.
fn answered(ledger: &mut Ledger, at: Time, entry: Entry) {
    let fit = fit();
    ledger.answered(at, entry, |work| fit.seconds(work), 1.0);
}

fn decoding(ledger: &Ledger) -> (f64, f64) {
    ledger.burden(1.0, 0.0).decoding(USUAL)
}

fn near(got: f64, expected: f64) {
    assert!((got - expected).abs() < 1e-6, "{got} is not {expected}");
}

#[test]
fn a_newcomer_waits_for_all_prefill_before_it_less_what_is_done_of_the_first() {
    let mut ledger = Ledger::default();
    near(wait(&ledger, 0), 0.0);
    let first = ledger.sent(at(1000), 10_000, work(10_000), None);
    let second = ledger.sent(at(1200), 4000, work(4000), None);
    // 1 s and 0.4 s, of which 0.5 s are done.
    near(wait(&ledger, 1500), 0.9);
    near(ledger.burden(2.0, 0.0).wait(at(1500), &fit(), USUAL), 2.3);
    // The first takes longer than predicted: nothing is known but that the second is still to come.
    near(wait(&ledger, 9000), 0.4);
    answered(&mut ledger, at(9000), first);
    near(wait(&ledger, 9100), 0.3);
    answered(&mut ledger, at(9400), second);
    near(wait(&ledger, 9400), 0.0);
    assert_eq!(decoding(&ledger), (2.0, 14_000.0));
    ledger.ended(at(9500), first, 10_000);
    ledger.ended(at(9500), second, 4000);
    assert_eq!((decoding(&ledger), ledger.total), ((0.0, 0.0), Work::default()));
}

#[test]
fn where_predictions_are_doubted_a_part_of_the_first_is_to_come_until_its_first_byte() {
    let mut ledger = Ledger::default();
    let first = ledger.sent(at(0), 10_000, work(10_000), None);
    let wait = |ledger: &Ledger, millis, doubt| ledger.burden(1.0, doubt).wait(at(millis), &fit(), USUAL);
    // 1 s: of what has been done of it no more than 1 - doubt is believed.
    for (millis, doubt, expected) in [
        (300, 0.0, 0.7),
        (300, 0.4, 0.7),
        (900, 0.4, 0.4),
        (9000, 0.4, 0.4),
        (9000, 0.0, 0.0),
        (900, 1.0, 1.0),
    ] {
        near(wait(&ledger, millis, doubt), expected);
    }
    answered(&mut ledger, at(9000), first);
    near(wait(&ledger, 9000, 0.4), 0.0);
    let _silent = ledger.sent(at(10_000), 10_000, work(10_000), Some(at(11_000)));
    near(wait(&ledger, 10_900, 0.4), 0.1);
}

#[test]
fn what_the_first_took_longer_than_predicted_the_second_has_been_worked_on() {
    // the first 0.5 s, the second 0.4 s; the second sent, the first byte of the first, doubt -> wait just then
    for (sent, first_byte, doubt, expected) in [
        (100, 500, 0.0, 0.4),
        (100, 400, 0.0, 0.4),
        (100, 600, 0.0, 0.3),
        (100, 600, 0.4, 0.34),
        (100, 600, 1.0, 0.4),
        // No more than all of it, and no longer than it has been there.
        (100, 5000, 0.0, 0.0),
        (950, 1000, 0.0, 0.35),
    ] {
        let mut ledger = Ledger::default();
        let first = ledger.sent(at(0), 5000, work(5000), None);
        let _second = ledger.sent(at(sent), 4000, work(4000), None);
        let fit = fit();
        ledger.answered(at(first_byte), first, |work| fit.seconds(work), doubt);
        near(wait(&ledger, first_byte), expected);
    }
}

#[test]
fn one_that_ends_without_a_first_byte_burdens_nobody_any_more() {
    let mut ledger = Ledger::default();
    let first = ledger.sent(at(0), 10_000, work(10_000), None);
    let second = ledger.sent(at(0), 4000, work(4000), None);
    let third = ledger.sent(at(0), 2000, work(2000), None);
    ledger.ended(at(100), second, 4000);
    near(wait(&ledger, 100), 1.1);
    ledger.ended(at(200), first, 10_000);
    near(wait(&ledger, 250), 0.15);
    answered(&mut ledger, at(300), third);
    answered(&mut ledger, at(310), third);
    assert_eq!(
        (ledger.pending(), decoding(&ledger)),
        (0, (1.0, 2000.0)),
        "answered once, however often said"
    );
}

#[test]
fn a_first_byte_that_did_not_wait_is_a_sample() {
    let mut ledger = Ledger::default();
    let first = ledger.sent(at(1000), 5000, work(5000), None);
    answered(&mut ledger, at(1600), first);
    assert_eq!(ledger.sample(at(1604), false), None, "others may follow in the same step");
    assert_eq!(ledger.sample(at(1900), false), Some(Sample { work: work(5000), seconds: 0.6 }));
    assert_eq!(ledger.sample(at(1900), false), None, "once");
    let first = ledger.sent(at(2000), 5000, work(5000), None);
    let second = ledger.sent(at(2100), 3000, work(3000), None);
    answered(&mut ledger, at(2700), first);
    assert_eq!(ledger.sample(at(2800), false), None, "a part of its last step was the second's");
    answered(&mut ledger, at(2900), second);
    assert_eq!(ledger.sample(at(3000), true), None, "the second has waited");
    let first = ledger.sent(at(4000), 5000, work(5000), None);
    let _behind = ledger.sent(at(4100), 3000, work(3000), None);
    answered(&mut ledger, at(4700), first);
    assert_eq!(ledger.sample(at(4800), true), Some(Sample { work: work(5000), seconds: 0.7 }));
}

#[test]
fn first_bytes_of_one_step_are_one_sample_in_whatever_order_they_come() {
    for swapped in [false, true] {
        let mut ledger = Ledger::default();
        let first = ledger.sent(at(0), 500, work(500), None);
        let second = ledger.sent(at(1), 700, work(700), None);
        let order = if swapped { [second, first] } else { [first, second] };
        answered(&mut ledger, at(130), order[0]);
        answered(&mut ledger, at(132), order[1]);
        assert_eq!(
            ledger.sample(at(200), false),
            Some(Sample { work: work(500) + work(700), seconds: 0.132 })
        );
    }
}

#[test]
fn what_a_scrape_reports_beyond_our_own_is_others_until_it_has_been_worked_off() {
    let load = |running, waiting| Some(EngineLoad { running, waiting, ..EngineLoad::default() });
    let mut ledger = Ledger::default();
    let first = ledger.sent(at(0), 1000, work(1000), None);
    let second = ledger.sent(at(0), 1000, work(1000), None);
    answered(&mut ledger, at(50), first);
    ledger.scrape_started();
    answered(&mut ledger, at(60), second);
    // One of ours was waiting when the scrape began, and two were there.
    ledger.scraped(at(100), load(5, 3));
    // Three more of others run than of ours: a tenth of them counts at first.
    near(decoding(&ledger).0, 2.3);
    near(decoding(&ledger).1, 2000.0 + 0.3 * 2000.0);
    near(wait(&ledger, 100), 1.0);
    near(wait(&ledger, 400), 0.7);
    near(wait(&ledger, 2000), 0.0);
    ledger.scrape_started();
    ledger.scraped(at(3000), load(1, 0));
    near(decoding(&ledger).0, 2.0 + 0.3 * 0.9);
    for _ in 0..60 {
        ledger.scraped(at(3000), load(7, 0));
    }
    assert!((6.9..7.0).contains(&decoding(&ledger).0), "as many as run usually");
    ledger.scraped(at(6000), load(9, 9));
    ledger.scraped(at(6000), None);
    near(wait(&ledger, 6000), 0.0);
}

#[test]
fn one_without_a_stream_is_over_when_it_should_be_or_when_a_later_one_is_answered() {
    let mut ledger = Ledger::default();
    let silent =
        |ledger: &mut Ledger, tokens: u32, until| ledger.sent(at(0), tokens, work(tokens), Some(at(until)));
    let first = silent(&mut ledger, 10_000, 1000);
    let second = silent(&mut ledger, 10_000, 2000);
    let third = silent(&mut ledger, 10_000, 3000);
    let fourth = ledger.sent(at(0), 5000, work(5000), None);
    near(wait(&ledger, 500), 3.0);
    near(wait(&ledger, 1500), 2.0);
    near(wait(&ledger, 9000), 0.5);
    // Its whole answer: nothing that could be measured.
    answered(&mut ledger, at(1500), first);
    ledger.ended(at(1500), first, 10_000);
    assert_eq!((ledger.pending(), decoding(&ledger).0, ledger.sample(at(9000), false)), (3, 0.0, None));
    // The engine takes them in order: whoever was before the fourth has been read.
    answered(&mut ledger, at(2700), fourth);
    assert_eq!((ledger.pending(), decoding(&ledger).0), (0, 3.0));
    for entry in [second, third, fourth] {
        ledger.ended(at(5000), entry, 10_000);
    }
    assert_eq!(decoding(&ledger).0, 0.0);
}
