//! The tokens of a decision service: one is used until it is refused, and rests then.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::header::HeaderValue;
use sluicegate_proxy::plan::Credential;
use tokio::time::Instant;

/// How long one rests that was refused.
const REST: Duration = Duration::from_secs(30);

/// Several tokens for the same service.
pub(super) struct Tokens {
    /// As the field `authorization` has them.
    fields: Vec<HeaderValue>,
    state: Mutex<State>,
}

struct State {
    /// The one in use.
    current: usize,
    resting_until: Vec<Option<Instant>>,
}

impl Tokens {
    /// In the order of the configuration, which takes nothing for a token that cannot be in a field.
    pub(super) fn new(tokens: &[Credential]) -> Self {
        let field = |token: &Credential| {
            let mut field = HeaderValue::from_str(&format!("Bearer {}", token.0)).ok()?;
            field.set_sensitive(true);
            Some(field)
        };
        let fields: Vec<HeaderValue> = tokens.iter().filter_map(field).collect();
        let state = State { current: 0, resting_until: vec![None; fields.len()] };
        Self { fields, state: Mutex::new(state) }
    }

    /// There is none: the service is asked without.
    pub(super) const fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The one in use, or the next that does not rest, with its number. None: all rest.
    pub(super) fn choose(&self, now: Instant) -> Option<(usize, HeaderValue)> {
        let mut state = self.lock();
        let rests =
            |at: usize| state.resting_until.get(at).copied().flatten().is_some_and(|until| until > now);
        let count = self.fields.len();
        let chosen = (0..count).map(|step| (state.current + step) % count).find(|at| !rests(*at))?;
        state.current = chosen;
        self.fields.get(chosen).map(|field| (chosen, field.clone()))
    }

    /// The service refused this one.
    pub(super) fn refused(&self, number: usize, now: Instant) {
        if let Some(until) = self.lock().resting_until.get_mut(number) {
            *until = Some(now + REST);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> Tokens {
        Tokens::new(&["a", "b", "c"].map(|token| Credential(token.into())))
    }

    #[test]
    fn one_is_used_until_it_is_refused_and_rests_for_thirty_seconds() {
        let (tokens, start) = (tokens(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let chosen = |seconds| tokens.choose(at(seconds)).map(|(number, _)| number);
        assert_eq!((chosen(0), chosen(1)), (Some(0), Some(0)));
        tokens.refused(0, at(1));
        assert_eq!((chosen(1), chosen(40)), (Some(1), Some(1)), "the next stays in use");
        tokens.refused(1, at(40));
        tokens.refused(2, at(41));
        assert_eq!(chosen(41), Some(0));
        tokens.refused(0, at(41));
        assert_eq!((chosen(69), chosen(70)), (None, Some(1)), "all rest, until the first is through");
    }

    #[test]
    fn they_are_sent_as_bearer_tokens_and_never_shown() {
        let (_, field) = tokens().choose(Instant::now()).expect("a token");
        assert_eq!(field, "Bearer a");
        assert_eq!(format!("{field:?}"), "Sensitive");
    }
}
