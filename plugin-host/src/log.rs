//! The host's end of a plugin's log: its events and spans become ours.
//!
//! A plugin names its own targets and fields, and ours must be known when the program is compiled, so there is one event
//! and one span per level and what the plugin named goes into fields. The numbers of spans come from a plugin and are
//! only ever looked up.
//!
//! A library that logs without measure must not fill the host's disk or time: texts are cut, and each library has a
//! budget of lines. What was dropped is counted and told of when there is budget again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use memory_core::abi::host::{LogFields, LogSink};
use tracing::level_filters::LevelFilter;
use tracing::{Level, Span};

use self::bucket::{Bucket, Verdict};
use crate::incident::IncidentKind;
use crate::metrics::add;
use crate::panics;
use crate::record::Record;
use crate::text::cut;

mod bucket;

/// Spans a plugin may have open at once; a leak ends here.
const MAX_SPANS: usize = 4096;

/// Bytes of a message, and of all fields of an event together.
const MAX_TEXT: usize = 4096;

/// Bytes of a target, a name or a single field.
const MAX_PART: usize = 1024;

/// Fields of an event or span; the kit's own events have fewer than ten.
const MAX_FIELDS: usize = 32;

/// What the kit's panic hook calls itself.
const PANIC_TARGET: &str = "panic";

/// The log of one library.
#[derive(Debug)]
pub(crate) struct PluginLog {
    record: Arc<Record>,
    bucket: Mutex<Bucket>,
    now: fn() -> Instant,
    spans: Mutex<HashMap<u64, Span>>,
    next: AtomicU64,
}

/// Returns the most verbose level that anybody listens to, as it crosses the border.
pub(crate) fn current_level() -> u32 {
    match LevelFilter::current() {
        LevelFilter::OFF => 0,
        LevelFilter::ERROR => 1,
        LevelFilter::WARN => 2,
        LevelFilter::INFO => 3,
        LevelFilter::DEBUG => 4,
        _ => 5,
    }
}

impl PluginLog {
    pub(crate) fn new(record: Arc<Record>) -> Self {
        Self {
            record,
            bucket: Mutex::default(),
            now: Instant::now,
            spans: Mutex::new(HashMap::new()),
            next: AtomicU64::new(0),
        }
    }

    /// Returns whether one more line may be logged, and tells of those that were not.
    fn admits(&self) -> bool {
        let now = (self.now)();
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = bucket.take(now);
        drop(bucket);
        match verdict {
            Verdict::PassAfter(dropped) => {
                tracing::event!(target: "strata::plugin", Level::WARN, plugin.id = self.record.plugin, plugin.dropped = dropped, "log lines of a plugin were dropped, because there were too many");
            }
            Verdict::DropFirst => {
                self.record.incidents.note(
                    IncidentKind::Flood,
                    "log",
                    "it logs more than 200 lines a second, and the rest is dropped",
                );
            }
            Verdict::Pass | Verdict::Drop => {}
        }
        let passed = matches!(verdict, Verdict::Pass | Verdict::PassAfter(_));
        add(
            if passed {
                &self.record.log_lines
            } else {
                &self.record.log_dropped
            },
            1,
        );
        passed
    }

    fn span(&self, number: u64) -> Option<Span> {
        self.spans
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&number)
            .cloned()
    }
}

/// Returns fields as one text of bounded length.
fn joined(fields: &LogFields) -> String {
    let shown = fields.iter().take(MAX_FIELDS);
    let mut parts: Vec<_> = shown
        .map(|(name, value)| format!("{}={}", cut(name, MAX_PART), cut(value, MAX_PART)))
        .collect();
    if fields.len() > MAX_FIELDS {
        parts.push(format!("… ({} of {} fields)", MAX_FIELDS, fields.len()));
    }
    cut(&parts.join(" "), MAX_TEXT).into_owned()
}

