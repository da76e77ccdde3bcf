use super::{Endpoint, PathError, endpoint, model_id, response_id};
use crate::{Dialect, Shape, StreamKind};

fn found(method: &str, target: &str) -> Option<(Endpoint, String)> {
    endpoint(method, target).ok().map(|(found, path)| (found, path.into_owned()))
}

#[test]
fn the_table_is_routed() {
    use Endpoint as E;
    let table = [
        ("POST", "/v1/chat/completions", E::ChatCompletions),
        ("POST", "/v1/completions", E::Completions),
        ("POST", "/v1/responses", E::Responses),
        ("POST", "/v1/embeddings", E::Embeddings),
        ("POST", "/v1/rerank", E::Rerank),
        ("POST", "/rerank", E::Rerank),
        ("POST", "/v1/score", E::Score),
        ("POST", "/score", E::Score),
        ("POST", "/v1/pooling", E::Pooling),
        ("POST", "/pooling", E::Pooling),
        ("POST", "/v1/classify", E::Classify),
        ("POST", "/classify", E::Classify),
        ("POST", "/v1/messages", E::Messages),
        ("POST", "/v1/messages/count_tokens", E::CountTokens),
        ("POST", "/v1/audio/transcriptions", E::Audio),
        ("POST", "/v1/images/generations", E::Images),
        ("POST", "/tokenize", E::Tokenize),
        ("POST", "/detokenize", E::Detokenize),
        ("GET", "/v1/responses/resp_1-a.b", E::ResponseById),
        ("DELETE", "/v1/responses/resp_1", E::ResponseById),
        ("POST", "/v1/responses/resp_1/cancel", E::ResponseCancel),
        ("GET", "/v1/models", E::Models),
        ("GET", "/v1/models/m", E::Model),
        ("GET", "/v1/models/org/m:tag", E::Model),
    ];
    for (method, path, expected) in table {
        assert_eq!(found(method, path), Some((expected, path.to_owned())), "{method} {path}");
        let query = format!("{path}?a=/../b%2f//");
        assert_eq!(found(method, &query), Some((expected, query.clone())), "{method} {query}");
        assert!(matches!(endpoint(method, &query), Ok((_, std::borrow::Cow::Borrowed(_)))), "{query}");
        assert!(expected.label().starts_with('/'));
    }
}

#[test]
fn a_path_is_made_normal_before_it_is_looked_up() {
    let chat = "/v1/chat/completions";
    let spelled = [
        "//v1/chat/completions",
        "/v1//chat///completions",
        "/./v1/chat/./completions",
        "/v1/x/../chat/completions",
        "/v1/%63hat/completions",
        "/%76%31/chat/completions",
        "/v1/x/%2e%2E/chat/completions",
        "/v1/chat/%2E/completions",
    ];
    for path in spelled {
        assert_eq!(found("POST", path), Some((Endpoint::ChatCompletions, chat.to_owned())), "{path}");
        let query = format!("{path}?q=%2f");
        assert_eq!(found("POST", &query), Some((Endpoint::ChatCompletions, format!("{chat}?q=%2f"))));
    }
    assert_eq!(
        found("POST", "/v1/audio/%74ranslations"),
        Some((Endpoint::Audio, "/v1/audio/translations".into()))
    );
}

