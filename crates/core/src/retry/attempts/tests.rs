use super::AttemptFailure as F;
use super::*;
use Next::{GiveUp, Retry};

fn settings() -> RetrySettings {
    RetrySettings::default()
}

fn run(failures: &[F], settings: &RetrySettings) -> (Attempts, Vec<(Verdict, Next)>) {
    let (mut attempts, mut budget) = (Attempts::new(), RetryBudget::new(settings));
    let mut answers = Vec::new();
    for (index, failure) in failures.iter().enumerate() {
        attempts.started(ReplicaId(index as u32));
        answers.push(attempts.failed(Time::ZERO, *failure, settings, &mut budget));
    }
    (attempts, answers)
}

#[test]
fn each_kind_of_first_failure_has_its_verdict_and_its_next_step() {
    let rows = [
        (F::Refused, Verdict::Refused, Retry),
        (F::Gone, Verdict::Refused, Retry),
        (F::ConnectFailed, Verdict::ConnectFailed, Retry),
        (F::ReplicaDied { sent_whole: false }, Verdict::Neutral, Retry),
        (F::ReplicaDied { sent_whole: true }, Verdict::Neutral, Retry),
        (F::Timeout, Verdict::SilentTimeout, GiveUp),
        (F::Reset { sent_whole: false }, Verdict::Failure(Failure::Reset), Retry),
        (F::Reset { sent_whole: true }, Verdict::Deferred, Retry),
        (F::Status(500), Verdict::Deferred, Retry),
        (F::Status(502), Verdict::Deferred, Retry),
        (F::Status(503), Verdict::Busy, Retry),
        (F::Status(504), Verdict::Deferred, Retry),
        (F::Status(501), Verdict::Neutral, GiveUp),
        (F::Status(429), Verdict::Neutral, Retry),
        (F::Status(400), Verdict::Neutral, GiveUp),
        (F::Status(404), Verdict::Neutral, GiveUp),
        (F::Status(422), Verdict::Neutral, GiveUp),
        (F::ErrorEvent(500), Verdict::Deferred, Retry),
        (F::ErrorEvent(503), Verdict::Busy, Retry),
        (F::ErrorEvent(529), Verdict::Neutral, Retry),
        (F::ErrorEvent(429), Verdict::Neutral, Retry),
        (F::ErrorEvent(400), Verdict::Neutral, GiveUp),
    ];
    for (failure, verdict, next) in rows {
        let (_, answers) = run(&[failure], &settings());
        assert_eq!(answers, [(verdict, next)], "{failure:?}");
    }
}

#[test]
fn the_settings_decide_which_statuses_are_retried_but_never_a_4xx() {
    let own = |status| Verdict::Failure(Failure::Status(status));
    let rows = [
        (vec![500], F::Status(500), Verdict::Deferred, Retry),
        (vec![500], F::Status(502), own(502), GiveUp),
        (vec![500], F::Status(503), Verdict::Busy, GiveUp),
        (vec![529], F::Status(529), Verdict::Neutral, Retry),
        (vec![408, 404], F::Status(404), Verdict::Neutral, GiveUp),
        (vec![], F::Reset { sent_whole: true }, Verdict::Deferred, Retry),
    ];
    for (on_status, failure, verdict, next) in rows {
        let settings = RetrySettings { on_status, ..settings() };
        assert_eq!(run(&[failure], &settings).1, [(verdict, next)], "{failure:?} with {settings:?}");
    }
    let no_spill = RetrySettings { spill_429: false, ..settings() };
    assert_eq!(run(&[F::Status(429)], &no_spill).1, [(Verdict::Neutral, GiveUp)]);
}

#[test]
fn a_request_gets_so_many_attempts_and_one_spill_of_a_429() {
    let rows: [(&[F], u32, &[Next]); 6] = [
        (&[F::Refused, F::Refused, F::Refused], 3, &[Retry, Retry, GiveUp]),
        (&[F::ReplicaDied { sent_whole: true }, F::ConnectFailed], 2, &[Retry, GiveUp]),
        (&[F::Status(503), F::Status(503), F::Status(503)], 3, &[Retry, Retry, GiveUp]),
        (&[F::Status(429), F::Status(429)], 3, &[Retry, GiveUp]),
        (&[F::Status(429), F::Status(503), F::Status(429)], 4, &[Retry, Retry, GiveUp]),
        (&[F::Status(503)], 1, &[GiveUp]),
    ];
    for (failures, attempts, nexts) in rows {
        let settings = RetrySettings { attempts, ..settings() };
        let (made, answers) = run(failures, &settings);
        assert_eq!(answers.iter().map(|a| a.1).collect::<Vec<_>>(), nexts, "{failures:?}");
        assert_eq!((made.count() as usize, made.tried().len()), (failures.len(), failures.len()));
    }
}

