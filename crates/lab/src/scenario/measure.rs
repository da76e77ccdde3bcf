//! What can be measured of a run. A measure that had nothing to look at says so, and that is no pass.

mod health;
mod load;
mod requests;
mod sticky;

use super::chooser::Chooser;
use super::seen::Seen;
use super::spec::{Allowed, PinKind};
use serde::Deserialize;
use sluicegate_core::Time;

/// Something to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Largest part of the requests of any five minutes that one replica got, in percent.
    LargestShare,
    /// Longest time that the imbalance index was above 3, in seconds.
    #[serde(rename = "imbalance_above_3_for")]
    ImbalanceAbove3For,
    /// Most minus fewest requests of a replica.
    SpreadOf,
    /// The furthest that a replica's number of requests is from even, in percent of even.
    OffEvenPercent,
    /// Requests sent to the replica of the request `beside`, before that one's first byte.
    SentDuringPrefill,
    /// Requests sent to the replica of the request `beside`, before that one's end.
    SentWhileOpen,
    /// Requests sent to an engine with requests that wait while another had none.
    SentPastAFreeOne,
    /// The latest first token, against the best other place, by the gateway's own prediction at each choice; in ms.
    PredictedLateMs,
    /// Requests sent to a replica out of service, the last resort apart.
    SentWhileOut,
    /// How far returns were from the rule (two good scrapes after the cooldown, then 15 s), in ms, all together.
    ReturnOffByMs,
    /// Returns to LIVE.
    Returns,
    /// Requests without an answer: no byte came, and their client had not left.
    FailedBeforeFirstByte,
    /// Longest time from a fault to the ejection of its replica, in seconds.
    EjectedAfterS,
    /// Ejections (`what`: for this reason only).
    Ejections,
    /// Cooldowns that were not 30, 60, 120, 240, 300, 300, ... seconds.
    CooldownsOff,
    /// Pins on a replica that was PROBING, and requests that followed one there.
    PinsOnProbing,
    /// Turns after the first that went where the turn before went, in percent.
    TurnsStayedPercent,
    /// Turns after the first that went where most turns of their session went, in percent.
    TurnsAtHomePercent,
    /// Turns until the gateway moved the session away from load that others sent, the moving one included.
    TurnsUntilMoved,
    /// Turns sent to the replica that others load, from the next scrape (4 s) on.
    TurnsIntoLoad,
    /// Pins of a kind (`pins`) that the table holds at a moment (`at`).
    PinsHeld,
    /// Requests that followed a pin.
    FollowedAPin,
    /// Prompt tokens that came from a cache.
    CachedTokens,
    /// Requests sent for this reason (`what`) at first, in percent.
    SentForPercent,
    /// Replicas that got a request.
    ReplicasUsed,
    /// Requests that ended so (`what`), in percent.
    EndedAsPercent,
    /// Distinct ways in which requests ended.
    WaysToEnd,
    /// Leases, waiting requests and work in engines that were left when all was over.
    LeftBehind,
    /// Requests without exactly one record of their end.
    RecordsMissing,
    /// Most replicas that one request was sent to.
    MostAttempts,
    /// Replicas that all of these requests together were sent to.
    ReplicasHit,
    /// Longest answer, in seconds from arrival to end.
    LongestS,
    /// 99th percentile of the wait from arrival to first byte, against the same traffic alone.
    WaitP99OverAlone,
    /// Most requests of others that were sent while one of these waited for a slot.
    OthersSentFirst,
}

