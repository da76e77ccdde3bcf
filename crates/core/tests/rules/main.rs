//! The rules of health, load and choosing, each as a row or a test of its own.

mod affinity_consistent;
mod bench;
mod field_cases;
mod guarantees;
mod health;
mod health_limits;
mod pick;
mod pins;
mod views;
