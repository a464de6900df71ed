//! The host's end of a plugin's log: its events and spans become ours.
//!
//! A plugin names its own targets and fields, and ours must be known when the program is compiled, so there is one event
//! and one span per level and what the plugin named goes into fields. The numbers of spans come from a plugin and are
//! only ever looked up.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use memory_core::abi::host::{LogFields, LogSink};
use tracing::level_filters::LevelFilter;
use tracing::{Level, Span};

/// Spans a plugin may have open at once; a leak ends here.
const MAX_SPANS: usize = 4096;

/// The log of one library.
#[derive(Debug)]
pub(crate) struct PluginLog {
    plugin: String,
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
    pub(crate) fn new(plugin: &str) -> Self {
        Self {
            plugin: plugin.to_owned(),
            spans: Mutex::new(HashMap::new()),
            next: AtomicU64::new(0),
        }
    }

    fn span(&self, number: u64) -> Option<Span> {
        self.spans
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&number)
            .cloned()
    }
}

fn joined(fields: &LogFields) -> String {
    fields
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect::<Vec<_>>()
        .join(" ")
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
        at_level!(
            level,
            event,
            plugin.id = self.plugin,
            plugin.target = target,
            plugin.fields = joined(&fields),
            "{message}"
        );
    }

    fn span_new(&self, level: u32, target: &str, name: &str, fields: LogFields) -> u64 {
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        if spans.len() >= MAX_SPANS {
            return 0;
        }
        let span = at_level!(
            level,
            span,
            "plugin",
            plugin.id = self.plugin,
            plugin.target = target,
            plugin.name = name,
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
    use std::sync::Arc;

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::*;

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
            let log = PluginLog::new("probe");
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
            let log = PluginLog::new("probe");
            for number in [0, 7, u64::MAX] {
                log.span_enter(number);
                log.span_exit(number);
                log.span_close(number);
            }
        });
        assert!(recorder.0.lock().expect("not poisoned").is_empty());
    }
}
