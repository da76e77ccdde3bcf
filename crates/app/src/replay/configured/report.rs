//! What became of the requests under one configuration: in all, by route and by pool.

use serde::Serialize;
use sluicegate_lab::fleet::Record;
use sluicegate_lab::replay::Run;

use super::super::Facts;
use super::super::figures::{Change, Figures, was_refused};
use super::super::runs::PolicyRun;
use super::{PoolShape, RouteShape, Shape, Unplayed};

/// One configuration's run.
pub(crate) struct Report {
    pub(super) shape: Shape,
    /// All requests; of the run the records of those that are timed.
    pub(super) total: PolicyRun,
    /// By route, without those that no request was for.
    pub(super) routes: Vec<(usize, Figures)>,
    /// By pool: the requests that ended there, and those that its routes turned away.
    pub(super) pools: Vec<Figures>,
}

impl Report {
    /// Sums a run up.
    pub(crate) fn of(shape: Shape, (name, mut run): (String, Run)) -> Self {
        let route =
            |record: &Record| shape.route_of.get(record.job.0 as usize).map_or(0, |route| *route as usize);
        let pool = |record: &Record| {
            let replica = record.replica?.0 as usize;
            shape.pools.iter().position(|pool| pool.replicas.contains(&replica))
        };
        let is_timed = |pool: usize| shape.pools.get(pool).is_none_or(|pool| pool.timed);
        let timed = |record: &Record| pool(record).is_none_or(is_timed);
        let mut by_route: Vec<Vec<&Record>> = vec![Vec::new(); shape.routes.len()];
        let mut by_pool: Vec<Vec<&Record>> = vec![Vec::new(); shape.pools.len()];
        for record in &run.records {
            by_route.get_mut(route(record)).into_iter().for_each(|part| part.push(record));
            pool(record)
                .and_then(|pool| by_pool.get_mut(pool))
                .into_iter()
                .for_each(|part| part.push(record));
        }
        let figures = |part: &[&Record], counts: &dyn Fn(usize) -> bool| {
            let imbalance = run.worst_imbalance(|pool| is_timed(pool) && counts(pool));
            Figures::of(part.iter().copied(), &imbalance, timed)
        };
        let route_figures = |(at, part): (usize, &Vec<&Record>)| {
            let RouteShape { pools, .. } = shape.routes.get(at)?;
            (!part.is_empty()).then(|| (at, figures(part, &|pool| pools.contains(&pool))))
        };
        let routes: Vec<_> = by_route.iter().enumerate().filter_map(route_figures).collect();
        let turned_away = |pool: usize| {
            let leads = |(at, _): &&(usize, Figures)| {
                shape.routes.get(*at).is_some_and(|route| route.pools.contains(&pool))
            };
            routes.iter().filter(leads).map(|(_, figures)| figures.refused).sum()
        };
        let pool_figures = |(at, part): (usize, &Vec<&Record>)| {
            let sent: Vec<&Record> = part.iter().copied().filter(|record| !was_refused(record)).collect();
            let mut figures = figures(&sent, &|pool| pool == at);
            figures.refused = turned_away(at);
            figures
        };
        let pools = by_pool.iter().enumerate().map(pool_figures).collect();
        let all: Vec<&Record> = run.records.iter().collect();
        let whole = figures(&all, &|_| true);
        let keep: Vec<bool> = run.records.iter().map(timed).collect();
        let mut keep = keep.into_iter();
        run.records.retain(|_| keep.next().unwrap_or(true));
        Self { total: PolicyRun { name, figures: whole, run }, routes, pools, shape }
    }

    /// Every part with its name, the whole first.
    pub(super) fn parts<'s>(&'s self) -> Vec<(String, &'s Figures)> {
        let Shape { routes, pools, .. } = &self.shape;
        let route = |(at, own): &'s (usize, Figures)| Some((format!("route {}", routes.get(*at)?.name), own));
        let routes = self.routes.iter().filter_map(route);
        let pools = pools.iter().zip(&self.pools).map(|(pool, own)| (format!("pool {}", pool.name), own));
        std::iter::once(("total".to_owned(), &self.total.figures)).chain(routes).chain(pools).collect()
    }

    /// The part of that name.
    pub(super) fn part(&self, name: &str) -> Option<&Figures> {
        self.parts().into_iter().find(|(own, _)| own == name).map(|(_, figures)| figures)
    }

    /// What was played, on what, in words.
    pub(super) fn line(&self) -> String {
        let Shape { name, pools, route_of, unplayed, .. } = &self.shape;
        let pool = |pool: &PoolShape| match pool.timed {
            true => format!("{} on {} of {}", pool.name, pool.replicas.len(), pool.profile),
            false => format!("{}, a provider's API", pool.name),
        };
        let pools = pools.iter().map(pool).collect::<Vec<_>>().join("; ");
        let (played, left) = (route_of.len(), unplayed.count());
        let left = if left > 0 { format!("; not played: {unplayed}") } else { String::new() };
        format!("{name}: {played} of {} requests; pools: {pools}{left}", played + unplayed.count())
    }
}

#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    facts: &'a Facts,
    configurations: Vec<One<'a>>,
}

#[derive(Serialize)]
struct One<'a> {
    config: &'a str,
    replicas: usize,
    played: usize,
    unplayed: usize,
    not_played: &'a Unplayed,
    assumed: &'a [String],
    total: Row<'a>,
    routes: Vec<Row<'a>>,
    pools: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<&'a str>,
    #[serde(flatten)]
    pool: Option<Pool<'a>>,
    #[serde(flatten)]
    figures: &'a Figures,
    /// Against the first configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    change_percent: Option<Change<'a>>,
}

#[derive(Serialize)]
struct Pool<'a> {
    pool: &'a str,
    replicas: usize,
    profile: Option<&'a str>,
}

/// The reports as one JSON object, indented, and a line feed.
pub(crate) fn json(facts: &Facts, reports: &[Report]) -> anyhow::Result<String> {
    let configurations =
        reports.iter().enumerate().map(|(at, own)| one(own, reports.first().filter(|_| at > 0))).collect();
    Ok(serde_json::to_string_pretty(&Whole { facts, configurations })? + "\n")
}

fn one<'a>(report: &'a Report, first: Option<&'a Report>) -> One<'a> {
    let Shape { name, pools, routes, route_of, unplayed, assumed } = &report.shape;
    let row = |part: &str, figures: &'a Figures| Row {
        route: None,
        pool: None,
        figures,
        change_percent: first.and_then(|first| Some(Change(first.part(part)?, figures))),
    };
    let route = |(at, figures): &'a (usize, Figures)| {
        let name = &*routes.get(*at)?.name;
        Some(Row { route: Some(name), ..row(&format!("route {name}"), figures) })
    };
    let pool = |(shape, figures): (&'a PoolShape, &'a Figures)| {
        let profile = shape.timed.then_some(shape.profile.as_str());
        let pool = Pool { pool: &shape.name, replicas: shape.replicas.len(), profile };
        Row { pool: Some(pool), ..row(&format!("pool {}", shape.name), figures) }
    };
    One {
        config: name,
        replicas: pools.iter().map(|pool| pool.replicas.len()).sum(),
        played: route_of.len(),
        unplayed: unplayed.count(),
        not_played: unplayed,
        assumed,
        total: row("total", &report.total.figures),
        routes: report.routes.iter().filter_map(route).collect(),
        pools: pools.iter().zip(&report.pools).map(pool).collect(),
    }
}
