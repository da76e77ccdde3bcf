//! A gateway for unit tests: one replica, that does not exist or that the test makes.

use std::sync::Arc;
use std::time::Duration;

use crate::decide::{Answers, Decisions, Depth, Question};
use crate::plan::{ListenPlan, Plan, PoolPlan, RouteMode, RoutePlan, RoutesPlan, TargetPlan, Timeouts};
use crate::{Gateway, Running, UsageLine, UsageSink};

struct NoSink;

impl UsageSink for NoSink {
    fn write(&self, _: &UsageLine<'_>) {}
}

struct NoDecisions;

impl Decisions for NoDecisions {
    fn ask(&self, _: Question, _: Depth) -> Answers {
        tokio::sync::oneshot::channel().1
    }
}

pub(crate) fn gateway() -> Running {
    start(pool_plan(), RoutesPlan::AskEngines(Box::new(route_plan())))
}

/// One route, `m1`, to a provider at `url`.
pub(crate) fn hosted(url: &str) -> Running {
    let replicas = vec![url.parse().expect("a valid URL")];
    let route = RoutePlan { model: "m1".into(), ..route_plan() };
    start(PoolPlan { replicas, hosted: true, ..pool_plan() }, RoutesPlan::Fixed(vec![route]))
}

fn start(pool: PoolPlan, routes: RoutesPlan) -> Running {
    let limit = Duration::from_secs(5);
    let plan = Plan {
        gateway_id: "test".into(),
        listen: ListenPlan {
            address: ([127, 0, 0, 1], 0).into(),
            threads: 1,
            max_connections: 10,
            max_body: 1 << 20,
            head_timeout: limit,
            body_idle_timeout: limit,
            write_idle_timeout: limit,
            drain_timeout: limit,
            serve_half_closed: false,
        },
        pools: vec![pool],
        routes,
        keys: crate::plan::KeysPlan::Open,
    };
    Gateway::start(plan, Arc::new(NoSink), Arc::new(NoDecisions)).expect("a loopback port can be bound")
}

fn route_plan() -> RoutePlan {
    let limit = Duration::from_secs(5);
    RoutePlan {
        model: "".into(),
        aliases: Vec::new(),
        mode: RouteMode::Adaptive,
        targets: vec![TargetPlan { pool: 0, upstream_model: None, description: None }],
        fallback: None,
        decision: None,
        session_keys: Vec::new(),
        prefix_chars: 4096,
        timeouts: Timeouts { connect: limit, stream_silence: limit, total: limit },
        retry: sluicegate_core::RetrySettings::default(),
        hold_limit: 65536,
        queue: sluicegate_core::QueueLimits::default(),
        price: sluicegate_core::Price::default(),
        poison_ttl: limit,
        poison_entries: 10,
    }
}

pub(crate) fn pool_plan() -> PoolPlan {
    let limit = Duration::from_secs(5);
    PoolPlan {
        name: "pool".into(),
        replicas: vec!["http://127.0.0.1:9".parse().expect("a valid URL")],
        settings: sluicegate_core::PoolSettings::default(),
        scrape_timeout: limit,
        usage_injection: true,
        credentials: Vec::new(),
        headers: Vec::new(),
        slots: crate::plan::Slots::Unknown,
        hosted: false,
    }
}
