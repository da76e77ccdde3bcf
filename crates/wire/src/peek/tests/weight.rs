//! What counts for the size of a prompt: whatever an engine may make one of, under any name.

use super::{chat, read};
use crate::Shape;

#[test]
fn what_else_a_prompt_is_made_of_is_counted_whatever_it_calls_itself() {
    use Shape::{Chat, Completions, Messages, Other, Responses};
    let long = "x".repeat(100);
    let cases = [
        (Chat, r#""tools":[{"function":{"description":"L"}}]"#),
        (Chat, r#""functions":[{"description":"L"}]"#),
        (Chat, r#""documents":[{"body":"L"}]"#),
        (Chat, r#""chat_template":"L""#),
        (Chat, r#""chat_template_kwargs":{"a":"L"}"#),
        (Chat, r#""messages":[{"role":"assistant","tool_calls":[{"function":{"arguments":"L"}}]}]"#),
        (Chat, r#""messages":[{"role":"assistant","reasoning_content":"L"}]"#),
        (Chat, r#""messages":[{"name":"L"}]"#),
        (Chat, r#""messages":[{"content":[{"type":"text","text":"L","image_url":null}]}]"#),
        (Chat, r#""messages":[{"content":[{"type":"text","text":"L","image_url":"a"}]}]"#),
        (Chat, r#""messages":[{"content":[{"type":"image","text":"L"}]}]"#),
        (Chat, r#""messages":[{"content":[{"type":"refusal","refusal":"L"}]}]"#),
        (Chat, r#""messages":[{"content":[{"type":"thinking","thinking":"L"}]}]"#),
        (Chat, r#""messages":[{"content":{"text":"L"}}]"#),
        (Messages, r#""tools":[{"description":"L"}]"#),
        (Messages, r#""messages":[{"content":[{"type":"tool_use","input":{"a":"L"}}]}]"#),
        (Messages, r#""messages":[{"content":[{"type":"document","source":{"type":"text","data":"L"}}]}]"#),
        (Messages, r#""messages":[{"content":[{"type":"document","source":{"content":["L"]}}]}]"#),
        (Responses, r#""tools":[{"description":"L"}]"#),
        (Responses, r#""prompt":{"variables":{"a":"L"}}"#),
        (Responses, r#""input":[{"type":"function_call","arguments":"L"}]"#),
        (Responses, r#""input":[{"type":"reasoning","summary":[{"text":"L"}]}]"#),
        (Responses, r#""input":[{"type":"function_call_output","output":{"text":"L"}}]"#),
        (Completions, r#""prompt":{"prompt_string":"L"}"#),
        (Completions, r#""prompt":[[1,"L",2]]"#),
        (Other, r#""input":[{"content":"L"}]"#),
        (Other, r#""documents":[{"title":"L","image":"a"}]"#),
    ];
    for (shape, members) in cases {
        let body = format!("{{{}}}", members.replace('L', &long));
        let peek = read(&body, shape);
        let counted = peek.text_bytes + peek.other_bytes;
        assert!((100..160).contains(&counted), "{counted} bytes of {members}");
    }
    for uncounted in [
        r#"{"type":"image_url","image_url":{"url":"L"}}"#,
        r#"{"type":"image","source":{"type":"base64","data":"L"}}"#,
        r#"{"type":"input_audio","input_audio":{"data":"L"}}"#,
        r#"{"type":"custom","image_url":"L"}"#,
    ] {
        let body = format!(r#"{{"messages":[{{"content":[{uncounted}]}}]}}"#).replace('L', &long);
        let peek = read(&body, Messages);
        assert!(peek.other_bytes < 10 && peek.media_parts == 1, "{uncounted} {}", peek.other_bytes);
    }
}

#[test]
fn texts_of_pairs_are_read_once_for_each_pair() {
    let cases = [
        (r#"{"query":"1234","documents":["a","b","c"]}"#, 8),
        (r#"{"text_1":["1234","5"],"text_2":["a","b"]}"#, 0),
        (r#"{"text_1":["1","2","3"],"text_2":"abcd"}"#, 8),
        (r#"{"documents":[{"text":"a"},{"text":"b"}],"query":"1234"}"#, 4),
        (r#"{"queries":"12","items":["a","b"]}"#, 2),
        (r#"{"query":"1234"}"#, 0),
        (r#"{"input":["a","b"],"query":"12"}"#, 0),
    ];
    for (body, again) in cases {
        assert_eq!(read(body, Shape::Other).repeated_bytes, again, "{body}");
    }
}

#[test]
fn a_maximum_below_zero_is_none_at_all() {
    for (members, most, endless) in [
        (r#""max_tokens":1,"n_predict":-1"#, Some(1), true),
        (r#""max_tokens":" -1 ""#, None, true),
        (r#""max_tokens":-0.5"#, None, true),
        (r#""max_tokens":0"#, Some(0), false),
        (r#""max_tokens":"many","n_predict":-0"#, None, false),
    ] {
        let peek = chat(&format!("{{{members}}}"));
        assert_eq!((peek.max_tokens, peek.endless), (most, endless), "{members}");
    }
}
