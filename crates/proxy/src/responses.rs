//! Where stored responses live: a response made by `/v1/responses` is known to the one replica that made it. Used on
//! the Responses endpoints alone.

mod table;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluicegate_core::KeyIndex;
use sluicegate_wire::response_id;

use crate::clock;
use crate::keys::Key;
use crate::pool::{Pool, Replica};
use crate::refusal::Refusal;
use crate::resolve::{Bound, Resolved};
use crate::route::{Route, Routes, Way};
use crate::targets::{Only, Target};
use table::Table;

/// Which replica made which response, for a day, of 100,000 at the most.
#[derive(Debug, Default)]
pub(crate) struct Responses(Mutex<Table<Home>>);

/// Whose response it is, and where.
#[derive(Debug, Clone)]
struct Home {
    key: Option<KeyIndex>,
    route: Arc<Route>,
    target: Arc<Target>,
    replica: Arc<Replica>,
}

impl Responses {
    /// `replica` made the response for `key`. Ids are the engines' and may be chosen by clients: one that is taken stays
    /// with the key that had it first.
    pub(crate) fn made(
        &self,
        id: &str,
        key: Option<&Key>,
        route: &Arc<Route>,
        (target, replica): (&Arc<Target>, &Arc<Replica>),
    ) {
        let key = key.map(|key| key.index);
        let now = clock::now();
        let mut table = self.lock();
        if table.find(now, id).is_none_or(|home| home.key == key) {
            let (target, replica) = (Arc::clone(target), Arc::clone(replica));
            table.insert(now, id, key, Home { key, route: Arc::clone(route), target, replica });
        }
    }

    /// The replica that a request of `route` must go to because it follows on the response `id`.
    ///
    /// # Errors
    /// The response is another key's or another pool's, or is not known and may be at several replicas.
    pub(crate) fn pin(&self, id: &str, key: Option<&Key>, route: &Route) -> Result<Bound, Refusal> {
        let Some(home) = self.lock().find(clock::now(), id).cloned() else {
            return only_replica(route).ok_or(Refusal::UnknownResponse);
        };
        if home.key != key.map(|key| key.index) {
            return Err(Refusal::UnknownResponse);
        }
        home.bound_by(route).ok_or(Refusal::UnknownResponse)
    }

    /// Where a request for the stored response that `path` names goes.
    ///
    /// # Errors
    /// As with [`Self::pin`].
    pub(crate) fn resolve(
        &self,
        routes: &Routes,
        path: &str,
        key: Option<&Key>,
    ) -> Result<Resolved, Refusal> {
        let id = response_id(path).unwrap_or_default();
        let home = self.lock().find(clock::now(), id).cloned();
        let found = match home {
            Some(home) if home.key != key.map(|key| key.index) => None,
            Some(home) => home.bound_by(&home.route).map(|bound| (Arc::clone(&home.route), bound)),
            None => only_home(routes, key),
        };
        let may_use = |(route, _): &(Arc<Route>, Bound)| key.is_none_or(|k| k.may_use(&route.plan.model));
        let (route, bound) = found.filter(may_use).ok_or(Refusal::UnknownResponse)?;
        Ok(Resolved::stored(route, bound))
    }

    fn lock(&self) -> MutexGuard<'_, Table<Home>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Home {
    /// Where the route finds this replica.
    fn bound_by(&self, route: &Route) -> Option<Bound> {
        route.ways().find_map(|(way, targets)| {
            let same_pool =
                |pool: &Arc<Pool>| Arc::ptr_eq(pool, &self.target.pool).then_some(self.replica.id);
            // The same replica may stand in several pools.
            let same_server = |pool: &Arc<Pool>| {
                let same = |replica: &&Arc<Replica>| replica.url == self.replica.url;
                pool.replicas().iter().find(same).map(|replica| replica.id)
            };
            let only = targets.find(same_pool).or_else(|| targets.find(same_server))?;
            let target = targets.index_of(&self.target).unwrap_or(only.target);
            Some(Bound { way, only: Only { target, ..only } })
        })
    }
}

/// The one replica that serves the route's model.
fn only_replica(route: &Route) -> Option<Bound> {
    let only = route.targets.only_replica(route.model).filter(|_| route.fallback.is_none())?;
    Some(Bound { way: Way::Targets, only })
}

/// The one replica that serves every route that the key may use.
fn only_home(routes: &Routes, key: Option<&Key>) -> Option<(Arc<Route>, Bound)> {
    let allowed = |route: &&Arc<Route>| key.is_none_or(|key| key.may_use(&route.plan.model));
    let mut homes = routes.each().filter(allowed).map(|route| (route, only_replica(route)));
    let (first, bound) = homes.next()?;
    let url = |route: &Route, bound: Option<Bound>| {
        let only = bound?.only;
        Some(route.targets.target(only.target)?.pool.replica(only.replica)?.url.clone())
    };
    let there = url(first, bound)?;
    let same = homes.all(|(route, bound)| url(route, bound).as_ref() == Some(&there));
    same.then(|| Some((Arc::clone(first), bound?))).flatten()
}
