//! Reads the layers of settings and merges them, key by key.
//!
//! A setting that cannot be used counts as not written in its layer, so the layer below it applies, and in the end
//! the default. That is what keeps a slip in one place from changing anything else, least of all the tier.

use std::collections::BTreeMap;

use super::check;
use super::reader::{Finding, Reader};
use super::report::{ConfigError, ConfigWarning, Origin, Place, WarningKind};
use super::schema;
use super::value::Value;
use crate::predicates::{TierSwitches, memory_tier};

/// Everything that settings can be read from, handed in by the caller.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    /// Text of the file that all assistants of a home share.
    pub home: Option<String>,
    /// Text of the assistant's own file.
    pub assistant: Option<String>,
    /// The environment, by name; names that are not settings are left alone.
    pub environment: BTreeMap<String, String>,
    /// Flags of the command line, by dotted key.
    pub flags: BTreeMap<String, String>,
}

impl Layers {
    /// Returns the layers of an assistant that has only its own file.
    pub fn of_assistant(text: impl Into<String>) -> Self {
        Self {
            assistant: Some(text.into()),
            ..Self::default()
        }
    }

    /// Returns the layers that are stored in files, without this process's environment and flags.
    pub(crate) fn stored(&self) -> Self {
        Self {
            home: self.home.clone(),
            assistant: self.assistant.clone(),
            ..Self::default()
        }
    }
}

/// A value that somebody wrote, and where.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Setting {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
    pub(crate) place: Option<Place>,
}

/// All usable values that somebody wrote.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Settings {
    written: BTreeMap<&'static str, Setting>,
}

impl Settings {
    /// Returns the value written for a key, without its default.
    pub(crate) fn written(&self, key: &str) -> Option<&Setting> {
        self.written.get(key)
    }

    /// Returns the value that applies for a key.
    pub(crate) fn value(&self, key: &str) -> Option<&Value> {
        match self.written.get(key) {
            Some(setting) => Some(&setting.value),
            None => schema::find(key)?.default.as_ref(),
        }
    }

    /// Returns the three switches as they apply.
    pub(crate) fn switches(&self) -> TierSwitches {
        let switch = |key| self.value(key).and_then(Value::as_bool);
        TierSwitches {
            enabled: switch(schema::ENABLED),
            v2_enabled: switch(schema::V2_ENABLED),
            v3_live: switch(schema::V3_LIVE),
        }
    }

    pub(crate) fn write(&mut self, key: &'static str, setting: Setting) {
        self.written.insert(key, setting);
    }

    fn forget(&mut self, key: &str) -> Option<Setting> {
        self.written.remove(key)
    }
}

/// Merges the layers and resolves contradictions.
pub(crate) fn merge(layers: &Layers) -> Result<(Settings, Vec<ConfigWarning>), ConfigError> {
    let Reader {
        mut settings,
        mut findings,
    } = Reader::read(layers)?;
    resolve_contradictions(&mut settings, &mut findings);
    let tier = memory_tier(settings.switches());
    let warnings = findings
        .into_iter()
        .map(|finding| {
            let mut warning = finding.warning;
            warning.tier = finding.concerns_tier.then_some(tier);
            if warning.kind == WarningKind::BadValue {
                name_what_applies(&mut warning, &settings);
            }
            warning
        })
        .collect();
    Ok((settings, warnings))
}

/// Merges the layers and leaves contradictions between values as they are.
pub(crate) fn merge_unchecked(layers: &Layers) -> Result<Settings, ConfigError> {
    Ok(Reader::read(layers)?.settings)
}

/// Puts contradicting values back to their defaults until none contradict.
fn resolve_contradictions(settings: &mut Settings, findings: &mut Vec<Finding>) {
    // Each round forgets at least one written value, so this ends; defaults do not contradict each other.
    loop {
        let mut forgotten = false;
        for contradiction in check::contradictions(settings) {
            let dropped: Vec<(&str, Setting)> = contradiction
                .blamed
                .iter()
                .filter_map(|key| settings.forget(key).map(|setting| (*key, setting)))
                .collect();
            let Some((key, setting)) = dropped.first() else {
                continue;
            };
            forgotten = true;
            let message = format!("{}; their defaults are used", contradiction.message);
            findings.push(Finding::new(
                WarningKind::Contradiction,
                key,
                setting.origin,
                setting.place,
                message,
            ));
        }
        if !forgotten {
            return;
        }
    }
}

