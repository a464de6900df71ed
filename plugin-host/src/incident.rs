//! What went wrong in a build, and when that is enough to stop using it.
//!
//! A panic was contained and may have been one bad input, so it takes several within a window. A call that does not give
//! its thread back cannot be contained: one is enough, for as long as the thread is away. When it comes back after all,
//! the machine may only have been busy, and it counts as a panic does.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::limits::MOST_PANICS;
use crate::text::cut;

/// Incidents remembered of a build; the oldest gives way.
const REMEMBERED: usize = 32;

/// Bytes of an incident's message.
const MESSAGE: usize = 512;

/// What kind of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IncidentKind {
    /// It panicked, and the panic was contained.
    Panic,
    /// It did not give its thread back.
    Blocked,
    /// It did not answer within its time, and was cancelled.
    Deadline,
    /// It answered with something that cannot be used.
    Nonsense,
    /// It logged more than anybody can read, and a part was dropped.
    Flood,
}

impl fmt::Display for IncidentKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Panic => "panic",
            Self::Blocked => "blocked",
            Self::Deadline => "deadline",
            Self::Nonsense => "nonsense",
            Self::Flood => "flood",
        })
    }
}

/// Something that went wrong in a build, once or again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// What kind of thing.
    pub kind: IncidentKind,
    /// The method it happened in.
    pub method: &'static str,
    /// What happened, in one line.
    pub message: String,
    /// When it happened last.
    pub at: Instant,
    /// How often it happened.
    pub count: u64,
}

/// Why a build is not used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum Quarantine {
    /// It panicked too often in a short time. It may serve again when that time has passed.
    Panicked {
        /// How often.
        times: usize,
        /// Where it did last.
        method: &'static str,
    },
    /// It panicked or held a thread for too long, together too often in a short time. It may serve again when that time
    /// has passed.
    Faulty {
        /// How often.
        times: usize,
        /// Where it did last.
        method: &'static str,
    },
    /// A call has not given its thread back. It may serve again when it has.
    Blocked {
        /// Where it did.
        method: &'static str,
    },
}

impl fmt::Display for Quarantine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked { times, .. } => write!(formatter, "panicked {times} times"),
            Self::Faulty { times, .. } => {
                write!(formatter, "panicked or blocked its thread {times} times")
            }
            Self::Blocked { method } => write!(formatter, "blocked its thread in `{method}`"),
        }
    }
}

/// The incidents of one build.
#[derive(Debug)]
pub(crate) struct Incidents {
    panics_allowed: usize,
    window: Duration,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    list: VecDeque<Incident>,
    /// Panics, and threads that came back late.
    faults: VecDeque<Fault>,
    /// Threads that are away, by where they are.
    away: Vec<&'static str>,
}

#[derive(Clone, Copy, Debug)]
struct Fault {
    at: Instant,
    method: &'static str,
    panicked: bool,
}

impl Kept {
    fn count(&mut self, fault: Fault) {
        self.faults.push_back(fault);
        if self.faults.len() > MOST_PANICS {
            self.faults.pop_front();
        }
    }

    fn note(
        &mut self,
        at: Instant,
        kind: IncidentKind,
        method: &'static str,
        message: String,
    ) -> u64 {
        if kind == IncidentKind::Panic {
            self.count(Fault {
                at,
                method,
                panicked: true,
            });
        }
        let same = self.list.iter().position(|known| {
            known.kind == kind && known.method == method && known.message == message
        });
        let mut incident = same
            .and_then(|index| self.list.remove(index))
            .unwrap_or(Incident {
                kind,
                method,
                message,
                at,
                count: 0,
            });
        incident.at = at;
        incident.count += 1;
        let count = incident.count;
        self.list.push_back(incident);
        if self.list.len() > REMEMBERED {
            self.list.pop_front();
        }
        count
    }
}

/// A thread that was lost, for the case that it comes back.
#[derive(Debug)]
pub(crate) struct Loss(&'static str);

impl Loss {
    pub(crate) const fn method(&self) -> &'static str {
        self.0
    }
}

impl Incidents {
    /// Returns an empty record of a build that is quarantined by so many panics within a window.
    pub(crate) const fn new(panics_allowed: usize, window: Duration) -> Self {
        Self {
            panics_allowed,
            window,
            kept: Mutex::new(Kept {
                list: VecDeque::new(),
                faults: VecDeque::new(),
                away: Vec::new(),
            }),
        }
    }

    /// Notes an incident and returns how often it has happened.
    pub(crate) fn note(&self, kind: IncidentKind, method: &'static str, message: &str) -> u64 {
        let message = cut(message, MESSAGE).replace(['\n', '\r'], " ");
        let mut kept = self.lock();
        // Taken while nobody else can note one, and never the same twice: who has seen one has seen all before it.
        let last = kept
            .list
            .back()
            .map(|last| last.at + Duration::from_nanos(1));
        let now = Instant::now();
        kept.note(
            last.map_or(now, |last| last.max(now)),
            kind,
            method,
            message,
        )
    }

    /// Notes a thread that does not come back.
    pub(crate) fn lost(&self, method: &'static str, message: &str) -> Loss {
        self.note(IncidentKind::Blocked, method, message);
        self.lock().away.push(method);
        Loss(method)
    }

