//! Field cases: reports from the field, each a test named after its id, run against the whole app in process. What a
//! case says in minutes runs here in milliseconds of configuration, and every wait is for an event, never for a time.

mod accounting;
mod balancing;
mod bodies;
mod breaks;
mod canaries;
mod checks;
mod coded_answers;
mod coded_bodies;
mod cuts;
mod early_answers;
mod encoders;
mod first_reads;
mod hangups;
mod headers;
mod heads;
mod health;
mod key_limits;
mod key_turns;
mod keys;
mod leaks;
mod model_names;
mod multipart;
mod parsing;
mod pipelines;
mod queue_turns;
mod retries;
mod scrapes;
mod slots_queue;
mod smuggling;
mod streaming;
mod thousand;
mod timeouts;
mod ttft;
mod unread_bodies;
mod verdicts;
