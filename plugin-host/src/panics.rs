//! Hearing of panics that no answer tells of.
//!
//! A panic of a method comes back as an error. One while a call or an instance is dropped has nobody to answer to: the
//! library's panic hook logs it, on the thread on which it happens. So whoever runs a plugin's code listens on that thread
//! meanwhile.

use std::cell::RefCell;

/// Panics remembered of one piece of work; more of them say nothing new.
const HEARD_AT_ONCE: usize = 4;

thread_local! {
    static HEARD: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Runs code of a plugin and returns what panicked in it, contained by the plugin itself.
pub(crate) fn listen<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    let outer = HEARD.replace(Some(Vec::new()));
    let result = work();
    let heard = HEARD.replace(outer).unwrap_or_default();
    (result, heard)
}

/// Takes note of a panic on this thread, if anybody listens.
pub(crate) fn hear(message: &str) {
    HEARD.with_borrow_mut(|heard| {
        if let Some(heard) = heard.as_mut().filter(|heard| heard.len() < HEARD_AT_ONCE) {
            heard.push(message.to_owned());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_listener_hears_its_own_work_only() {
        hear("before");
        let ((inner, outer_end), outer) = listen(|| {
            hear("outer");
            let ((), inner) = listen(|| (0..9).for_each(|_| hear("inner")));
            hear("outer again");
            (inner, ())
        });
        let () = outer_end;
        assert_eq!(inner, ["inner"; HEARD_AT_ONCE]);
        assert_eq!(outer, ["outer", "outer again"]);
        assert_eq!(listen(|| ()).1, Vec::<String>::new());
    }
}