/// Completes a warning about a refused value with what applies now.
fn name_what_applies(warning: &mut ConfigWarning, settings: &Settings) {
    let applies = settings.value(&warning.key).map_or_else(
        || "it counts as not set".to_owned(),
        |value| format!("`{value}` is used"),
    );
    warning.message = format!("{}; {applies}", warning.message);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::error::Error as _;

    use proptest::prelude::*;

    use super::*;
    use crate::config::fixtures::check_warnings;
    use crate::config::{Config, variable};
    use crate::predicates::Tier;

    #[test]
    fn later_layers_win_key_by_key_and_are_named() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        let layers = Layers {
            home: Some("time_zone = 'Asia/Tokyo'\n[memory.v3]\nneedleK = 1\ndenseK = 1\nreplyQueryK = 1\nspanQueryK = 1\n".to_owned()),
            assistant: Some("[memory.v3]\ndenseK = 2\nreplyQueryK = 2\nspanQueryK = 2\n".to_owned()),
            environment: map(&[
                ("STRATA_MEMORY__V3__REPLYQUERYK", "3"),
                ("STRATA_MEMORY__V3__SPANQUERYK", "3"),
                ("STRATA_HOME", "/somewhere"),
                ("PATH", "/bin"),
            ]),
            flags: map(&[("memory.v3.spanQueryK", "4")]),
        };
        let (config, warnings) = Config::load(&layers).expect("the texts are TOML");
        assert_eq!(warnings, []);
        let v3 = &config.memory.v3;
        assert_eq!(
            [v3.needle_k, v3.dense_k, v3.reply_query_k, v3.span_query_k],
            [1, 2, 3, 4]
        );
        let shown: Vec<String> = config
            .entries()
            .filter(|entry| entry.origin != Origin::Default)
            .map(|entry| {
                format!(
                    "{} {} {:?}",
                    entry.spec.key,
                    entry.origin,
                    entry.place.map(|place| place.line)
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                "time_zone home Some(1)",
                "memory.v3.needleK home Some(3)",
                "memory.v3.denseK assistant Some(2)",
                "memory.v3.replyQueryK environment None",
                "memory.v3.spanQueryK flag None",
            ]
        );
    }

    #[test]
    fn slips_are_reported_with_their_place_and_change_nothing_else() {
        let config = check_warnings(
            "[memory.v3]\nlive = true\nnedleK = 5\n  denseK = -1\nhotSet = 3\n[memory.v2]\ntop_k = [1]\n\
             [colours]\nred = 1\n",
            &[
                "assistant settings, line 3, column 1: unknown key `memory.v3.nedleK`, ignored; did you mean \
                 `memory.v3.needleK`?",
                "assistant settings, line 4, column 3: `memory.v3.denseK` expects a whole number of at least 0, found \
                 `-1`; `100` is used",
                "assistant settings, line 5, column 1: `memory.v3.hotSet` expects a table, found a value of type \
                 `integer`, ignored; write `[memory.v3.hotSet]`",
                "assistant settings, line 7, column 1: `memory.v2.top_k` expects a whole number of at least 1, found a \
                 value of type `array`; `25` is used",
                "assistant settings, line 8, column 2: unknown table `colours`, ignored",
            ],
        );
        assert_eq!(config.tier(), Tier::V3);
        assert_eq!(config.memory.v3, Config::default().memory.v3);
    }

    #[test]
    fn a_slip_at_a_switch_names_the_tier_that_is_configured_now() {
        check_warnings(
            "memory.v3.live = 'yes'",
            &[
                "assistant settings, line 1, column 11: `memory.v3.live` expects `true` or `false`, found `yes`; `false` is \
                 used; the configured tier is now `v2`",
            ],
        );
        check_warnings(
            "[memory.v3]\nlvie = true",
            &[
                "assistant settings, line 2, column 1: unknown key `memory.v3.lvie`, ignored; did you mean \
                 `memory.v3.live`?; the configured tier is now `v2`",
            ],
        );
        check_warnings(
            "[memroy.v3]\nlive = true",
            &[
                "assistant settings, line 1, column 2: unknown table `memroy`, ignored; did you mean `memory`?; the \
                 configured tier is now `v2`",
            ],
        );
        check_warnings(
            "memory = true",
            &[
                "assistant settings, line 1, column 1: `memory` expects a table, found a value of type `boolean`, \
                 ignored; write `[memory]`; the configured tier is now `v2`",
            ],
        );
        // A quoted name with dots is one name, not a path.
        let config = check_warnings(
            "'memory.v3.live' = true",
            &[
                "assistant settings, line 1, column 1: unknown key `\"memory.v3.live\"`, ignored; did you mean \
                 `memory.v3.live`?; the configured tier is now `v2`",
            ],
        );
        assert_eq!(config.tier(), Tier::V2);
    }

    #[test]
    fn a_bad_value_leaves_the_layer_below_in_force() {
        let layers = Layers {
            home: Some("memory.v3.live = true".to_owned()),
            assistant: Some("memory.v3.live = 1".to_owned()),
            ..Layers::default()
        };
        let (config, warnings) = Config::load(&layers).expect("the texts are TOML");
        assert_eq!(config.tier(), Tier::V3);
        assert_eq!(warnings.len(), 1);
        assert_eq!(warnings[0].tier, Some(Tier::V3));
    }

    #[test]
    fn the_environment_and_flags_get_suggestions_too() {
        let mut layers = Layers::default();
        layers
            .environment
            .insert("STRATA_MEMORY__V3__LIV".to_owned(), "true".to_owned());
        layers
            .flags
            .insert("memory.enable".to_owned(), "true".to_owned());
        let (_, warnings) = Config::load(&layers).expect("nothing to parse");
        let shown: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "environment settings: unknown variable `STRATA_MEMORY__V3__LIV`, ignored; did you mean \
                 `STRATA_MEMORY__V3__LIVE`?; the configured tier is now `v2`",
                "flag settings: unknown key `memory.enable`, ignored; did you mean `memory.enabled`?; the configured tier \
                 is now `v2`",
            ]
        );
    }

    #[test]
    fn variables_name_exactly_one_key() {
        let names: BTreeSet<String> = schema::KEYS.iter().map(|spec| variable(spec.key)).collect();
        assert_eq!(names.len(), schema::KEYS.len());
        assert_eq!(variable("memory.v3.live"), "STRATA_MEMORY__V3__LIVE");
    }

    #[test]
    fn a_file_that_is_not_toml_is_an_error_with_its_place() {
        let layers = Layers {
            home: Some("[memory]\nenabled = \n".to_owned()),
            ..Layers::default()
        };
        let error = Config::load(&layers).expect_err("a value is missing");
        let text = error.to_string();
        assert!(
            text.starts_with("the home settings file is not valid TOML at line 2, column "),
            "{text}"
        );
        assert!(error.source().is_some());
    }

    fn any_line() -> impl Strategy<Value = String> {
        let segment = prop_oneof![
            Just("memory"),
            Just("v2"),
            Just("v3"),
            Just("live"),
            Just("enabled"),
            Just("substrate"),
            Just("gate"),
            Just("dense_weight"),
            Just("plugins"),
            Just("time_zone"),
            Just("'a.b'"),
            Just("\"a\\nb\""),
            Just("x"),
            Just("hotSet"),
            Just("k"),
        ];
        let path = proptest::collection::vec(segment, 1..4).prop_map(|parts| parts.join("."));
        let value = prop_oneof![
            Just("true"),
            Just("0.5"),
            Just("7"),
            Just("-9223372036854775808"),
            Just("nan"),
            Just("inf"),
            Just("'none'"),
            Just("[1, 2]"),
            Just("{}"),
            Just("{ live = true, k = 0.1 }"),
            Just("1979-05-27"),
            Just("\"\\u00e9\""),
            Just(""),
        ];
        prop_oneof![
            path.clone().prop_map(|path| format!("[{path}]")),
            path.clone().prop_map(|path| format!("[[{path}]]")),
            (path, value).prop_map(|(path, value)| format!("{path} = {value}")),
        ]
    }

    proptest! {
        #[test]
        fn no_text_makes_loading_panic(text in any::<String>()) {
            let loaded = Config::load(&Layers { home: Some(text.clone()), assistant: Some(text), ..Layers::default() });
            if let Ok((config, _)) = loaded {
                prop_assert_eq!(check::contradictions(&config.settings), []);
            }
        }

        #[test]
        fn no_mix_of_settings_makes_loading_panic(lines in proptest::collection::vec(any_line(), 0..8)) {
            let text = lines.join("\n");
            if let Ok((config, warnings)) = Config::load(&Layers::of_assistant(text)) {
                prop_assert_eq!(check::contradictions(&config.settings), []);
                for warning in warnings {
                    prop_assert!(!warning.to_string().contains('\n'));
                }
            }
        }

        #[test]
        fn no_variable_or_flag_makes_loading_panic(name in any::<String>(), value in any::<String>()) {
            let mut layers = Layers::default();
            layers.environment.insert(format!("STRATA_{name}"), value.clone());
            layers.environment.insert("STRATA_TIME_ZONE".to_owned(), value.clone());
            layers.flags.insert(name, value);
            prop_assert!(Config::load(&layers).is_ok());
        }
    }
}