#[test]
fn a_68_nothing_outside_the_table_is_routed() {
    let administrative = [
        "/invocations",
        "/sleep",
        "/wake_up",
        "/is_sleeping",
        "/collective_rpc",
        "/reset_prefix_cache",
        "/reset_mm_cache",
        "/metrics",
        "/load",
        "/server_info",
        "/v1/load_lora_adapter",
        "/v1/unload_lora_adapter",
        "/health",
        "/ping",
        "/version",
        "/props",
        "/slots",
        "/docs",
        "/openapi.json",
        "/flush_cache",
        "/update_weights_from_disk",
        "/kv_event_sources",
        "/start_profile",
        "/stop_profile",
        "/scale_elastic_ep",
        "/pause",
        "/resume",
        "/",
    ];
    let hidden = [
        "",
        "v1/models",
        "/v1",
        "/v1/",
        "/v1/models/",
        "/v1/chat/completions/",
        "/v1/chat/completions/.",
        "/V1/chat/completions",
        "/v1/chat/completions;x",
        "/v1/chat/completions/..",
        "/v1/chat%2fcompletions",
        "/v1/chat%5Ccompletions",
        "/v1\\chat\\completions",
        "/v1/chat/completions%00",
        "/v1/chat/completions\0",
        "/v1/chat/completions%0a",
        "/v1/chat/completions%20",
        "/v1/chat/completions%",
        "/v1/chat/completions%2",
        "/v1/chat/completions%zz",
        "/v1/chat/completions%252e",
        "/../v1/chat/completions",
        "/v1/../../v1/chat/completions",
        "/v1/%63%68at",
        "/v1/audio/",
        "/v1/audio",
        "/v1/audio/../metrics",
        "/v1/audio/x/y",
        "/v1/audio/..",
        "/v1/audio/.x",
        "/v1/audio/%2e%2e/%2e%2e/metrics",
        "/v1/audio/..%2f..%2fmetrics",
        "/v1/audio/%252e%252e",
        "/v1/audio/a%20b",
        "/v1/responses/",
        "/v1/responses/../../sleep",
        "/v1/responses/a/input_items",
        "/v1/responses//cancel/x",
        "/v1/responses/a%2fcancel",
        "/v1/responses/a;b",
        "/v1/models/..%2f../../../metrics",
        "/metrics?/v1/models",
        "http://x/v1/models",
    ];
    for path in administrative.into_iter().chain(hidden) {
        for method in ["GET", "POST", "DELETE", "PUT"] {
            assert_eq!(endpoint(method, path), Err(PathError::Unknown), "{method} {path:?}");
        }
    }
}

#[test]
fn another_method_is_told_what_is_served() {
    let cases = [
        ("GET", "/v1/chat/completions", "POST"),
        ("HEAD", "/v1/models", "GET"),
        ("POST", "/v1/models", "GET"),
        ("OPTIONS", "/v1/models/m", "GET"),
        ("POST", "/v1/responses/r", "GET, DELETE"),
        ("GET", "/v1/responses/r/cancel", "POST"),
        ("post", "/tokenize", "POST"),
        ("", "/tokenize", "POST"),
    ];
    for (method, path, allow) in cases {
        assert_eq!(endpoint(method, path), Err(PathError::Method { allow }), "{method} {path}");
    }
}

#[test]
fn a_model_id_may_hold_slashes_and_codes() {
    let cases = [
        ("/v1/models/m", Some("m")),
        ("/v1/models/org/m?x=y", Some("org/m")),
        ("/v1/models/org%2Fm", Some("org/m")),
        ("/v1/models/%c3%a9", Some("\u{e9}")),
        ("/v1/models/a%2525", Some("a%25")),
        ("/v1/models/%ff", None),
        ("/v1/models/%2", None),
        ("/v1/models/", None),
        ("/v1/models", None),
    ];
    for (path, id) in cases {
        assert_eq!(model_id(path).as_deref(), id, "{path}");
    }
    assert_eq!(found("GET", "/v1/models/org%2fm"), Some((Endpoint::Model, "/v1/models/org%2fm".into())));
}

#[test]
fn each_endpoint_has_its_shape_and_dialect() {
    let cases = [
        (Endpoint::ChatCompletions, Shape::Chat, Dialect::OpenAi, StreamKind::Chat),
        (Endpoint::Completions, Shape::Completions, Dialect::OpenAi, StreamKind::Completions),
        (Endpoint::Responses, Shape::Responses, Dialect::OpenAi, StreamKind::Responses),
        (Endpoint::ResponseById, Shape::Other, Dialect::OpenAi, StreamKind::Responses),
        (Endpoint::Messages, Shape::Messages, Dialect::Anthropic, StreamKind::Messages),
        (Endpoint::CountTokens, Shape::Messages, Dialect::Anthropic, StreamKind::Other),
        (Endpoint::Embeddings, Shape::Other, Dialect::OpenAi, StreamKind::Other),
    ];
    for (found, shape, dialect, kind) in cases {
        assert_eq!(
            (found.shape(), found.dialect(), found.stream_kind()),
            (shape, dialect, kind),
            "{found:?}"
        );
    }
}

#[test]
fn a_stored_responses_id_is_taken_from_its_path() {
    for (path, id) in [
        ("/v1/responses/resp_1", Some("resp_1")),
        ("/v1/responses/resp_1?stream=true&x=/cancel", Some("resp_1")),
        ("/v1/responses/resp_1/cancel", Some("resp_1")),
        ("/v1/responses", None),
    ] {
        assert_eq!(response_id(path), id, "{path}");
    }
}
