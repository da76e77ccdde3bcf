//! Where session keys are looked for unless the route says so itself.

use sluicegate_proxy::plan::SessionSource;

use super::read::Set;

/// In every mode but `policy`.
pub(super) fn of_most_modes() -> Vec<Set<SessionSource>> {
    let chain = [
        header("x-session-id"),
        header("session-id"),
        header("x-kilo-session"),
        header("x-conversation-id"),
        body("prompt_cache_key"),
        body("conversation_id"),
        body("thread_id"),
        SessionSource::Conversation,
    ];
    chain.into_iter().map(Set::unset).collect()
}

/// In mode `policy`. The body's key counts on `/v1/responses` and `/v1/messages` alone.
pub(super) fn of_policy_mode() -> Vec<SessionSource> {
    vec![
        header("session-id"),
        header("x-client-request-id"),
        SessionSource::BodyOfTalks("prompt_cache_key".into()),
    ]
}

fn header(name: &str) -> SessionSource {
    SessionSource::Header(name.into())
}

fn body(name: &str) -> SessionSource {
    SessionSource::Body(name.into())
}
