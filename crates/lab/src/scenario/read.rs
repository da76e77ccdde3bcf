//! Reads a scenario and says what is wrong with it: place, what, hint.

use super::bounds;
use super::chooser::Chooser;
use super::spec::{Scenario, Stage, Target};
use crate::engine::Profile;

/// A file that is no scenario: where, what, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {what}\n  hint: {hint}")]
pub struct Unreadable {
    file: String,
    what: String,
    hint: String,
}

/// Most requests and conversations of one scenario.
const MOST: u32 = 200_000;
const MOST_REPLICAS: usize = 1_024;

/// A scenario from its text; `file` is what errors call it.
///
/// # Errors
/// [`Unreadable`], with the line where the text itself is wrong, with the table and key where it contradicts itself.
pub fn read(file: &str, text: &str) -> Result<Scenario, Unreadable> {
    let scenario: Scenario = toml::from_str(text).map_err(|error| Unreadable {
        file: file.into(),
        what: error.to_string().trim_end().to_owned(),
        hint: "the keys of a scenario are listed in docs/verify.md".into(),
    })?;
    match contradiction(&scenario) {
        None => Ok(scenario),
        Some((what, hint)) => Err(Unreadable { file: file.into(), what, hint }),
    }
}

/// The first thing that cannot be, and what to do about it.
fn contradiction(scenario: &Scenario) -> Option<(String, String)> {
    let fleet = &scenario.fleet;
    let problem = |what: String, hint: &str| Some((what, hint.to_owned()));
    if Profile::named(&fleet.profile).is_none() {
        let known = Profile::NAMES.join(", ");
        return Some((
            format!("fleet.profile: no profile is named {:?}", fleet.profile),
            format!("one of {known}"),
        ));
    }
    if fleet.replicas > MOST_REPLICAS {
        return problem(format!("fleet.replicas: {} is too many", fleet.replicas), "at most 1024");
    }
    if scenario.stage == Stage::Virtual && scenario.allowed.is_empty() {
        return problem("no [[allowed]]: it could not fail".into(), "name a measure and its min or max");
    }
    let bounded = bounds::exceeded(scenario);
    bounded
        .or_else(|| names(scenario))
        .or_else(|| traffic(scenario))
        .or_else(|| replicas(scenario))
        .or_else(|| ranges(scenario))
}

/// Two groups of one name could not be told apart; a name that is asked for must be there.
fn names(scenario: &Scenario) -> Option<(String, String)> {
    let names: Vec<&str> = scenario.names().collect();
    let doubled = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name));
    if let Some((_, name)) = doubled {
        return Some((format!("two kinds of traffic are named {name:?}"), "give each its own name".into()));
    }
    let of = scenario.allowed.iter().flat_map(|a| [&a.of, &a.beside]).flatten();
    let targets =
        scenario.faults.iter().map(|f| &f.replica).chain(scenario.elsewhere.iter().map(|e| &e.replica));
    let last_of = targets.filter_map(|target| match target {
        Target::LastOf(name) => Some(name),
        Target::Number(_) => None,
    });
    let unknown = of.chain(last_of).chain(&scenario.alone).find(|name| !names.contains(&name.as_str()))?;
    Some((format!("no traffic is named {unknown:?}"), format!("there are: {}", names.join(", "))))
}

fn traffic(scenario: &Scenario) -> Option<(String, String)> {
    let counts = scenario.requests.iter().map(|r| r.count).chain(scenario.sessions.iter().map(|s| s.count));
    if counts.fold(0_u32, u32::saturating_add) > MOST {
        return Some(("too much traffic".into(), format!("at most {MOST} requests and sessions together")));
    }
    None
}

fn replicas(scenario: &Scenario) -> Option<(String, String)> {
    let targets =
        scenario.faults.iter().map(|f| &f.replica).chain(scenario.elsewhere.iter().map(|e| &e.replica));
    for target in targets {
        match target {
            Target::Number(n) if *n as usize >= scenario.fleet.replicas => {
                let what = format!("there is no replica {n}");
                return Some((
                    what,
                    format!("they are counted from 0, and there are {}", scenario.fleet.replicas),
                ));
            }
            Target::Number(_) | Target::LastOf(_) => {}
        }
    }
    let endless =
        |f: &&super::spec::Planned| f.again_after.is_some() && (f.lasting.is_none() || f.until.is_none());
    let fault = scenario.faults.iter().find(endless)?;
    Some((format!("a fault at {:?} comes again", fault.at.0), "give it `lasting` and `until`, too".into()))
}

fn ranges(scenario: &Scenario) -> Option<(String, String)> {
    for (index, allowed) in scenario.allowed.iter().enumerate() {
        let name = allowed.measure.name();
        let place = format!("allowed number {} ({name})", index + 1);
        if allowed.min.is_none() && allowed.max.is_none() {
            return Some((format!("{place} allows everything"), "give it min or max".into()));
        }
        if let Some(missing) = allowed.measure.missing(allowed) {
            return Some((format!("{place} needs `{missing}`"), allowed.measure.meaning().into()));
        }
    }
    let judged = |mode: &Chooser| scenario.allowed.iter().any(|allowed| allowed.holds_in(*mode));
    let unjudged = scenario.modes.iter().find(|mode| !judged(mode))?;
    let free = scenario.stage == Stage::Virtual;
    free.then(|| {
        (format!("nothing is allowed or forbidden in mode {}", unjudged.name()), "add a range for it".into())
    })
}
