//! The whole gateway in front of simulated replicas: in this process, and as the built binary.

mod back_to_back;
mod decision;
mod demo;
mod discovery_tls;
mod explain;
mod hosted_tls;
mod http;
mod in_process;
mod outputs;
mod process;
mod same_faults;
mod serve;
mod sim;
mod slots_untold;
mod tenancy_views;
mod verify;
mod virtual_time;
