//! Deadlines of connections, one slot each, swept by one ticker per data-plane thread.
//!
//! A connection changes its deadline with every chunk it relays, so that has to cost one store: a timer wheel would
//! pay for each change what is needed only for the rare one that expires. The price is precision: a deadline is
//! noticed within [`SWEEP`] of its time. Slots are reused, so there are never more than connections were open at once.

use std::cell::RefCell;
use std::task::{Context, Waker};
use std::time::Duration;

use sluicegate_core::Time;

/// How often the deadlines of a thread are looked at.
pub(crate) const SWEEP: Duration = Duration::from_millis(25);

thread_local! {
    static SLOTS: RefCell<Slots> = const { RefCell::new(Slots { entries: Vec::new(), free: Vec::new() }) };
}

struct Slots {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

struct Entry {
    deadline: Option<Time>,
    /// Woken every second as well.
    watched: bool,
    waker: Option<Waker>,
}

/// The deadline of one connection's task. Lives and dies on the thread that made it.
#[derive(Debug)]
pub(crate) struct Timer {
    slot: u32,
}

impl Timer {
    /// A timer without a deadline that will wake the task of `cx`.
    pub(crate) fn new(cx: &Context<'_>) -> Self {
        let entry = Entry { deadline: None, watched: false, waker: Some(cx.waker().clone()) };
        SLOTS.with_borrow_mut(|slots| {
            if let Some(slot) = slots.free.pop() {
                slots.entries[slot as usize] = entry;
                return Self { slot };
            }
            let slot = u32::try_from(slots.entries.len()).unwrap_or(u32::MAX);
            slots.entries.push(entry);
            Self { slot }
        })
    }

    /// Sets or clears the deadline.
    pub(crate) fn set(&self, deadline: Option<Time>) {
        SLOTS.with_borrow_mut(|slots| {
            if let Some(entry) = slots.entries.get_mut(self.slot as usize) {
                entry.deadline = deadline;
            }
        });
    }

    /// Has the task woken every second as well, to look at what no event tells.
    pub(crate) fn watch(&self) {
        SLOTS.with_borrow_mut(|slots| {
            if let Some(entry) = slots.entries.get_mut(self.slot as usize) {
                entry.watched = true;
            }
        });
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // On a thread that is ending the slots may be gone already.
        let _ = SLOTS.try_with(|slots| {
            let mut slots = slots.borrow_mut();
            let slot = self.slot;
            if let Some(entry) = slots.entries.get_mut(slot as usize) {
                *entry = Entry { deadline: None, watched: false, waker: None };
                slots.free.push(slot);
            }
        });
    }
}

/// Wakes every task whose deadline has passed, with `second` those that are watched, with `everyone` all (their
/// conditions may have changed).
pub(crate) fn sweep(now: Time, everyone: bool, second: bool) {
    let mut due: Vec<Waker> = Vec::new();
    SLOTS.with_borrow_mut(|slots| {
        for entry in &mut slots.entries {
            if everyone || (second && entry.watched) || entry.deadline.is_some_and(|d| d <= now) {
                due.extend(entry.waker.clone());
            }
        }
    });
    due.into_iter().for_each(Waker::wake);
}
