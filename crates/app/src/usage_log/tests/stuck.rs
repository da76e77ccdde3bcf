//! The end of a log whose output takes nothing.

use super::*;

/// A log whose writer hangs in its first write until the sender returned is dropped.
fn stuck_log(on_full: OnFull, patience: Duration) -> (UsageLog, Sender<()>, Shelf) {
    let (begun, writes) = channel();
    let (release, go_on) = channel();
    let shelf = Shelf::default();
    let log = patient_log_to(Gate { begun, go_on, shelf: shelf.clone() }, on_full, patience);
    log.write(&full_line());
    writes.recv().unwrap();
    (log, release, shelf)
}

#[test]
fn a_stuck_output_does_not_hold_up_the_end_and_every_line_left_is_counted() {
    let (log, _release, shelf) = stuck_log(OnFull::Drop, Duration::from_millis(1));
    let per_chunk = FULL.div_ceil(FULL_GOLDEN.len());
    (0..per_chunk * 3 + 7).for_each(|_| log.write(&full_line()));
    log.close();
    let expected = 1 + per_chunk * 3 + 7;
    assert_eq!((shelf.line_count(), log.lost()), (0, u64::try_from(expected).unwrap()));
    log.write(&full_line());
    assert_eq!(log.lost(), u64::try_from(expected).unwrap() + 1);
}

#[test]
fn who_waits_for_room_waits_on_until_the_end_and_then_no_longer_than_the_patience() {
    let (log, release, _shelf) = stuck_log(OnFull::Wait, Duration::from_millis(1));
    let per_chunk = FULL.div_ceil(FULL_GOLDEN.len());
    let filled = per_chunk * WAITING;
    (0..filled).for_each(|_| log.write(&full_line()));
    std::thread::scope(|scope| {
        let blocked = scope.spawn(|| (0..per_chunk).for_each(|_| log.write(&full_line())));
        assert_eq!(log.lost(), 0);
        log.ending();
        blocked.join().unwrap();
    });
    assert_eq!(log.lost(), u64::try_from(per_chunk).unwrap());
    log.close();
    assert_eq!(log.lost(), u64::try_from(1 + filled + per_chunk).unwrap());
    drop(release);
}

#[test]
fn an_end_at_once_does_not_wait_for_the_patience() {
    let (log, _release, _shelf) = stuck_log(OnFull::Drop, Duration::from_secs(3600));
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| log.close());
        // Before the close it has no effect, so it is said until the close has come.
        while !closing.is_finished() {
            log.at_once();
            std::thread::yield_now();
        }
    });
    assert_eq!(log.lost(), 1);
}

#[test]
fn an_end_at_once_before_the_close_loses_nothing_that_the_output_takes() {
    let shelf = Shelf::default();
    let log = log_to(shelf.clone(), OnFull::Drop);
    log.write(&full_line());
    log.ending();
    log.at_once();
    log.close();
    assert_eq!((shelf.line_count(), log.lost()), (1, 0));
}
