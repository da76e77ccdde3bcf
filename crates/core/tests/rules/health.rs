//! The health table, row by row: what happens to a replica, and what comes out.

use crate::bench::{Bench, healthy, seconds, spec, words};
use sluicegate_core::*;

#[derive(Clone, Copy, Debug)]
enum Ev {
    Good,
    /// A good scrape with one running request and this token counter.
    Tokens(u64),
    NoMetrics,
    Loading,
    RefusedScrape,
    TimedOut,
    Failed,
    Ends(Verdict),
    Canary(bool),
    /// A stream byte comes now.
    Byte,
    Wait(u64),
    Drain,
    Undrain,
}
use Ev::*;

const SUCCESS: Ev = Ends(Verdict::Success);
const NEUTRAL: Ev = Ends(Verdict::Neutral);
const BUSY: Ev = Ends(Verdict::Busy);
const E500: Ev = Ends(Verdict::Failure(Failure::Status(500)));
const E502: Ev = Ends(Verdict::Failure(Failure::Status(502)));
const EVENT: Ev = Ends(Verdict::Failure(Failure::ErrorEvent(500)));
const RESET: Ev = Ends(Verdict::Failure(Failure::Reset));
const REFUSED: Ev = Ends(Verdict::Refused);
const NO_CONNECT: Ev = Ends(Verdict::ConnectFailed);
const SILENT: Ev = Ends(Verdict::SilentTimeout);
const DEFERRED: Ev = Ends(Verdict::Deferred);

/// Feeds the events to replica 0 and tells what comes out. Scrapes are told only up to the first long wait: nobody
/// answers them while time passes, so that later ones are merely overdue.
fn trace(bench: &mut Bench, events: &[Ev]) -> String {
    let id = ReplicaId(0);
    let mut last_byte = None;
    let (mut out, mut punctual) = (Vec::new(), true);
    for event in events {
        let now = bench.now;
        let mut scraped = |scrape| bench.pool.scraped(now, id, scrape, last_byte);
        match event {
            Good => scraped(healthy(0, 0)),
            Tokens(total) => scraped(Scrape::Healthy {
                load: Some(EngineLoad { running: 1, tokens_total: Some(*total), ..EngineLoad::default() }),
            }),
            NoMetrics => scraped(Scrape::Healthy { load: None }),
            Loading => scraped(Scrape::Loading),
            RefusedScrape => scraped(Scrape::Refused),
            TimedOut => scraped(Scrape::TimedOut),
            Failed => scraped(Scrape::Failed),
            Ends(verdict) => {
                let spell = bench.pool.spell(id).expect("a replica of the pool");
                bench.pool.book(now, spell, *verdict, last_byte);
            }
            Canary(answered) => bench.pool.canary(now, id, *answered),
            Byte => last_byte = Some(now),
            Wait(s) => bench.pass(seconds(*s)),
            Drain => bench.pool.drain(now, id),
            Undrain => bench.pool.undrain(now, id),
        }
        punctual &= !matches!(event, Wait(3..));
        out.extend(words(&bench.take_effects(), punctual));
    }
    out.join(" ")
}

fn check_live(rows: &[(&str, &[Ev], &str)]) {
    for (rule, events, expected) in rows {
        let mut bench = Bench::live(3, PoolSettings::default());
        assert_eq!(trace(&mut bench, events), *expected, "{rule}: {events:?}");
    }
}

#[test]
fn live_is_left_by_a_refused_connection_or_two_failed_scrapes() {
    check_live(&[
        ("a refused request", &[REFUSED], "ejected(refused) abort"),
        ("a refused scrape", &[RefusedScrape], "ejected(refused) abort"),
        ("after the first failed scrape an extra one follows at once", &[Failed], "scrape"),
        ("two failed scrapes", &[Failed, Failed], "scrape ejected(scrapes_failed) abort"),
        ("not in a row", &[Failed, Good, Failed], "scrape scrape"),
        ("a failure to connect scrapes and does not eject", &[NO_CONNECT, NO_CONNECT, NO_CONNECT], "scrape"),
        ("and that scrape decides", &[NO_CONNECT, RefusedScrape], "scrape ejected(refused) abort"),
        ("a reset scrapes at once", &[RESET], "scrape"),
        ("what is deferred may be a reset", &[DEFERRED, DEFERRED, DEFERRED, DEFERRED], "scrape"),
    ]);
}

