//! What several test modules of the configuration share.
//!
//! Text goes in and warnings come out as text, since the text is what people get to read.

use proptest::prelude::*;

use super::{Config, ConfigWarning, KeySpec, Kind, Layers, NONE, Value};

/// Loads one file.
pub(crate) fn load(text: &str) -> (Config, Vec<ConfigWarning>) {
    Config::load(&Layers::of_assistant(text)).expect("the text is TOML")
}

/// Checks the warnings that one file earns and returns what it configures.
#[track_caller]
pub(crate) fn check_warnings(text: &str, expected: &[&str]) -> Config {
    let (config, warnings) = load(text);
    let shown: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(shown, expected);
    config
}

/// Returns any value that a key accepts.
pub(crate) fn any_value(spec: &KeySpec) -> BoxedStrategy<Value> {
    let text = |pattern: &str| {
        proptest::string::string_regex(pattern)
            .expect("the pattern is valid")
            .prop_filter("`none` is not a text", |text| text != NONE)
            .prop_map(|text| Value::Text(text.into()))
            .boxed()
    };
    let value = match spec.kind {
        Kind::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        Kind::Int { min, max } => (min..=max).prop_map(Value::Int).boxed(),
        Kind::Float { min, max } => (min..=max.min(1e300)).prop_map(Value::Float).boxed(),
        Kind::Positive => (1e-300..1e300_f64).prop_map(Value::Float).boxed(),
        Kind::Text => text(r#"[a-zA-Z0-9 /\\\\."'#=\[\]äß語-]{0,12}[a-z"'\\\\]"#),
        Kind::OneOf(words) => proptest::sample::select(words)
            .prop_map(|word| Value::Text(word.into()))
            .boxed(),
        Kind::PluginId => text("[a-z0-9][a-z0-9_-]{0,20}"),
        Kind::TimeZone => text("[A-Z][a-z]{1,8}(/[A-Z][a-z_]{1,8}){0,2}"),
    };
    if spec.nullable {
        prop_oneof![Just(Value::None), value].boxed()
    } else {
        value
    }
}