macro_rules! at_level {
    ($level:expr, $make:ident, $($arguments:tt)+) => {
        match $level {
            1 => tracing::$make!(target: "strata::plugin", Level::ERROR, $($arguments)+),
            2 => tracing::$make!(target: "strata::plugin", Level::WARN, $($arguments)+),
            3 => tracing::$make!(target: "strata::plugin", Level::INFO, $($arguments)+),
            4 => tracing::$make!(target: "strata::plugin", Level::DEBUG, $($arguments)+),
            _ => tracing::$make!(target: "strata::plugin", Level::TRACE, $($arguments)+),
        }
    };
}

impl LogSink for PluginLog {
    fn max_level(&self) -> u32 {
        current_level()
    }

    fn event(&self, level: u32, target: &str, message: &str, fields: LogFields) {
        let message = cut(message, MAX_TEXT);
        if target == PANIC_TARGET {
            let place = fields.first().map_or("", |(_, place)| place);
            panics::hear(&format!("panicked at {}: {message}", cut(place, MAX_PART)));
        }
        if !self.admits() {
            return;
        }
        at_level!(
            level,
            event,
            plugin.id = self.record.plugin,
            plugin.target = &*cut(target, MAX_PART),
            plugin.fields = joined(&fields),
            "{message}"
        );
    }