#[test]
fn live_is_left_by_three_upstream_failures_in_a_row() {
    check_live(&[
        ("two are not three", &[E500, E502], ""),
        ("three; nothing is aborted", &[E500, E502, E500], "ejected(upstream_failures)"),
        ("of any kind", &[EVENT, E500, RESET], "ejected(upstream_failures)"),
        ("a success ends the row", &[E500, E500, SUCCESS, E500, E500], ""),
        ("what says nothing does not", &[E500, NEUTRAL, E500, NEUTRAL, E500], "ejected(upstream_failures)"),
        ("a timeout is no failure", &[E500, E500, SILENT], ""),
        ("a 4xx, a 429 or a client that left is none", &[NEUTRAL; 9], ""),
    ]);
}

#[test]
fn a_503_is_busy_before_it_is_faulty() {
    check_live(&[
        ("nothing good ever came", &[BUSY, BUSY, BUSY], "ejected(upstream_failures)"),
        ("the first after a success is forgiven", &[SUCCESS, BUSY, BUSY, BUSY], ""),
        ("the next ones are not", &[SUCCESS, BUSY, BUSY, BUSY, BUSY], "ejected(upstream_failures)"),
        ("successes in between", &[SUCCESS, BUSY, SUCCESS, BUSY, SUCCESS, BUSY, SUCCESS, BUSY], ""),
        ("a stream byte in between", &[BUSY, BUSY, Wait(1), Byte, BUSY], ""),
        ("forgives one", &[BUSY, BUSY, Wait(1), Byte, BUSY, BUSY], "ejected(upstream_failures)"),
        (
            "a byte from before the last one forgives nothing",
            &[Byte, Wait(1), BUSY, BUSY, BUSY, BUSY],
            "ejected(upstream_failures)",
        ),
    ]);
}

#[test]
fn a_scrape_that_times_out_does_not_count_while_the_replica_works() {
    check_live(&[
        ("nothing moves", &[TimedOut, TimedOut], "scrape ejected(scrapes_failed) abort"),
        ("bytes come", &[Byte, TimedOut, Wait(3), Byte, TimedOut, TimedOut], ""),
        ("bytes came long ago", &[Byte, Wait(20), Good, TimedOut, TimedOut], "ejected(scrapes_failed) abort"),
        ("tokens moved within a minute", &[Tokens(5), Tokens(6), Wait(60), TimedOut, TimedOut], ""),
        (
            "not within a minute",
            &[Tokens(5), Tokens(6), Wait(61), TimedOut, TimedOut],
            "ejected(scrapes_failed) abort",
        ),
        (
            "a counter that never moved",
            &[Tokens(5), Tokens(5), TimedOut, TimedOut],
            "scrape ejected(scrapes_failed) abort",
        ),
        (
            "excused is neither failed nor good",
            &[Failed, Byte, TimedOut, Failed],
            "scrape ejected(scrapes_failed) abort",
        ),
        ("other failures are not excused", &[Byte, Failed, Failed], "scrape ejected(scrapes_failed) abort"),
    ]);
}

#[test]
fn a_missing_metrics_path_is_no_failure_and_one_event_per_change() {
    check_live(&[
        ("missing", &[NoMetrics, NoMetrics, NoMetrics], "metrics-"),
        ("back and gone", &[NoMetrics, Good, Good, NoMetrics], "metrics- metrics+ metrics-"),
        ("never gone", &[Good, Good], ""),
    ]);
}

#[test]
fn a_stalled_replica_is_ejected_and_returns_by_a_canary() {
    let probing = "ejected(stalled) canary probing(cooldown_over)";
    check_live(&[
        ("three silent timeouts in a row; nothing is aborted", &[SILENT, SILENT, SILENT], "ejected(stalled)"),
        ("not in a row", &[SILENT, SILENT, SUCCESS, SILENT, SILENT], ""),
        ("any byte ends the row", &[SILENT, SILENT, Wait(1), Byte, SILENT, SILENT], ""),
        ("frozen counters", &[Tokens(5), Tokens(6), Wait(60), Tokens(6)], "ejected(stalled)"),
        ("not yet a minute", &[Tokens(5), Tokens(6), Wait(59), Tokens(6)], ""),
        ("a byte reached us", &[Tokens(5), Tokens(6), Wait(10), Byte, Wait(50), Tokens(6)], ""),
        (
            "no canary in the cooldown",
            &[SILENT, SILENT, SILENT, Good, Good, Wait(29), Good],
            "ejected(stalled)",
        ),
        (
            "then one at each scrape",
            &[SILENT, SILENT, SILENT, Good, Wait(30), Good, Canary(false), Good],
            "ejected(stalled) canary canary",
        ),
        ("answered", &[SILENT, SILENT, SILENT, Good, Wait(30), Good, Canary(true)], probing),
        (
            "answered before the second good scrape",
            &[SILENT, SILENT, SILENT, Wait(30), Good, Canary(true), Good],
            probing,
        ),
        (
            "good scrapes alone are not enough",
            &[SILENT, SILENT, SILENT, Good, Good, Wait(300)],
            "ejected(stalled)",
        ),
    ]);
}

