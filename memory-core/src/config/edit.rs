//! Shows and changes single settings in the text of a file.
//!
//! A change touches the lines of its keys and nothing else: comments, order, quoting and line ends of the rest are
//! the owner's. It is refused when the result would not load as asked, so a file that was edited here never earns a
//! warning by it. Values that only make sense together are set in one call.

use super::check;
use super::layers::{self, Layers, Settings};
use super::nearest::suggest;
use super::reader::variable;
use super::report::{ConfigSetError, ConfigWarning, Origin, Place, WarningKind};
use super::schema::{self, KeySpec};
use super::text;
use super::tuning::{self, Shadow};
use super::value::Value;
use crate::predicates::Tier;
use crate::predicates::registry::BUILT;

/// A setting as it applies.
#[derive(Clone, Debug, PartialEq)]
pub struct Got {
    /// The key, what it takes and what it does.
    pub spec: &'static KeySpec,
    /// The value that applies; none for an override that nobody wrote.
    pub value: Option<Value>,
    /// Where the value comes from.
    pub origin: Origin,
    /// The position in that file.
    pub place: Option<Place>,
    /// The override that stands in the way of the value, to be shown below it.
    pub shadow: Option<Shadow>,
}

/// Returns one setting.
pub fn get(layers: &Layers, key: &str) -> Result<Got, ConfigSetError> {
    let spec = known(key)?;
    let (settings, _) = layers::merge(layers)?;
    let entry = super::entry(&settings, spec);
    Ok(Got {
        spec,
        value: entry.value.cloned(),
        origin: entry.origin,
        place: entry.place,
        shadow: tuning::shadow(&settings, spec.key).map(|(shadow, _)| shadow),
    })
}

/// Sets keys in the assistant's file and returns its new text.
///
/// The warnings say where a value that was written does not apply, or not everywhere.
pub fn set(
    layers: &Layers,
    assignments: &[(&str, &str)],
) -> Result<(String, Vec<ConfigWarning>), ConfigSetError> {
    let mut changes = Vec::new();
    for (key, text) in assignments {
        let spec = known(key)?;
        let value = spec
            .parse(text)
            .map_err(|reason| ConfigSetError::BadValue {
                key: spec.key,
                reason,
            })?;
        changes.push((spec, Some(value)));
    }
    apply(layers, &changes)
}

/// Removes keys from the assistant's file, so that the layers below apply, and returns its new text.
pub fn unset(
    layers: &Layers,
    keys: &[&str],
) -> Result<(String, Vec<ConfigWarning>), ConfigSetError> {
    let changes = keys
        .iter()
        .map(|key| Ok((known(key)?, None)))
        .collect::<Result<Vec<_>, ConfigSetError>>()?;
    apply(layers, &changes)
}

/// Sets the switches so that this tier is configured, and returns the new text of the assistant's file.
///
/// A tier that was removed from this build is refused; a file that configures it already is left to its owner.
pub fn set_tier(
    layers: &Layers,
    tier: Tier,
) -> Result<(String, Vec<ConfigWarning>), ConfigSetError> {
    BUILT.require(tier)?;
    // Switching off leaves the other switches alone, so that switching on again returns to the same tier.
    let switches: &[(&str, &str)] = match tier {
        Tier::Off => &[(schema::ENABLED, "false")],
        Tier::V1 => &[
            (schema::ENABLED, "true"),
            (schema::V2_ENABLED, "false"),
            (schema::V3_LIVE, "false"),
        ],
        Tier::V2 => &[
            (schema::ENABLED, "true"),
            (schema::V2_ENABLED, "true"),
            (schema::V3_LIVE, "false"),
        ],
        Tier::V3 => &[(schema::ENABLED, "true"), (schema::V3_LIVE, "true")],
    };
    set(layers, switches)
}

/// Returns the text of a new assistant's file.
pub fn init_text(time_zone: &str) -> Result<String, ConfigSetError> {
    let start = "# Settings of this assistant; `strata config show` lists all of them with their defaults.\n";
    let (text, _) = set(
        &Layers::of_assistant(start),
        &[("time_zone", time_zone), (schema::V3_LIVE, "true")],
    )?;
    Ok(text)
}

fn known(key: &str) -> Result<&'static KeySpec, ConfigSetError> {
    schema::find(key).ok_or_else(|| ConfigSetError::UnknownKey {
        key: key.to_owned(),
        suggestion: suggest(key),
    })
}

