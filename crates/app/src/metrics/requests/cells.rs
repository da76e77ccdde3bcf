//! Cells that many threads count in, each made when it is first counted in.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Cells by name. There are few names in any one place: comparing finds one sooner than hashing would.
#[derive(Debug)]
pub(super) struct Cells<K, V>(RwLock<BTreeMap<K, Arc<V>>>);

impl<K, V> Default for Cells<K, V> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<K: Ord, V: Default> Cells<K, V> {
    /// Has `count` count in the cell of `key`. The usual case takes a read lock and copies nothing.
    pub(super) fn at<Q>(&self, key: &Q, count: impl FnOnce(&V))
    where
        K: Borrow<Q>,
        Q: Ord + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(cell) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(key) {
            return count(cell);
        }
        let mut cells = self.0.write().unwrap_or_else(PoisonError::into_inner);
        count(cells.entry(key.to_owned()).or_default());
    }
}

impl<K: Clone, V> Cells<K, V> {
    /// Every cell there is, for a reader that takes its time.
    pub(super) fn all(&self) -> Vec<(K, Arc<V>)> {
        let cells = self.0.read().unwrap_or_else(PoisonError::into_inner);
        cells.iter().map(|(key, cell)| (key.clone(), Arc::clone(cell))).collect()
    }
}
