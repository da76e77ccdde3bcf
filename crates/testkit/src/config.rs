//! Configurations for tests: the real file format, with the waits of hours scaled down to milliseconds.

use std::collections::BTreeMap;
use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::upstream::Upstream;

/// A value as a configuration file writes it.
#[derive(Clone, Debug)]
pub struct Setting(String);

impl From<&str> for Setting {
    fn from(text: &str) -> Self {
        Self(format!("{text:?}"))
    }
}

impl From<i64> for Setting {
    fn from(number: i64) -> Self {
        Self(number.to_string())
    }
}

impl From<bool> for Setting {
    fn from(flag: bool) -> Self {
        Self(flag.to_string())
    }
}

impl From<&[&str]> for Setting {
    fn from(texts: &[&str]) -> Self {
        Self(format!("{texts:?}"))
    }
}

impl From<f64> for Setting {
    fn from(number: f64) -> Self {
        Self(format!("{number:?}"))
    }
}

type Section = BTreeMap<String, Setting>;

/// A configuration in the making. Pools share their settings, and so do routes.
#[derive(Clone, Debug)]
pub struct Config {
    sections: BTreeMap<String, Section>,
    /// Pool name and base URLs.
    pools: Vec<(String, Vec<String>)>,
    /// Model, pool name and upstream model.
    routes: Vec<(String, String, Option<String>)>,
    /// Model, and everything below it as it stands in the file.
    whole_routes: Vec<(String, String)>,
    /// Name and settings.
    keys: Vec<(String, Section)>,
    /// Path prefix of every replica.
    prefix: String,
}

impl Config {
    /// One pool `pool` of these replicas, one route named after the first one's model, every port a free one, and a
    /// health machine that runs in milliseconds but never because the box is slow: probes may take long.
    ///
    /// # Panics
    /// No replica is given.
    #[must_use]
    pub fn new(replicas: &[&Upstream]) -> Self {
        let model = replicas.first().expect("a replica").model().to_owned();
        let empty = Self {
            sections: BTreeMap::new(),
            pools: Vec::new(),
            routes: Vec::new(),
            whole_routes: Vec::new(),
            keys: Vec::new(),
            prefix: String::new(),
        };
        empty
            .set("listen", "address", "127.0.0.1:0")
            .set("listen", "threads", 2)
            .set("admin", "address", "127.0.0.1:0")
            .set("usage", "output", "off")
            .set("pools.health", "scrape_interval", "20ms")
            .set("pools.health", "scrape_timeout", "20s")
            .set("pools.health", "cooldown", "200ms")
            .set("pools.health", "probing_window", "100ms")
            .pool("pool", replicas)
            .route(&model, "pool")
    }

    /// Sets `key` of `section` (`listen`, `pools`, `pools.health`, `pools.affinity`, `routes`, `routes.timeouts`, ...).
    #[must_use]
    pub fn set(mut self, section: &str, key: &str, value: impl Into<Setting>) -> Self {
        self.sections.entry(section.to_owned()).or_default().insert(key.to_owned(), value.into());
        self
    }

    /// One more pool.
    #[must_use]
    pub fn pool(mut self, name: &str, replicas: &[&Upstream]) -> Self {
        self.pools.push((name.to_owned(), replicas.iter().map(|r| r.url()).collect()));
        self
    }

    /// One more route.
    #[must_use]
    pub fn route(mut self, model: &str, pool: &str) -> Self {
        self.routes.push((model.to_owned(), pool.to_owned(), None));
        self
    }

    /// One more route, whose engine knows the model by another name.
    #[must_use]
    pub fn route_to(mut self, model: &str, pool: &str, upstream_model: &str) -> Self {
        self.routes.push((model.to_owned(), pool.to_owned(), Some(upstream_model.to_owned())));
        self
    }

    /// One more route: everything below its model as it stands in the file, its targets included.
    #[must_use]
    pub fn whole_route(mut self, model: &str, text: &str) -> Self {
        self.whole_routes.push((model.to_owned(), text.to_owned()));
        self
    }

    /// Every replica serves below this path.
    #[must_use]
    pub fn prefix(mut self, path: &str) -> Self {
        path.clone_into(&mut self.prefix);
        self
    }

    /// One more API key, of which clients send [`Config::secret`].
    #[must_use]
    pub fn key(mut self, name: &str) -> Self {
        let hash = Sha256::digest(Self::secret(name));
        let hash = hash.iter().fold(String::from("sha256:"), |hex, byte| hex + &format!("{byte:02x}"));
        self.keys.push((name.to_owned(), Section::from([("hash".to_owned(), hash.as_str().into())])));
        self
    }

    /// Sets `setting` of the last key.
    ///
    /// # Panics
    /// There is no key yet.
    #[must_use]
    pub fn key_set(mut self, setting: &str, value: impl Into<Setting>) -> Self {
        let (_, settings) = self.keys.last_mut().expect("a key");
        settings.insert(setting.to_owned(), value.into());
        self
    }

    /// What the holder of this key sends.
    #[must_use]
    pub fn secret(name: &str) -> String {
        format!("sk-{name}-0f9a7c")
    }

    /// The file.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        for name in ["listen", "admin", "usage"] {
            self.section(&mut out, name, &format!("[{name}]"));
        }
        for (name, replicas) in &self.pools {
            let replicas: Vec<_> = replicas.iter().map(|url| format!("{url}{}", self.prefix)).collect();
            let _ = writeln!(out, "[[pools]]\nname = {name:?}\nreplicas = {replicas:?}");
            self.settings(&mut out, "pools");
            for part in ["pools.health", "pools.affinity", "pools.headers"] {
                self.section(&mut out, part, &format!("[{part}]"));
            }
        }
        for (model, pool, upstream_model) in &self.routes {
            let _ = writeln!(out, "[[routes]]\nmodel = {model:?}");
            self.settings(&mut out, "routes");
            let _ = writeln!(out, "[[routes.targets]]\npool = {pool:?}");
            if let Some(name) = upstream_model {
                let _ = writeln!(out, "upstream_model = {name:?}");
            }
            for part in ["routes.timeouts", "routes.retry", "routes.queue", "routes.price"] {
                self.section(&mut out, part, &format!("[{part}]"));
            }
        }
        for (model, text) in &self.whole_routes {
            let _ = writeln!(out, "[[routes]]\nmodel = {model:?}\n{text}");
        }
        for (name, settings) in &self.keys {
            let _ = writeln!(out, "[[keys]]\nname = {name:?}");
            write_settings(&mut out, settings);
        }
        out
    }

    fn section(&self, out: &mut String, name: &str, header: &str) {
        if self.sections.contains_key(name) {
            let _ = writeln!(out, "{header}");
            self.settings(out, name);
        }
    }

    fn settings(&self, out: &mut String, name: &str) {
        if let Some(section) = self.sections.get(name) {
            write_settings(out, section);
        }
    }
}

fn write_settings(out: &mut String, settings: &Section) {
    for (key, Setting(value)) in settings {
        let _ = writeln!(out, "{key} = {value}");
    }
}
