//! The rules of health, load, choosing, waiting and limits, each as a row or a test of its own.

mod affinity_consistent;
mod bench;
mod fairness;
mod field_cases;
mod guarantees;
mod health;
mod health_limits;
mod lanes;
mod lanes_bench;
mod limits;
mod limits_clock;
mod limits_kept;
mod membership;
mod only;
mod pick;
mod pins;
mod policy_mode;
mod predictive;
mod queue;
mod queue_bench;
mod queue_ends;
mod queue_full;
mod queue_told;
mod second_opinion;
mod tenancy_cases;
mod views;
