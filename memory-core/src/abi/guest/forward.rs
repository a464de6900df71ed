//! Sends the library's log to the host.
//!
//! A subscriber of the host cannot be handed across, so the library gets a small one of its own that turns events and
//! spans into plain text and numbers. The host's most verbose level is kept here, so that an event nobody wants never
//! crosses the border.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use abi_stable::std_types::{RString, RVec};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, Subscriber};
use tracing::{Event, Level, Metadata};

use crate::abi::services::{LibraryHost_TO, Shared};
use crate::abi::types::LogField;

static HOST: OnceLock<LibraryHost_TO<'static, Shared>> = OnceLock::new();
static MAX_LEVEL: AtomicU32 = AtomicU32::new(0);

/// Connects this library's log to a host. Only the first host counts: a library is prepared once.
pub(super) fn connect(host: LibraryHost_TO<'static, Shared>) {
    MAX_LEVEL.store(host.max_level(), Ordering::Relaxed);
    if HOST.set(host).is_ok() {
        // It fails only when the library installed a subscriber itself, and then that one stays.
        let _ = tracing::subscriber::set_global_default(Forwarder::default());
    }
}

/// Takes a new most verbose level.
pub(super) fn set_max_level(level: u32) {
    MAX_LEVEL.store(level, Ordering::Relaxed);
    tracing::callsite::rebuild_interest_cache();
}

/// Logs a panic, without going through this library's own log machinery, which may be what panicked.
pub(super) fn log_panic(message: &str, place: &str) {
    if let Some(host) = HOST.get() {
        let field = LogField {
            name: "place".into(),
            value: place.into(),
        };
        host.event(
            number(Level::ERROR),
            "panic".into(),
            message.into(),
            RVec::from(vec![field]),
        );
    }
}

const fn number(level: Level) -> u32 {
    match level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

/// The library's subscriber.
#[derive(Debug, Default)]
struct Forwarder {
    /// Handles of a span beyond the first; the host counts only whole spans.
    extra_handles: Mutex<HashMap<u64, u64>>,
}

impl Subscriber for Forwarder {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        number(*metadata.level()) <= MAX_LEVEL.load(Ordering::Relaxed)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match MAX_LEVEL.load(Ordering::Relaxed) {
            0 => LevelFilter::OFF,
            1 => LevelFilter::ERROR,
            2 => LevelFilter::WARN,
            3 => LevelFilter::INFO,
            4 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        })
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut texts = Texts::default();
        attributes.record(&mut texts);
        let metadata = attributes.metadata();
        let span = HOST.get().map_or(0, |host| {
            host.span_new(
                number(*metadata.level()),
                metadata.target().into(),
                metadata.name().into(),
                RVec::from(texts.fields),
            )
        });
        // The host answers 0 when nobody listens, and 0 is not a number a span may have here.
        Id::from_u64(if span == 0 { u64::MAX } else { span })
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut texts = Texts::default();
        event.record(&mut texts);
        let metadata = event.metadata();
        if let Some(host) = HOST.get() {
            host.event(
                number(*metadata.level()),
                metadata.target().into(),
                texts.message.as_str().into(),
                RVec::from(texts.fields),
            );
        }
    }

    fn enter(&self, span: &Id) {
        if let Some(host) = HOST.get() {
            host.span_enter(span.into_u64());
        }
    }

    fn exit(&self, span: &Id) {
        if let Some(host) = HOST.get() {
            host.span_exit(span.into_u64());
        }
    }

    fn clone_span(&self, span: &Id) -> Id {
        *self
            .extra_handles
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(span.into_u64())
            .or_insert(0) += 1;
        span.clone()
    }

    fn try_close(&self, span: Id) -> bool {
        let mut handles = self
            .extra_handles
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match handles.get_mut(&span.into_u64()) {
            Some(1) => {
                handles.remove(&span.into_u64());
                false
            }
            Some(count) => {
                *count -= 1;
                false
            }
            None => {
                drop(handles);
                if let Some(host) = HOST.get() {
                    host.span_close(span.into_u64());
                }
                true
            }
        }
    }
}

/// Fields as text.
#[derive(Default)]
struct Texts {
    message: String,
    fields: Vec<LogField>,
}

impl Visit for Texts {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else {
            self.fields.push(LogField {
                name: field.name().into(),
                value: RString::from(value),
            });
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use abi_stable::erased_types::TD_Opaque;
    use abi_stable::std_types::{RArc, RStr};

    use super::*;
    use crate::abi::services::LibraryHost;

    /// A host that writes down what it is told.
    #[derive(Default)]
    struct Recorder(Arc<Mutex<Vec<String>>>);

    impl Recorder {
        fn note(&self, line: String) {
            self.0.lock().expect("not poisoned").push(line);
        }
    }

    fn joined(fields: RVec<LogField>) -> String {
        let texts = fields
            .into_iter()
            .map(|field| format!(" {}={}", field.name, field.value));
        texts.collect::<Vec<_>>().concat()
    }

    impl LibraryHost for Recorder {
        fn max_level(&self) -> u32 {
            3
        }

        fn event(&self, level: u32, _target: RStr<'_>, message: RStr<'_>, fields: RVec<LogField>) {
            self.note(format!("event {level} {message}{}", joined(fields)));
        }

        fn span_new(
            &self,
            level: u32,
            _target: RStr<'_>,
            name: RStr<'_>,
            fields: RVec<LogField>,
        ) -> u64 {
            self.note(format!("span {level} {name}{}", joined(fields)));
            7
        }

        fn span_enter(&self, span: u64) {
            self.note(format!("enter {span}"));
        }

        fn span_exit(&self, span: u64) {
            self.note(format!("exit {span}"));
        }

        fn span_close(&self, span: u64) {
            self.note(format!("close {span}"));
        }
    }

    #[test]
    fn events_and_spans_reach_the_host_and_unwanted_ones_do_not() {
        let recorder = Recorder::default();
        let lines = Arc::clone(&recorder.0);
        connect(LibraryHost_TO::from_ptr(RArc::new(recorder), TD_Opaque));
        let span = tracing::info_span!("turn", number = 1);
        let second_handle = span.clone();
        span.in_scope(|| {
            tracing::warn!(left = 2, why = "late", "slow");
            tracing::debug!("nobody listens to this");
        });
        drop(span);
        drop(second_handle);
        log_panic("ouch", "here");
        set_max_level(4);
        tracing::debug!("now somebody does");
        assert_eq!(
            *lines.lock().expect("not poisoned"),
            [
                "span 3 turn number=1",
                "enter 7",
                "event 2 slow left=2 why=late",
                "exit 7",
                "close 7",
                "event 1 ouch place=here",
                "event 4 now somebody does",
            ]
        );
    }
}