#[test]
fn an_ejected_replica_returns_after_its_cooldown_and_two_good_scrapes() {
    let out = "ejected(refused) abort";
    let back = "ejected(refused) abort probing(cooldown_over)";
    check_live(&[
        ("the cooldown is not over", &[REFUSED, Good, Good, Good, Wait(29)], out),
        ("it is over", &[REFUSED, Good, Good, Wait(30)], back),
        ("one good scrape", &[REFUSED, Wait(60), Good], out),
        ("the second good scrape", &[REFUSED, Wait(60), Good, Good], back),
        ("not in a row", &[REFUSED, Wait(60), Good, Failed, Good], out),
        ("a late one is not good", &[REFUSED, Wait(60), Good, Byte, TimedOut, Good], out),
        ("refused again", &[REFUSED, Wait(60), Good, REFUSED, Good], out),
        (
            "loading is not good, and does not cut the cooldown short",
            &[REFUSED, Good, Loading, Good, Wait(60)],
            out,
        ),
        ("user requests decide nothing", &[REFUSED, Wait(60), SUCCESS, SUCCESS, E500, E500, E500], out),
    ]);
}

#[test]
fn probing_ends_by_fifteen_quiet_seconds_or_one_fault() {
    let back = "ejected(refused) abort probing(cooldown_over)";
    let start = [REFUSED, Good, Good, Wait(30)];
    let rows: [(&str, &[Ev], &str); 10] = [
        ("14 s", &[Wait(14)], ""),
        ("15 s", &[Wait(15)], " live(proved)"),
        ("one failed scrape", &[Failed], " ejected(probe_failed) abort"),
        ("one late scrape", &[TimedOut], " ejected(probe_failed) abort"),
        ("one late scrape while bytes come", &[Byte, TimedOut], ""),
        ("one upstream failure", &[E500], " ejected(probe_failed)"),
        ("one 503 with nothing good since the last fault", &[BUSY], " ejected(probe_failed)"),
        ("a busy 503 after a success", &[SUCCESS, BUSY], ""),
        ("a refused connection", &[REFUSED], " ejected(refused) abort"),
        ("told to be loading", &[Loading, Good], " starting(restarted) probing(first_scrape)"),
    ];
    for (rule, events, expected) in rows {
        let mut bench = Bench::live(3, PoolSettings::default());
        let events: Vec<Ev> = start.into_iter().chain(events.iter().copied()).collect();
        let got = trace(&mut bench, &events);
        assert_eq!(got, format!("{back}{expected}"), "{rule}: {events:?}");
    }
}

#[test]
fn loading_and_drains() {
    check_live(&[
        ("told to be loading", &[Loading], "starting(restarted)"),
        ("and ready again", &[Loading, Failed, Loading, Good], "starting(restarted) live(first_scrape)"),
        (
            "a drained replica has no other health",
            &[Drain, E500, E500, E500, Failed, Failed, REFUSED, Loading],
            "draining(drained)",
        ),
        ("drained twice", &[Drain, Drain], "draining(drained)"),
        (
            "a drain ends",
            &[Drain, Undrain, Good],
            "draining(drained) starting(undrained) scrape live(first_scrape)",
        ),
        ("only a drain ends", &[Undrain], ""),
        (
            "a drain does not cut a cooldown short",
            &[REFUSED, Drain, Undrain, Good, Good, Wait(29), Good, Wait(1), Good],
            "ejected(refused) abort draining(drained) starting(undrained) scrape probing(first_scrape)",
        ),
    ]);
}

#[test]
fn starting_ends_with_the_first_good_scrape() {
    let nothing: &[Ev] = &[Failed, RefusedScrape, TimedOut, Loading, REFUSED, E500, E500, E500, Failed];
    for (origin, next) in
        [(Origin::Startup, "live(first_scrape)"), (Origin::Discovered, "probing(first_scrape)")]
    {
        let mut bench = Bench::new(PoolSettings::default());
        bench.pool.add(bench.now, spec("r0", origin));
        assert_eq!(words(&bench.take_effects(), true), ["scrape"], "at once");
        assert_eq!(trace(&mut bench, nothing), "", "{origin:?}");
        assert_eq!(bench.health(0), Health::Starting);
        assert_eq!(trace(&mut bench, &[Good]), next);
    }
}