/// Writes the changes; a change without a value removes its key.
fn apply(
    layers: &Layers,
    changes: &[(&'static KeySpec, Option<Value>)],
) -> Result<(String, Vec<ConfigWarning>), ConfigSetError> {
    let before = layers.assistant.as_deref().unwrap_or_default();
    let mut document = text::parse(before)?;
    let is_bare = document.is_empty();
    for (spec, value) in changes {
        let path: Vec<&str> = spec.key.split('.').collect();
        match value {
            Some(value) => text::put(document.as_table_mut(), &path, value),
            None => text::remove(document.as_table_mut(), &path),
        }
        .map_err(|depth| ConfigSetError::NotATable {
            path: path[..depth].join("."),
        })?;
    }
    let after = text::with_line_ends_of(before, &text::render(&mut document, is_bare));

    let mut edited = layers.clone();
    edited.assistant = Some(after.clone());
    let stored = layers::merge_unchecked(&edited.stored())?;
    for contradiction in check::contradictions(&stored) {
        let concerns = |(spec, _): &(&KeySpec, _)| contradiction.keys.contains(&spec.key);
        if changes.iter().any(concerns) {
            return Err(ConfigSetError::Contradiction {
                keys: contradiction.keys,
                message: contradiction.message,
            });
        }
    }
    let (settings, _) = layers::merge(&edited)?;
    let warnings = changes
        .iter()
        .filter(|(_, value)| value.is_some())
        .flat_map(|(spec, _)| {
            [
                shadow_warning(&settings, spec),
                override_warning(&settings, spec),
            ]
        })
        .flatten()
        .collect();
    Ok((after, warnings))
}

fn shadow_warning(settings: &Settings, spec: &KeySpec) -> Option<ConfigWarning> {
    let (shadow, setting) = tuning::shadow(settings, spec.key)?;
    Some(ConfigWarning {
        kind: if shadow.split {
            WarningKind::Split
        } else {
            WarningKind::Shadowed
        },
        key: spec.key.to_owned(),
        origin: setting.origin,
        place: setting.place,
        message: shadow.to_string(),
        suggestion: None,
        tier: None,
    })
}

fn override_warning(settings: &Settings, spec: &KeySpec) -> Option<ConfigWarning> {
    let setting = settings.written(spec.key)?;
    let by = match setting.origin {
        Origin::Environment => format!("the variable `{}`", variable(spec.key)),
        Origin::Flag => "a flag".to_owned(),
        Origin::Default | Origin::Home | Origin::Assistant => return None,
    };
    Some(ConfigWarning {
        kind: WarningKind::Overridden,
        key: spec.key.to_owned(),
        origin: setting.origin,
        place: None,
        message: format!(
            "`{}` is written, but {by} sets it to `{}` here",
            spec.key, setting.value
        ),
        suggestion: None,
        tier: spec
            .is_switch()
            .then(|| crate::predicates::memory_tier(settings.switches())),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::Config;
    use crate::config::fixtures::any_value;

    fn set_one(
        text: &str,
        key: &str,
        value: &str,
    ) -> Result<(String, Vec<ConfigWarning>), ConfigSetError> {
        set(&Layers::of_assistant(text), &[(key, value)])
    }

    #[track_caller]
    fn check_refused(before: &str, assignments: &[(&str, &str)], expected: &str) {
        let error =
            set(&Layers::of_assistant(before), assignments).expect_err("the setting is refused");
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn wrong_keys_and_values_are_refused_with_a_hint() {
        check_refused(
            "",
            &[("memory.v3.needle_k", "5")],
            "unknown key `memory.v3.needle_k`: did you mean `memory.v3.needleK`?",
        );
        check_refused(
            "",
            &[("colour", "red")],
            "unknown key `colour`: `config show` lists all keys",
        );
        check_refused(
            "",
            &[("memory.v3.live", "yes")],
            "`memory.v3.live` expects `true` or `false`, found `yes`",
        );
        check_refused(
            "memory = 3",
            &[("memory.v3.live", "true")],
            "`memory` in the file is not a table of settings: repair it by hand",
        );
        check_refused(
            "[memory.v3.live]\nx = 1",
            &[("memory.v3.live", "true")],
            "`memory.v3.live` in the file is not a table of settings: repair it by hand",
        );
        check_refused(
            "[[memory]]",
            &[("memory.v3.live", "true")],
            "`memory` in the file is not a table of settings: repair it by hand",
        );
        assert!(matches!(
            set_one("x = ", "memory.v3.live", "true"),
            Err(ConfigSetError::File(_))
        ));
    }

    #[test]
    fn values_that_belong_together_change_together() {
        check_refused(
            "",
            &[("memory.v2.dense_weight", "0.7")],
            "`memory.v2.dense_weight`, `memory.v2.sparse_weight` must sum to 1, they sum to 0.8500: change them in one call",
        );
        let both = [
            ("memory.v2.dense_weight", "0.7"),
            ("memory.v2.sparse_weight", "0.3"),
        ];
        let (text, _) = set(&Layers::of_assistant(""), &both).expect("they sum to 1");
        assert_eq!(
            text,
            "[memory.v2]\ndense_weight = 0.7\nsparse_weight = 0.3\n"
        );
        assert!(unset(&Layers::of_assistant(&*text), &["memory.v2.sparse_weight"]).is_err());
        let keys = both.map(|(key, _)| key);
        let (text, _) = unset(&Layers::of_assistant(text), &keys).expect("the defaults are left");
        assert_eq!(text, "[memory.v2]\n");
        // A lone override is judged with its twin, whichever of them is changed.
        let lone = "[memory.substrate]\ndense_weight = 0.85\n";
        assert!(set_one(lone, "memory.v2.sparse_weight", "0.2").is_err());
        // An old contradiction elsewhere in the file is no reason to refuse.
        assert!(set_one("memory.v2.d = 0.9", "memory.v2.top_k", "3").is_ok());
    }

    #[test]
    fn the_home_file_counts_and_the_environment_does_not() {
        let layers = Layers {
            home: Some(
                "[memory.v3.prune]\nmaxResidentBytes = 1000\ntargetResidentBytes = 10".to_owned(),
            ),
            environment: [("STRATA_MEMORY__V3__LIVE".to_owned(), "false".to_owned())].into(),
            ..Layers::default()
        };
        assert!(set(&layers, &[("memory.v3.prune.targetResidentBytes", "2000")]).is_err());
        let (_, warnings) = set(&layers, &[("memory.v3.live", "true")]).expect("accepted");
        let shown: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "environment settings: `memory.v3.live` is written, but the variable `STRATA_MEMORY__V3__LIVE` sets it to \
                 `false` here; the configured tier is now `v2`",
            ]
        );
    }

    #[test]
    fn a_shadowed_key_says_so_when_read_and_when_written() {
        let text = "[memory.substrate]\nbm25_b = 0.9\nspread_k = 0.8\nconsolidation_max_buffer_lines = 'none'\n";
        for (key, value, kind, shown) in [
            (
                "memory.v2.bm25_b",
                "0.5",
                WarningKind::Shadowed,
                "Shadowed: `memory.substrate.bm25_b` (`0.9`) is used everywhere, `memory.v2.bm25_b` has no effect",
            ),
            (
                "memory.v2.consolidation_max_buffer_lines",
                "9",
                WarningKind::Shadowed,
                "Shadowed: `memory.substrate.consolidation_max_buffer_lines` (`none`) is used everywhere, \
                 `memory.v2.consolidation_max_buffer_lines` has no effect",
            ),
            (
                "memory.v2.k",
                "0.5",
                WarningKind::Split,
                "Split: tier v2 reads `memory.v2.k`, everything else reads `memory.substrate.spread_k` (`0.8`)",
            ),
        ] {
            let (after, warnings) = set_one(text, key, value).expect("accepted");
            assert_eq!(
                (warnings[0].kind, warnings[0].message.as_str()),
                (kind, shown)
            );
            let got = get(&Layers::of_assistant(after), key).expect("a known key");
            assert_eq!(
                got.value.map(|value| value.to_string()).as_deref(),
                Some(value)
            );
            assert_eq!(
                got.shadow.map(|shadow| shadow.to_string()).as_deref(),
                Some(shown)
            );
        }
        for key in [
            "memory.v2.top_k",
            "memory.v2.hops",
            "memory.substrate.bm25_b",
        ] {
            assert_eq!(
                get(&Layers::of_assistant(text), key)
                    .expect("a known key")
                    .shadow,
                None
            );
        }
    }

    #[test]
    fn every_tier_can_be_set_from_every_other() {
        let built = || Tier::ALL.into_iter().filter(|tier| BUILT.has(*tier));
        for from in built() {
            let (text, _) = set_tier(&Layers::default(), from).expect("accepted");
            for to in built() {
                let (text, _) = set_tier(&Layers::of_assistant(&*text), to).expect("accepted");
                let (config, warnings) = Config::load(&Layers::of_assistant(text)).expect("TOML");
                assert_eq!((config.tier(), warnings), (to, vec![]));
            }
        }
    }

    #[test]
    fn a_removed_tier_cannot_be_set_and_stays_what_a_file_configures() {
        for tier in Tier::ALL.into_iter().filter(|tier| !BUILT.has(*tier)) {
            assert!(matches!(
                set_tier(&Layers::default(), tier),
                Err(ConfigSetError::Removed(removed)) if removed.tier == tier
            ));
        }
        // Whatever tiers a build has, the same file configures the same tier.
        for (text, tier) in [
            ("memory.v2.enabled = false", Tier::V1),
            ("memory.v2.enabled = true", Tier::V2),
            ("", Tier::V2),
            ("memory.v3.live = true", Tier::V3),
        ] {
            let (config, warnings) = Config::load(&Layers::of_assistant(text)).expect("TOML");
            assert_eq!((config.tier(), warnings), (tier, vec![]));
        }
    }

    #[test]
    fn a_new_assistant_starts_on_v3_in_its_time_zone() {
        let text = init_text("Europe/Berlin").expect("a zone");
        assert_eq!(
            text,
            "# Settings of this assistant; `strata config show` lists all of them with their defaults.\n\
             time_zone = \"Europe/Berlin\"\n\n[memory.v3]\nlive = true\n"
        );
        let (config, warnings) = Config::load(&Layers::of_assistant(text)).expect("TOML");
        assert_eq!(
            (config.tier(), config.time_zone.as_str()),
            (Tier::V3, "Europe/Berlin")
        );
        assert_eq!(warnings, []);
        assert!(init_text("my zone").is_err());
    }

    /// Files in the styles that people write.
    const FILES: [&str; 7] = [
        "",
        "# only a comment",
        "time_zone = 'UTC'\n\n[memory]\nenabled = true # on\n\n[memory.v3]\nlive = true\n\n[unknown]\nx = 1\n",
        "memory.v3.live = true\nmemory.v2.k = 0.5\nplugins.v1 = 'x'\n",
        "memory = { v3 = { live = true }, v2 = {} }\nplugins = {}\n",
        "[memory.v3.gate]\ntopK = 3\n[memory]\nenabled = true\n[plugins]\n[memory.v2.router]\nbatch_size = 'none'\n",
        "[memory]\r\nv3.live = true\r\nv2 = { k = 0.1, rerank.top_k = 3 }\r\n",
    ];

    fn any_setting() -> impl Strategy<Value = (&'static KeySpec, Value)> {
        let loose: Vec<&'static KeySpec> = schema::KEYS
            .iter()
            .filter(|spec| !check::is_bound(spec.key))
            .collect();
        proptest::sample::select(loose).prop_flat_map(|spec| (Just(spec), any_value(spec)))
    }

    proptest! {
        #[test]
        fn what_is_set_is_what_is_got(
            (spec, value) in any_setting(),
            file in proptest::sample::select(FILES.to_vec()),
        ) {
            let before = Config::load(&Layers::of_assistant(file)).expect("TOML").0;
            let (text, _) = set_one(file, spec.key, &value.to_string()).expect("a valid value");
            let layers = Layers::of_assistant(&*text);
            let got = get(&layers, spec.key).expect("a known key");
            prop_assert_eq!(got.value.as_ref(), Some(&value));
            prop_assert_eq!(got.origin, Origin::Assistant);

            let (after, _) = Config::load(&layers).expect("TOML");
            for (old, new) in before.entries().zip(after.entries()) {
                if old.spec.key != spec.key {
                    prop_assert_eq!(old.value, new.value, "{} changed too", old.spec.key);
                }
            }
            let (again, _) = set_one(&text, spec.key, &value.to_string()).expect("a valid value");
            prop_assert_eq!(&again, &text);
            let (unset_text, _) = unset(&layers, &[spec.key]).expect("no contradiction");
            let got = get(&Layers::of_assistant(unset_text), spec.key).expect("a known key");
            prop_assert_eq!(got.origin, Origin::Default);
        }

        #[test]
        fn weights_set_together_are_got_together(dense in 0.0..=1.0_f64, substrate in any::<bool>()) {
            let table = if substrate { "memory.substrate" } else { "memory.v2" };
            let keys = [format!("{table}.dense_weight"), format!("{table}.sparse_weight")];
            let values = [format!("{dense:?}"), format!("{:?}", 1.0 - dense)];
            let layers = Layers::of_assistant(FILES[2]);
            let (text, _) = set(&layers, &[(&keys[0], &values[0]), (&keys[1], &values[1])]).expect("they sum to 1");
            for (key, value) in keys.iter().zip(values) {
                let got = get(&Layers::of_assistant(&*text), key).expect("a known key");
                prop_assert_eq!(got.value.map(|value| value.to_string()), Some(value));
            }
        }

        #[test]
        fn no_text_makes_an_edit_panic(text in any::<String>(), key in any::<String>(), value in any::<String>()) {
            let layers = Layers::of_assistant(text);
            let _outcome = set(&layers, &[("memory.v3.needleK", "5")]);
            let _outcome = unset(&layers, &["memory.v3.needleK"]);
            prop_assert!(set(&layers, &[(&key, &value)]).is_err());
        }
    }
}
