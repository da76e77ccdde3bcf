//! Goldens: what vLLM 0.32 sent.

use super::*;

fn reply() -> Reply {
    let names = ["91cd0b5c237dd8a8".to_owned(), "86dec14183d9894a".to_owned()];
    Reply::new(names, 1_795_989_628, "tiny", 3, Echo::default(), None)
}

const USAGE: Usage = Usage { prompt: 11, completion: 3, cached: 0, created: 0 };

const WHOLE: &str = r#"{"id":"resp_91cd0b5c237dd8a8","created_at":1795989628,"incomplete_details":{"reason":"max_output_tokens"},"instructions":null,"metadata":null,"model":"tiny","object":"response","output":[{"id":"msg_86dec14183d9894a","content":[{"annotations":[],"text":" qu boolean'''","type":"output_text","logprobs":null}],"role":"assistant","status":"completed","type":"message","phase":null}],"parallel_tool_calls":true,"temperature":1.0,"tool_choice":"none","tools":[],"top_p":1.0,"background":false,"max_output_tokens":3,"max_tool_calls":null,"previous_response_id":null,"prompt":null,"reasoning":null,"service_tier":"auto","status":"incomplete","text":null,"top_logprobs":null,"truncation":"disabled","usage":{"input_tokens":11,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0,"input_tokens_per_turn":[],"cached_tokens_per_turn":[]},"output_tokens":3,"output_tokens_details":{"reasoning_tokens":0,"tool_output_tokens":0,"output_tokens_per_turn":[],"tool_output_tokens_per_turn":[]},"total_tokens":14},"user":null,"presence_penalty":0.0,"frequency_penalty":0.0,"kv_transfer_params":null,"ec_transfer_params":null,"input_messages":null,"output_messages":null}"#;

#[test]
fn a_whole_response_is_that_of_the_real_engine_byte_for_byte() {
    assert_eq!(reply().whole(" qu boolean'''", Finish::Length, USAGE), WHOLE);
}

#[test]
fn the_events_of_a_response_are_those_of_the_real_engine_byte_for_byte() {
    let begun = r#"{"id":"resp_91cd0b5c237dd8a8","created_at":1795989628,"incomplete_details":null,"instructions":null,"metadata":null,"model":"tiny","object":"response","output":[],"parallel_tool_calls":true,"temperature":1.0,"tool_choice":"none","tools":[],"top_p":1.0,"background":false,"max_output_tokens":3,"max_tool_calls":null,"previous_response_id":null,"prompt":null,"reasoning":null,"service_tier":"auto","status":"in_progress","text":null,"top_logprobs":null,"truncation":"disabled","usage":null,"user":null,"presence_penalty":0.0,"frequency_penalty":0.0,"kv_transfer_params":null,"ec_transfer_params":null,"input_messages":null,"output_messages":null}"#;
    let expected = format!(
        r#"event: response.created
data: {{"response":{begun},"sequence_number":0,"type":"response.created"}}

event: response.in_progress
data: {{"response":{begun},"sequence_number":1,"type":"response.in_progress"}}

event: response.output_item.added
data: {{"item":{{"id":"msg_86dec14183d9894a","content":[],"role":"assistant","status":"in_progress","type":"message","phase":null}},"output_index":0,"sequence_number":2,"type":"response.output_item.added"}}

event: response.content_part.added
data: {{"content_index":0,"item_id":"msg_86dec14183d9894a","output_index":0,"part":{{"annotations":[],"text":"","type":"output_text","logprobs":[]}},"sequence_number":3,"type":"response.content_part.added"}}

event: response.output_text.delta
data: {{"content_index":0,"delta":" qu","item_id":"msg_86dec14183d9894a","logprobs":[],"output_index":0,"sequence_number":4,"type":"response.output_text.delta"}}

event: response.output_text.delta
data: {{"content_index":0,"delta":" boolean'''","item_id":"msg_86dec14183d9894a","logprobs":[],"output_index":0,"sequence_number":5,"type":"response.output_text.delta"}}

event: response.output_text.done
data: {{"content_index":0,"item_id":"msg_86dec14183d9894a","logprobs":[],"output_index":0,"sequence_number":6,"text":" qu boolean'''","type":"response.output_text.done"}}

event: response.content_part.done
data: {{"content_index":0,"item_id":"msg_86dec14183d9894a","output_index":0,"part":{{"annotations":[],"text":" qu boolean'''","type":"output_text","logprobs":null}},"sequence_number":7,"type":"response.content_part.done"}}

event: response.output_item.done
data: {{"item":{{"id":"msg_86dec14183d9894a","content":[{{"annotations":[],"text":" qu boolean'''","type":"output_text","logprobs":null}}],"role":"assistant","status":"completed","type":"message","phase":null}},"output_index":0,"sequence_number":8,"type":"response.output_item.done"}}

event: response.completed
data: {{"response":{WHOLE},"sequence_number":9,"type":"response.completed"}}

"#
    );
    let mut reply = reply();
    let mut events = reply.opening();
    events += &reply.token(" qu", None, Usage { completion: 1, ..USAGE });
    events += &reply.token(" boolean'''", Some(Finish::Length), USAGE);
    assert_eq!(events, expected);
}