    /// Notes that a lost thread came back.
    pub(crate) fn came_back(&self, loss: Loss) {
        self.came_back_at(Instant::now(), loss);
    }

    fn came_back_at(&self, at: Instant, Loss(method): Loss) {
        let mut kept = self.lock();
        if let Some(index) = kept.away.iter().position(|away| *away == method) {
            kept.away.swap_remove(index);
        }
        kept.count(Fault {
            at,
            method,
            panicked: false,
        });
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the incidents, the latest last.
    pub(crate) fn list(&self) -> Vec<Incident> {
        self.lock().list.iter().cloned().collect()
    }

    /// Returns why the build must not be used, if so.
    pub(crate) fn quarantine(&self) -> Option<Quarantine> {
        self.quarantine_at(Instant::now())
    }

    fn quarantine_at(&self, now: Instant) -> Option<Quarantine> {
        let kept = self.lock();
        if let Some(method) = kept.away.first() {
            return Some(Quarantine::Blocked { method });
        }
        let recent = |fault: &&Fault| now.duration_since(fault.at) < self.window;
        let recent: Vec<&Fault> = kept.faults.iter().filter(recent).collect();
        let (times, method) = (recent.len(), kept.faults.back()?.method);
        let reason = if recent.iter().all(|fault| fault.panicked) {
            Quarantine::Panicked { times, method }
        } else {
            Quarantine::Faulty { times, method }
        };
        (times >= self.panics_allowed).then_some(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_mins(10);

    fn note_at(
        incidents: &Incidents,
        at: Instant,
        kind: IncidentKind,
        method: &'static str,
        message: &str,
    ) {
        incidents.lock().note(at, kind, method, message.to_owned());
    }

    #[test]
    fn panics_count_within_a_window_and_expire() {
        let incidents = Incidents::new(3, WINDOW);
        let start = Instant::now();
        let later = |minutes: u64| start + Duration::from_mins(minutes);
        for (minute, method) in [(0, "create"), (5, "health"), (9, "begin_turn")] {
            assert_eq!(incidents.quarantine_at(later(minute)), None);
            note_at(
                &incidents,
                later(minute),
                IncidentKind::Panic,
                method,
                "boom",
            );
        }
        let quarantine = incidents.quarantine_at(later(9)).expect("three are enough");
        assert_eq!(
            quarantine,
            Quarantine::Panicked {
                times: 3,
                method: "begin_turn"
            }
        );
        assert_eq!(
            incidents.quarantine_at(later(10)),
            None,
            "the first is too old by now"
        );
        note_at(&incidents, later(11), IncidentKind::Panic, "commit", "boom");
        assert!(incidents.quarantine_at(later(11)).is_some());
    }

    #[test]
    fn a_blocked_thread_is_enough_until_it_comes_back() {
        let incidents = Incidents::new(3, WINDOW);
        let start = Instant::now();
        note_at(
            &incidents,
            start,
            IncidentKind::Deadline,
            "begin_turn",
            "no answer within 50 ms",
        );
        assert_eq!(incidents.quarantine_at(start), None);
        let first = incidents.lost("begin_turn", "");
        let second = incidents.lost("health", "");
        let quarantine = incidents
            .quarantine_at(start + 99 * WINDOW)
            .expect("for as long as it takes");
        assert_eq!(quarantine.to_string(), "blocked its thread in `begin_turn`");
        incidents.came_back_at(start, first);
        let quarantine = incidents.quarantine_at(start).expect("one is away");
        assert_eq!(quarantine.to_string(), "blocked its thread in `health`");
        incidents.came_back_at(start, second);
        assert_eq!(incidents.quarantine_at(start), None);

        note_at(&incidents, start, IncidentKind::Panic, "commit", "boom");
        let quarantine = incidents.quarantine_at(start).expect("three faults");
        assert_eq!(
            quarantine.to_string(),
            "panicked or blocked its thread 3 times"
        );
        assert_eq!(incidents.quarantine_at(start + WINDOW), None);
    }

    #[test]
    fn no_two_incidents_have_the_same_time() {
        let incidents = Incidents::new(3, WINDOW);
        for number in 0..REMEMBERED {
            incidents.note(IncidentKind::Nonsense, "begin_turn", &number.to_string());
        }
        let times: Vec<Instant> = incidents.list().iter().map(|known| known.at).collect();
        assert!(times.is_sorted_by(|earlier, later| earlier < later));
    }

    #[test]
    fn the_list_is_bounded_and_counts_what_repeats() {
        let incidents = Incidents::new(3, WINDOW);
        for number in 0..100 {
            incidents.note(IncidentKind::Nonsense, "begin_turn", &format!("{number}"));
            incidents.note(IncidentKind::Deadline, "stats", "no\nanswer");
        }
        let list = incidents.list();
        assert_eq!(list.len(), REMEMBERED);
        let newest = list.last().expect("there are some");
        assert_eq!((newest.message.as_str(), newest.count), ("no answer", 100));
        incidents.note(IncidentKind::Panic, "health", &"ä".repeat(MESSAGE));
        let list = incidents.list();
        let long = &list.last().expect("there are some").message;
        assert!(long.ends_with("… (512 of 1024 bytes)"), "{long}");
    }
}
