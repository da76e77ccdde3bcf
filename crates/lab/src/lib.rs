//! A model of one vLLM replica, what drives it, and the traffic to drive it with.
//!
//! - [`engine`]: the model itself. Pure: time is an argument, requests go in, tokens come out, there is one next deadline.
//! - [`fleet`]: many of them in virtual time behind one decider: the core that serves real traffic, or a rival.
//! - [`replay`]: recorded traffic through a fleet, under one policy after the other.
//! - [`rivals`]: other ways to choose a replica, from their published descriptions.
//! - [`fault`]: what can be wrong with a replica, in either time.
//! - [`sim`]: the model in real time behind HTTP, answering like vLLM 0.32.
//! - [`decision`]: a decision service over HTTP, with a judge that follows a rule of thumb.
//! - [`load`]: measured load over HTTP, for `sluicegate load`; [`client`] and [`latency`] are what it and the demo's traffic ask
//!   and count with.
//! - [`calibrate`]: the model fitted to a real engine.
//! - [`traffic`]: closed-loop chat traffic over HTTP, for the demo.
//! - [`rng`]: the seeded random source of all.
//!
//! # What is modelled
//! Continuous batching: every step carries one token of each decoding request and, with what is left of
//! `max_num_batched_tokens`, chunks of prompts in order of arrival. The duration of a step follows from its content (a
//! constant, prefill by size and position, decode by batch size and context). KV blocks with reference counts, a prefix
//! cache over chained block hashes with least-recently-used eviction, admission only of prompts that fit whole,
//! pre-emption of the youngest request when blocks run out and its recomputation, `max_num_seqs`, the bound on requests
//! in flight, aborts.
//!
//! # What is not
//! Sampling (answers are words drawn from a hash of the prompt, their length is known at submission), priorities,
//! speculative decoding, LoRA, structured output, several engines behind one port (data parallelism), KV transfer between
//! replicas, sleep mode, the host's own cost of tokenising and of HTTP. A step that is under way is never cut short: an
//! abort frees its blocks at once, its share of the step's duration stays. The fake tokenizer makes about one token of
//! four bytes, without a vocabulary. Behind HTTP: `n` is 1, no tool calls, no log probabilities, no background responses.

pub mod calibrate;
pub mod client;
pub mod decision;
pub mod engine;
pub mod fault;
pub mod fleet;
pub mod latency;
pub mod load;
pub mod replay;
pub mod rivals;
pub mod rng;
pub mod scenario;
pub mod sim;
pub mod traffic;