    fn span_new(&self, level: u32, target: &str, name: &str, fields: LogFields) -> u64 {
        if !self.admits() {
            return 0;
        }
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        if spans.len() >= MAX_SPANS {
            return 0;
        }
        let span = at_level!(
            level,
            span,
            "plugin",
            plugin.id = self.record.plugin,
            plugin.target = &*cut(target, MAX_PART),
            plugin.name = &*cut(name, MAX_PART),
            plugin.fields = joined(&fields),
        );
        if span.is_disabled() {
            return 0;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        spans.insert(number, span);
        number
    }

    fn span_enter(&self, span: u64) {
        if let Some(span) = self.span(span) {
            span.with_subscriber(|(id, dispatch)| dispatch.enter(id));
        }
    }

    fn span_exit(&self, span: u64) {
        if let Some(span) = self.span(span) {
            span.with_subscriber(|(id, dispatch)| dispatch.exit(id));
        }
    }

    fn span_close(&self, span: u64) {
        let closed = self
            .spans
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&span);
        drop(closed);
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::{Debug, Write as _};
    use std::time::Duration;

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;
    use crate::incident::Incidents;
    use crate::metrics::get;

    fn log() -> PluginLog {
        let record =
            crate::record::Record::new("probe", Incidents::new(3, Duration::from_mins(10)));
        PluginLog::new(Arc::new(record))
    }

    /// A subscriber that writes down what it is told.
    #[derive(Clone, Default)]
    struct Recorder(Arc<Mutex<Vec<String>>>);

    struct Line(String);

    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            write!(self.0, " {}={value:?}", field.name()).expect("writing to a text succeeds");
        }
    }

    impl Recorder {
        fn note(&self, line: String) {
            self.0.lock().expect("not poisoned").push(line);
        }
    }

    impl Subscriber for Recorder {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() <= Level::INFO
        }

        fn new_span(&self, attributes: &Attributes<'_>) -> Id {
            let mut line = Line("span".to_owned());
            attributes.record(&mut line);
            self.note(line.0);
            Id::from_u64(40)
        }

        fn record(&self, _span: &Id, _values: &Record<'_>) {}

        fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut line = Line(format!("event {}", event.metadata().level()));
            event.record(&mut line);
            self.note(line.0);
        }

        fn enter(&self, span: &Id) {
            self.note(format!("enter {}", span.into_u64()));
        }

        fn exit(&self, span: &Id) {
            self.note(format!("exit {}", span.into_u64()));
        }
    }

    #[test]
    fn what_a_plugin_logs_comes_out_with_its_name() {
        let recorder = Recorder::default();
        tracing::subscriber::with_default(recorder.clone(), || {
            let log = log();
            let fields = || vec![("left".to_owned(), "2".to_owned())];
            let span = log.span_new(3, "probe::turn", "turn", fields());
            log.span_enter(span);
            log.event(2, "probe::turn", "slow", fields());
            log.event(5, "probe::turn", "nobody listens to this", Vec::new());
            log.span_exit(span);
            log.span_close(span);
            log.span_enter(span);
            assert_eq!(log.span_new(4, "probe::turn", "unwanted", Vec::new()), 0);
        });
        assert_eq!(
            *recorder.0.lock().expect("not poisoned"),
            [
                "span plugin.id=\"probe\" plugin.target=\"probe::turn\" plugin.name=\"turn\" plugin.fields=\"left=2\"",
                "enter 40",
                "event WARN message=slow plugin.id=\"probe\" plugin.target=\"probe::turn\" plugin.fields=\"left=2\"",
                "exit 40",
            ]
        );
    }

    #[test]
    fn numbers_that_no_span_has_are_ignored() {
        let recorder = Recorder::default();
        tracing::subscriber::with_default(recorder.clone(), || {
            let log = log();
            for number in [0, 7, u64::MAX] {
                log.span_enter(number);
                log.span_exit(number);
                log.span_close(number);
            }
        });
        assert!(recorder.0.lock().expect("not poisoned").is_empty());
    }

    #[test]
    fn a_flood_is_cut_and_told_of() {
        static STEP: AtomicU64 = AtomicU64::new(0);
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        let recorder = Recorder::default();
        let log = PluginLog {
            now: || {
                *START.get_or_init(Instant::now) + Duration::from_secs(STEP.load(Ordering::Relaxed))
            },
            ..log()
        };
        tracing::subscriber::with_default(recorder.clone(), || {
            for _ in 0..3000 {
                log.event(2, "t", "again", Vec::new());
                let span = log.span_new(2, "t", "s", Vec::new());
                log.span_close(span);
            }
            STEP.store(1, Ordering::Relaxed);
            log.event(2, "t", "after", Vec::new());
        });
        let lines = recorder.0.lock().expect("not poisoned");
        assert_eq!(lines.len(), 1000 + 2);
        assert_eq!(
            lines[1000],
            "event WARN message=log lines of a plugin were dropped, because there were too many plugin.id=\"probe\" plugin.dropped=5000"
        );
        assert!(lines[1001].contains("message=after"), "{}", lines[1001]);
        assert_eq!(
            (get(&log.record.log_lines), get(&log.record.log_dropped)),
            (1001, 5000)
        );
        let incidents = log.record.incidents.list();
        let kinds: Vec<_> = incidents
            .iter()
            .map(|incident| (incident.kind, incident.count))
            .collect();
        assert_eq!(kinds, [(IncidentKind::Flood, 1)]);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let recorder = Recorder::default();
        tracing::subscriber::with_default(recorder.clone(), || {
            let fields = |count: usize| {
                (0..count)
                    .map(|_| ("f".to_owned(), "ä".repeat(4000)))
                    .collect()
            };
            log().event(2, &"t".repeat(5000), &"ä".repeat(4000), fields(1));
            log().event(2, "t", "", fields(99));
        });
        let lines = recorder.0.lock().expect("not poisoned");
        assert!(lines[0].contains("… (4096 of 8000 bytes)"), "{}", lines[0]);
        assert!(lines[0].contains("… (1024 of 5000 bytes)"), "{}", lines[0]);
        assert!(
            lines[0].contains("f=") && lines[0].contains("… (1024 of 8000 bytes)"),
            "{}",
            lines[0]
        );
        assert!(lines.iter().all(|line| line.len() < 12_000));
    }

    #[test]
    fn spans_that_are_never_closed_have_an_end() {
        static STEP: AtomicU64 = AtomicU64::new(0);
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        let recorder = Recorder::default();
        let log = PluginLog {
            now: || {
                *START.get_or_init(Instant::now)
                    + Duration::from_secs(STEP.fetch_add(1, Ordering::Relaxed))
            },
            ..log()
        };
        tracing::subscriber::with_default(recorder, || {
            let open = (0..2 * MAX_SPANS)
                .filter(|_| log.span_new(2, "t", "s", Vec::new()) != 0)
                .count();
            assert_eq!(open, MAX_SPANS);
        });
    }
}