#[test]
fn only_retries_of_a_dead_replica_are_free_of_budget() {
    let settings = RetrySettings { budget_per_second: 0, ..settings() };
    let rows = [
        (F::Refused, Retry),
        (F::ConnectFailed, Retry),
        (F::Gone, Retry),
        (F::ReplicaDied { sent_whole: false }, Retry),
        (F::ReplicaDied { sent_whole: true }, Retry),
        (F::Reset { sent_whole: false }, GiveUp),
        (F::Reset { sent_whole: true }, GiveUp),
        (F::Status(500), GiveUp),
        (F::Status(503), GiveUp),
        (F::Status(429), GiveUp),
        (F::ErrorEvent(500), GiveUp),
    ];
    for (failure, next) in rows {
        assert_eq!(run(&[failure], &settings).1[0].1, next, "{failure:?}");
    }
}

/// What is booked against whom when a request that began with a doubtful failure is answered well by one more replica,
/// and whether the request is the suspect.
#[test]
fn a_doubtful_failure_is_booked_when_the_replay_has_spoken() {
    let crash = F::Reset { sent_whole: true };
    let died = F::ReplicaDied { sent_whole: true };
    let first = Some((ReplicaId(0), Verdict::Failure(Failure::Reset)));
    let rows: [(&[F], Option<Booking>, bool); 23] = [
        (&[crash], first, false),
        (&[crash, F::Status(503)], first, false),
        (&[crash, F::Status(429)], first, false),
        (&[crash, F::Refused], first, false),
        (&[crash, F::Reset { sent_whole: false }], first, false),
        (&[crash, F::ReplicaDied { sent_whole: false }], first, false),
        // Out of service already: there is nothing more to hold against it.
        (&[F::Gone], None, false),
        (&[died], None, false),
        (&[died, F::Status(503)], None, false),
        (&[died, F::ReplicaDied { sent_whole: false }], None, false),
        (&[crash, F::Timeout], None, false),
        (&[crash, F::Status(400)], None, false),
        (&[crash, crash], None, true),
        (&[crash, F::Status(500)], None, true),
        (&[crash, F::ErrorEvent(502)], None, true),
        (&[crash, died], None, true),
        (&[died, crash], None, true),
        (&[died, died], None, true),
        (&[died, F::Gone], None, true),
        (&[F::Gone, died], None, true),
        (&[crash, F::Status(503), crash], None, true),
        (&[F::Gone, F::Gone], None, true),
        (&[F::Gone, F::Status(503), crash], None, true),
    ];
    for (failures, booking, suspect) in rows {
        let (mut attempts, answers) = run(failures, &settings());
        assert_eq!(attempts.is_suspect(), suspect, "{failures:?}");
        if suspect {
            assert_eq!(answers.last(), Some(&(Verdict::Deferred, GiveUp)), "{failures:?}");
        }
        attempts.started(ReplicaId(9));
        assert_eq!((attempts.answered(), attempts.answered()), (booking, None), "{failures:?}: booked once");
    }
}

#[test]
fn a_failure_that_could_have_been_replayed_is_not_booked_where_it_was_not() {
    let (crash, busy, own) =
        (F::Reset { sent_whole: true }, F::Status(503), Verdict::Failure(Failure::Reset));
    // attempts, share, floor -> the verdict of the release, after which nothing is booked
    let rows = [
        (3, 0.2, 0, Verdict::Deferred),
        (2, 0.2, 10, Verdict::Deferred),
        (1, 0.2, 10, own),
        (3, 0.0, 0, own),
    ];
    for (attempts, budget, budget_per_second, verdict) in rows {
        let settings = RetrySettings { attempts, budget, budget_per_second, ..settings() };
        assert_eq!(run(&[crash], &settings).1[0].0, verdict, "{settings:?}");
    }
    let few = RetrySettings { attempts: 2, ..settings() };
    assert_eq!(run(&[busy, crash], &few).1[1], (Verdict::Deferred, GiveUp), "the last attempt");
}
