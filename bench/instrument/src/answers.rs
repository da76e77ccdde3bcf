//! What the replica says. The load knows it too, and so can tell an answer that arrived as it was from one that a
//! gateway wrote anew, and a whole stream from a broken one.

/// The model that every request asks for.
pub const MODEL: &str = "bench-model";
/// Digits in which an answer tells how many body bytes reached the replica.
const DIGITS: usize = 8;

const EVENT_HEAD: &str = "data: {\"id\":\"chatcmpl-5a0d1f6be3c94a7b8f20\",\"object\":\"chat.completion.chunk\",\
     \"created\":1700000000,\"model\":\"bench-model\",\"system_fingerprint\":\"fp_instrument\",";

/// The texts of one replica.
pub struct Answers {
    /// The JSON answer, head and body, with a place for the number of bytes.
    json: Vec<u8>,
    /// Where in it the digits stand.
    digits: usize,
    pub stream_head: Vec<u8>,
    /// One token as a chunk of its own.
    pub token: Vec<u8>,
    finish: Vec<u8>,
    usage: Vec<u8>,
    done: Vec<u8>,
}

impl Answers {
    pub fn new() -> Self {
        let body = json_body(0);
        let head = format!(
            "HTTP/1.1 200 OK\r\nserver: instrument\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let stream_head = "HTTP/1.1 200 OK\r\nserver: instrument\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
                           transfer-encoding: chunked\r\n\r\n";
        let digits = head.len() + place_of_digits(&body);
        Self {
            json: (head + &body).into_bytes(),
            digits,
            stream_head: stream_head.into(),
            token: chunk(&token_event()),
            finish: chunk(&finish_event()),
            usage: chunk(&usage_event()),
            done: [chunk(DONE), b"0\r\n\r\n".to_vec()].concat(),
        }
    }

    /// The JSON answer to a request whose body had so many bytes.
    pub fn json(&mut self, received: usize) -> &[u8] {
        let digits = format!("{received:0DIGITS$}");
        self.json[self.digits..self.digits + DIGITS].copy_from_slice(&digits.as_bytes()[..DIGITS]);
        &self.json
    }

    /// What follows the last token of a stream.
    pub fn tail(&self, with_usage: bool) -> Vec<u8> {
        let usage: &[u8] = if with_usage { &self.usage } else { &[] };
        [&self.finish, usage, &self.done].concat()
    }
}

/// The body of a whole stream without its coding, as a client is to see it that asked for no usage.
pub fn stream_body(tokens: u32) -> Vec<u8> {
    let mut body = token_event().repeat(tokens as usize);
    body.push_str(&finish_event());
    body.push_str(DONE);
    body.into_bytes()
}

/// The body of the JSON answer to a request whose body had so many bytes.
pub fn json_body(received: usize) -> String {
    format!(
        "{{\"id\":\"chatcmpl-5a0d1f6be3c94a7b8f20\",\"object\":\"chat.completion\",\"created\":1700000000,\
         \"model\":\"{MODEL}\",\"system_fingerprint\":\"{RECEIVED}{received:0DIGITS$}\",\"choices\":[{{\"index\":0,\
         \"message\":{{\"role\":\"assistant\",\"content\":\"The gate is open, and the water runs.\"}},\
         \"logprobs\":null,\"finish_reason\":\"stop\"}}],\"usage\":{{\"prompt_tokens\":25,\"completion_tokens\":10,\
         \"total_tokens\":35,\"prompt_tokens_details\":null}}}}"
    )
}

const RECEIVED: &str = "received_";
const DONE: &str = "data: [DONE]\n\n";

fn place_of_digits(body: &str) -> usize {
    body.find(RECEIVED).map_or(0, |at| at + RECEIVED.len())
}

fn token_event() -> String {
    format!(
        "{EVENT_HEAD}\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" water\",\"reasoning_content\":null}},\
         \"logprobs\":null,\"finish_reason\":null,\"token_ids\":null}}]}}\n\n"
    )
}

fn finish_event() -> String {
    format!(
        "{EVENT_HEAD}\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"\"}},\"logprobs\":null,\
         \"finish_reason\":\"length\",\"stop_reason\":null}}]}}\n\n"
    )
}

fn usage_event() -> String {
    format!(
        "{EVENT_HEAD}\"choices\":[],\"usage\":{{\"prompt_tokens\":25000,\"total_tokens\":25100,\
         \"completion_tokens\":100}}}}\n\n"
    )
}

fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::{Answers, json_body, stream_body};
    use crate::message::answer;

    #[test]
    fn the_load_expects_what_the_replica_says() {
        let mut answers = Answers::new();
        let text = answers.json(102_400).to_vec();
        let (_, head) = answer(&text).expect("readable").expect("whole");
        assert_eq!(&text[head..], json_body(102_400).as_bytes());

        let stream = [answers.stream_head.clone(), answers.token.repeat(3), answers.tail(false)].concat();
        let (mut found, head) = answer(&stream).expect("readable").expect("whole");
        let mut body = Vec::new();
        found.body.read(&stream[head..], |piece| body.extend_from_slice(piece)).expect("it is chunked");
        assert!(found.body.is_done());
        assert_eq!(body, stream_body(3));
    }
}
