//! Numbers of a scenario that nothing could be run with: it would never end, fill the memory, or mean nothing.

use super::amount::Amount;
use super::spec::Scenario;

/// Most tokens of one prompt, message or answer: above every model's context, and few enough to keep by the block.
const MOST_TOKENS: u32 = 10_000_000;

/// The first number out of its bounds: where and what, and the bounds.
pub(super) fn exceeded(scenario: &Scenario) -> Option<(String, String)> {
    let slots = scenario.fleet.slots.filter(|slots| *slots == 0);
    let slots = slots.map(|_| ("fleet.slots: 0 take no request".into(), "1 or more, or leave it out".into()));
    slots.or_else(|| tokens(scenario)).or_else(|| requests(scenario)).or_else(|| ranges(scenario))
}

fn tokens(scenario: &Scenario) -> Option<(String, String)> {
    let asked = scenario.requests.iter().flat_map(|r| {
        let system = Amount::Fixed(r.system_tokens);
        [
            (&r.name, "prompt_tokens", r.prompt_tokens),
            (&r.name, "output_tokens", r.output_tokens),
            (&r.name, "system_tokens", system),
        ]
    });
    let said = scenario.sessions.iter().flat_map(|s| {
        let system = Amount::Fixed(s.system_tokens);
        [
            (&s.name, "message_tokens", s.message_tokens),
            (&s.name, "output_tokens", s.output_tokens),
            (&s.name, "system_tokens", system),
        ]
    });
    asked.chain(said).find_map(|(name, key, amount)| {
        let wrong = out_of_bounds(amount, MOST_TOKENS)?;
        Some((format!("{name}.{key}: {wrong}"), format!("at most {MOST_TOKENS}, the lesser first")))
    })
}

fn out_of_bounds(amount: Amount, bound: u32) -> Option<String> {
    let (least, most) = match amount {
        Amount::Fixed(number) => (number, number),
        Amount::Between([least, most]) => (least, most),
    };
    if most.max(least) > bound {
        return Some(format!("{} are too many", most.max(least)));
    }
    (least > most).then(|| format!("from {least} to {most} there is nothing"))
}

fn requests(scenario: &Scenario) -> Option<(String, String)> {
    scenario.requests.iter().find_map(|r| {
        let name = &r.name;
        if !(0.0..=1.0).contains(&r.leaving) {
            return Some((format!("{name}.leaving: {} is no part", r.leaving), "0 to 1".into()));
        }
        if let Some(wrong) = out_of_bounds(r.leave_after_ms, u32::MAX) {
            return Some((format!("{name}.leave_after_ms: {wrong}"), "the lesser first".into()));
        }
        let status = r.answered_with.filter(|status| !(400..=599).contains(status))?;
        Some((format!("{name}.answered_with: {status} is no failure's status"), "400 to 599".into()))
    })
}

fn ranges(scenario: &Scenario) -> Option<(String, String)> {
    scenario.allowed.iter().enumerate().find_map(|(index, allowed)| {
        let (least, most) = (allowed.min.unwrap_or(f64::MIN), allowed.max.unwrap_or(f64::MAX));
        let place = format!("allowed number {} ({})", index + 1, allowed.measure.name());
        // Also where one of them is no number.
        let sound = least.is_finite() && most.is_finite() && least <= most;
        (!sound).then(|| {
            (format!("{place} allows nothing, or everything"), "min at most max, both finite".into())
        })
    })
}
