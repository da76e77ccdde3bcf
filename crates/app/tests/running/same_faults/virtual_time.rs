//! The fleet.

use std::time::Duration;

use sluicegate_core::{Health, HealthSettings, PoolSettings, ReplicaId, Session, Time};
use sluicegate_lab::engine::Profile;
use sluicegate_lab::fault::Fault;
use sluicegate_lab::fleet::{Fleet, Gateway, Happening, Job, Limits, Record, Settings};

use super::{COOLDOWN, Consequences, Row, SCRAPE_TIMEOUT, SHORT, When};

const MOMENT: Duration = Duration::from_millis(10);

struct Run {
    fleet: Fleet<Gateway>,
    at_fault: ReplicaId,
    left: Option<&'static str>,
    ends: Vec<(String, u32)>,
}

pub(super) fn consequences(row: &Row) -> Consequences {
    let mut run = Run::start(row);
    if row.when == When::Unanswered || row.when == When::Begun {
        let factor = if row.when == When::Begun { 20.0 } else { 1e6 };
        run.change(Fault::Slow { factor }.into());
        run.submit(row.stream, row.tokens());
        let begun = |happening: &Happening| matches!(happening, Happening::FirstByte { .. });
        if row.when == When::Begun {
            run.until(begun);
        }
        run.pass(MOMENT);
        run.change(row.spec());
    } else {
        run.change(row.spec());
        if row.when == When::Found {
            run.until(|happening| matches!(happening, Happening::Transition(_)));
        }
        for _ in row.ends {
            run.submit(row.stream, row.tokens());
            run.until(|happening| matches!(happening, Happening::Ended(_)));
        }
    }
    // Whatever scrapes have to say.
    run.pass(Duration::from_secs(5));
    Consequences { ends: run.ends, left: run.left }
}

impl Run {
    /// One request of the session has been answered.
    fn start(row: &Row) -> Self {
        let settings = Settings {
            replicas: 2,
            profile: Profile::fast(),
            limits: Limits { total: row.when.total(), ..Limits::default() },
            scrape_timeout: SCRAPE_TIMEOUT,
            ..Settings::default()
        };
        let health = HealthSettings {
            scrape_interval: row.when.scrape_interval(),
            cooldown: COOLDOWN,
            cooldown_max: COOLDOWN,
            ..HealthSettings::default()
        };
        let gateway = Gateway::new(PoolSettings { health, ..PoolSettings::default() }, &settings, None, 1);
        let fleet = Fleet::new(settings, gateway);
        let mut run = Self { fleet, at_fault: ReplicaId(0), left: None, ends: Vec::new() };
        run.pass(Duration::from_secs(1));
        run.submit(true, SHORT);
        let ended = run.until(|happening| matches!(happening, Happening::Ended(_)));
        let Some(Happening::Ended(Record { replica: Some(replica), .. })) = ended else {
            panic!("no replica")
        };
        run.at_fault = replica;
        run.ends.clear();
        run.pass(Duration::from_secs(1));
        run
    }

    fn submit(&mut self, stream: bool, tokens: u32) {
        let session = Some(Session::Explicit(7));
        self.fleet.submit(Job { session, stream, ..Job::unique(self.fleet.now(), 40, tokens) });
    }

    fn change(&mut self, fault: sluicegate_lab::fault::FaultSpec) {
        self.fleet.change(self.fleet.now(), self.at_fault, Some(fault));
    }

    fn pass(&mut self, time: Duration) {
        let until = self.fleet.now() + time;
        while self.next(until).is_some() {}
    }

    fn until(&mut self, is_it: impl Fn(&Happening) -> bool) -> Option<Happening> {
        let until = self.fleet.now() + Duration::from_secs(3600);
        loop {
            let happening = self.next(until)?;
            if is_it(&happening) {
                return Some(happening);
            }
        }
    }

    fn next(&mut self, until: Time) -> Option<Happening> {
        let happening = self.fleet.next(until)?;
        match &happening {
            Happening::Ended(record) => {
                self.ends.push((record.outcome.as_str().to_owned(), record.attempts));
            }
            Happening::Transition(transition)
                if transition.from == Health::Live && transition.replica == self.at_fault =>
            {
                self.left.get_or_insert(transition.reason.as_str());
            }
            _ => {}
        }
        Some(happening)
    }
}