impl Measure {
    /// Its name in files and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.words().0
    }

    /// What it is, in words.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        self.words().1
    }

    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::LargestShare => ("largest_share", "largest 5-minute share of a replica, %"),
            Self::ImbalanceAbove3For => ("imbalance_above_3_for", "longest time with imbalance above 3, s"),
            Self::SpreadOf => ("spread_of", "most minus fewest requests of a replica"),
            Self::OffEvenPercent => ("off_even_percent", "furthest from even, %"),
            Self::SentDuringPrefill => ("sent_during_prefill", "sent beside it while it prefilled"),
            Self::SentWhileOpen => ("sent_while_open", "sent beside it while it ran"),
            Self::SentPastAFreeOne => ("sent_past_a_free_one", "sent to a queue past a free replica"),
            Self::PredictedLateMs => ("predicted_late_ms", "first token predicted later than elsewhere, ms"),
            Self::SentWhileOut => ("sent_while_out", "sent to a replica out of service"),
            Self::ReturnOffByMs => ("return_off_by_ms", "returns off the rule by, ms"),
            Self::Returns => ("returns", "returns to LIVE"),
            Self::FailedBeforeFirstByte => ("failed_before_first_byte", "failed before the first byte"),
            Self::EjectedAfterS => ("ejected_after_s", "ejected after, s"),
            Self::Ejections => ("ejections", "ejections"),
            Self::CooldownsOff => ("cooldowns_off", "cooldowns other than 30, 60, 120, 240, 300 s"),
            Self::PinsOnProbing => ("pins_on_probing", "pins on a PROBING replica"),
            Self::TurnsStayedPercent => {
                ("turns_stayed_percent", "turns that went where the one before went, %")
            }
            Self::TurnsAtHomePercent => ("turns_at_home_percent", "turns at the session's replica, %"),
            Self::TurnsUntilMoved => ("turns_until_moved", "turns until the session moved"),
            Self::TurnsIntoLoad => ("turns_into_load", "turns sent into the load"),
            Self::PinsHeld => ("pins_held", "pins in the table"),
            Self::FollowedAPin => ("followed_a_pin", "requests that followed a pin"),
            Self::CachedTokens => ("cached_tokens", "prompt tokens from a cache"),
            Self::SentForPercent => ("sent_for_percent", "sent for this reason, %"),
            Self::ReplicasUsed => ("replicas_used", "replicas used"),
            Self::EndedAsPercent => ("ended_as_percent", "ended so, %"),
            Self::WaysToEnd => ("ways_to_end", "distinct ends"),
            Self::LeftBehind => ("left_behind", "left behind"),
            Self::RecordsMissing => ("records_missing", "requests without exactly one record"),
            Self::MostAttempts => ("most_attempts", "most attempts of a request"),
            Self::ReplicasHit => ("replicas_hit", "replicas that saw it"),
            Self::LongestS => ("longest_s", "longest answer, s"),
            Self::WaitP99OverAlone => {
                ("wait_p99_over_alone", "p99 wait for the first byte, times the wait alone")
            }
            Self::OthersSentFirst => ("others_sent_first", "most sent of others while one waited"),
        }
    }

    /// The key without which it cannot be taken.
    pub(super) fn missing(self, allowed: &Allowed) -> Option<&'static str> {
        match self {
            Self::SentDuringPrefill | Self::SentWhileOpen if allowed.beside.is_none() => Some("beside"),
            Self::SentForPercent | Self::EndedAsPercent if allowed.what.is_none() => Some("what"),
            Self::PinsHeld if allowed.at.is_none() => Some("at"),
            Self::PinsHeld if allowed.pins.is_none() => Some("pins"),
            _ => None,
        }
    }

    /// The number, where there was something to measure.
    pub(super) fn take(self, seen: &Seen, allowed: &Allowed) -> Option<f64> {
        let of = allowed.of.as_deref();
        let what = allowed.what.as_deref();
        match self {
            Self::LargestShare => load::largest_share(seen, of),
            Self::ImbalanceAbove3For => load::imbalance_above_3_for(seen),
            Self::SpreadOf => load::spread_of(seen, of),
            Self::OffEvenPercent => load::off_even_percent(seen, of),
            Self::SentDuringPrefill => load::sent_beside(seen, of, allowed.beside.as_deref(), false),
            Self::SentWhileOpen => load::sent_beside(seen, of, allowed.beside.as_deref(), true),
            Self::SentPastAFreeOne => load::past_a_free_one(seen, of),
            Self::PredictedLateMs => load::predicted_late_ms(seen, of),
            Self::SentWhileOut => health::sent_while_out(seen, of),
            Self::ReturnOffByMs => health::return_off_by_ms(seen),
            Self::Returns => health::returns(seen),
            Self::FailedBeforeFirstByte => requests::failed_before_first_byte(seen, of),
            Self::EjectedAfterS => health::ejected_after_s(seen),
            Self::Ejections => health::ejections(seen, what),
            Self::CooldownsOff => health::cooldowns_off(seen),
            Self::PinsOnProbing => health::pins_on_probing(seen),
            Self::TurnsStayedPercent => sticky::turns_stayed_percent(seen, of),
            Self::TurnsAtHomePercent => sticky::turns_at_home_percent(seen, of),
            Self::TurnsUntilMoved => sticky::turns_until_moved(seen, of),
            Self::TurnsIntoLoad => sticky::turns_into_load(seen, of),
            Self::PinsHeld => pins_held(seen, allowed.at?.time(), allowed.pins?),
            Self::FollowedAPin => sticky::followed_a_pin(seen, of),
            Self::CachedTokens => sticky::cached_tokens(seen, of),
            Self::SentForPercent => requests::sent_for_percent(seen, of, what),
            Self::ReplicasUsed => load::replicas_used(seen, of),
            Self::EndedAsPercent => requests::ended_as_percent(seen, of, what),
            Self::WaysToEnd => requests::ways_to_end(seen, of),
            Self::LeftBehind => Some(seen.left_behind as f64),
            Self::RecordsMissing => requests::records_missing(seen),
            Self::MostAttempts => requests::most_attempts(seen, of),
            Self::ReplicasHit => requests::replicas_hit(seen, of),
            Self::LongestS => requests::longest_s(seen, of),
            Self::WaitP99OverAlone => requests::wait_p99_over_alone(seen, of),
            Self::OthersSentFirst => requests::others_sent_first(seen, of),
        }
    }
}

impl Allowed {
    /// It is judged in this mode.
    #[must_use]
    pub fn holds_in(&self, mode: Chooser) -> bool {
        self.modes.as_ref().is_none_or(|modes| modes.contains(&mode))
    }
}

fn pins_held(seen: &Seen, at: Time, kind: PinKind) -> Option<f64> {
    let sample = seen.samples.iter().find(|sample| sample.at >= at)?;
    let count = match kind {
        PinKind::Session => sample.session_pins,
        PinKind::Prefix => sample.prefix_pins,
    };
    Some(count as f64)
}

/// The largest of some numbers.
fn most(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    numbers.reduce(f64::max)
}
