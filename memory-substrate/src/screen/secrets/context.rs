//! Secrets that are known by the words beside them: `password = …`, `the API key is …`, `Authorization: Bearer …`.
//!
//! An expression finds the name and what stands after it; whether that is the secret is then decided by how sure the
//! name is. After the name of a password nearly anything is one, after that of a token only what looks like a key.

use super::looks::{
    is_call, is_like_a_key, is_mixed, is_no_word, is_random, is_remark, is_something_else,
    is_stand_in, is_type, is_unspaced,
};
use super::{Found, Rule};

/// Names of passwords, in the languages whose speakers were asked.
const PASSWORD: &str = r"(?:pass[ _-]?(?:word|wd|phrase|code)|(?-u:\b)pwd|_pass|kennwort|passwort|mot de passe|contrase(?:ñ|n)a|senha|пароль|密码|密碼|パスワード|비밀번호)";

/// The beginnings of those names.
const PASSWORD_HINTS: &[&str] = &[
    "pass",
    "pwd",
    "kennwort",
    "mot de passe",
    "contrase",
    "senha",
    "пароль",
    "密码",
    "密碼",
    "パスワード",
    "비밀번호",
];

/// Names of keys and tokens.
const KEY: &str = r"(?:(?:api|access|secret|private|signing|encryption|account|auth|master|service|deploy|license)[ _-]?keys?|secret[ _-]?access[ _-]?key|(?:shared|storage)[ _-]?(?:access|account)[ _-]?key|(?:client|app|api|consumer|webhook|shared)[ _-]?secret|(?:api|access|refresh|auth|bearer|bot|session|deploy|security)[ _-]?token|(?-u:\b)(?:secret|token|credentials?)|_(?:secret|token|key)|api-?schlüssel)";

const KEY_HINTS: &[&str] = &["key", "secret", "token", "credential", "schlüssel"];

/// What may stand between a name and its value in code and settings. Quotes may be those of a text within a text, and
/// the name, with its colon or without, may be set in bold.
const ASSIGNED: &str =
    r#"["'`\])*_\\]{0,4}[ \t]{0,4}(?:=>|:=|={1,2}|[:：])(?:[*_]{1,3}[ \t]{1,4}|[ \t]{0,4})"#;

/// What a secret is for.
const PURPOSE: &str = r"[ \t]+(?:for|of|to|on|at|in|from|für|von|de)(?:[ \t]+[^\s:;!?=]{0,40}[^\s.:;!?=](?::[0-9]{1,5})?){1,6}?";

/// What may stand between what a secret is for and its value, as in `Password for Netflix: …`. There is a blank, for in
/// `localhost:5432` there is no value.
const LABELLED: &str = r#"["'`\])*_]{0,4}[ \t]{0,4}(?:[=:][*_]{0,3}[ \t]{1,4}|：[ \t]{0,4})"#;

/// What may stand between a name and its value in a sentence.
const SAID: &str = r"[ \t]{0,2}(?:(?:[ \t](?:is|was|are|equals|ist|war|lautet|est|es|é|è|это))(?:[ \t]+(?:now|still|just|currently|always|jetzt|immer noch|set to|called))?[ \t]*[:=]?[ \t]+|[是为為は][ \t]{0,2}[:：]?[ \t]{0,2})";

/// What may be a value: in quotes of some kind, or up to the next blank.
const VALUE: &str = r#"(?:"(?<secret_quoted>[^"\n]{3,200})"|'(?<secret_single>[^'\n]{3,200})'|`(?<secret_ticked>[^`\n]{3,200})`|[“„](?<secret_curly>[^”“\n]{3,200})[”“]|\\{1,3}"(?<secret_escaped>[^"\n]{3,200}?)\\{1,3}"|(?<secret_bare>[^\s"'`“„]{3,300}))"#;

/// Returns the rules, the surest first.
pub(super) fn rules() -> Vec<Rule> {
    let rule = |what, hints, pattern: String, accept| Rule {
        what,
        hints,
        pattern: format!("(?i){pattern}"),
        accept,
    };
    vec![
        rule(
            "authorization header",
            &["authorization"],
            format!(r#"authorization{ASSIGNED}["']?(?:(?:bearer|basic|token|digest)[ \t]+)?(?<secret>[a-z0-9._~+/=\-]{{8,}})"#),
            authorization,
        ),
        rule(
            "bearer token",
            &["bearer"],
            r"(?-u:\b)bearer[ \t]+(?<secret>[a-z0-9._~+/=\-]{16,})".to_owned(),
            |found| is_like_a_key(found.value, 16, 2).then_some(found.value.len()),
        ),
        rule(
            "password",
            &["curl"],
            r#"(?-u:\b)curl(?-u:\b)[^\n]{0,200}?[ \t](?:-u|--user)[ \t]+["']?[^\s:"']{1,80}:(?<secret>[^\s"']{1,200})"#.to_owned(),
            unless_stand_in,
        ),
        rule(
            "password",
            &["--pass", "--token", "--secret", "--api-key", "--api_key"],
            r#"--(?:password|passwd|passphrase|pass|token|secret|api[_-]key)(?:[ \t]+|=)["']?(?<secret>[^\s"'\-][^\s"']{2,200})"#.to_owned(),
            option,
        ),
        rule(
            "password",
            &["login"],
            r"(?-u:\b)login[ \t]+\S{1,100}\s+password[ \t]+(?<secret>\S{1,200})".to_owned(),
            unless_stand_in,
        ),
        rule(
            "password",
            &["identified by"],
            r#"(?-u:\b)identified[ \t]+by[ \t]+["'](?<secret>[^"'\n]{1,200})["']"#.to_owned(),
            unless_stand_in,
        ),
        rule(
            "pin",
            &["pin", "cvv", "cvc"],
            r#"(?-u:\b)(?:pin(?:[ -]?code)?|cvv2?|cvc2?)(?-u:\b)(?:[ \t]+(?:for|of|to|für)(?:[ \t]+[^\s.:;!?=0-9]{1,40}){1,5}?)?(?:[ \t]*[:=]|[ \t]+(?:is|was|ist|war|lautet))[ \t]*["'`]?(?<secret>[0-9]{3,12})(?-u:\b)"#.to_owned(),
            pin,
        ),
        rule("password", PASSWORD_HINTS, format!("{PASSWORD}{ASSIGNED}{VALUE}"), assigned_password),
        rule("password", PASSWORD_HINTS, format!("{PASSWORD}{PURPOSE}{LABELLED}{VALUE}"), said_password),
        rule("password", PASSWORD_HINTS, format!("{PASSWORD}[*_]{{0,3}}(?:{PURPOSE})?{SAID}{VALUE}"), said_password),
        rule("key or token", KEY_HINTS, format!("{KEY}{ASSIGNED}{VALUE}"), assigned_key),
        rule("key or token", KEY_HINTS, format!("{KEY}{PURPOSE}{LABELLED}{VALUE}"), labelled_key),
        rule("key or token", KEY_HINTS, format!("{KEY}[*_]{{0,3}}(?:{PURPOSE})?{SAID}{VALUE}"), said_key),
        rule(
            "key or token",
            &["key=", "sig=", "signature="],
            r"[?&](?:key|sig|signature)=(?<secret>[a-z0-9%_\-]{16,})".to_owned(),
            |found| is_like_a_key(found.value, 16, 2).then_some(found.value.len()),
        ),
        rule(
            "likely secret",
            &["pass", "secret", "token", "key", "credential", "passwort", "kennwort"],
            format!(r"(?:{PASSWORD}|{KEY})[^\n]{{0,60}}?(?-u:\b)(?<secret>[a-z0-9][a-z0-9+/_=.~\-]{{19,400}})"),
            |found| {
                let value = found.value.trim_end_matches('.');
                let is_picture = found.before.contains("base64,") || found.before.ends_with("://");
                (!is_picture && !is_something_else(value, false) && is_random(value)).then_some(value.len())
            },
        ),
    ]
}

fn unless_stand_in(found: &Found<'_>) -> Option<usize> {
    (!is_stand_in(found.value)).then_some(found.value.len())
}

/// Accepts what is sent to be let in: what has digits, and after the name of a scheme also what is written like no word.
fn authorization(found: &Found<'_>) -> Option<usize> {
    let header = found.before.to_lowercase();
    let has_scheme = ["bearer", "basic", "token", "digest"]
        .iter()
        .any(|scheme| header.contains(scheme));
    let has_digit = found.value.bytes().any(|byte| byte.is_ascii_digit());
    let is_secret =
        is_like_a_key(found.value, 8, 0) && (has_digit || (has_scheme && is_mixed(found.value)));
    is_secret.then_some(found.value.len())
}

/// Accepts the value of an option of a command. Where only a blank stands before it, it may be the next word of a
/// sentence about the option.
fn option(found: &Found<'_>) -> Option<usize> {
    let value = found.value;
    let is_given = found.before.contains(['=', '"', '\'']) || is_no_word(value);
    let is_secret = is_given
        && !is_stand_in(value)
        && !is_something_else(value, false)
        && !is_call(value, found.after.chars())
        && !is_remark(value);
    is_secret.then_some(value.len())
}

/// Accepts the number of a card, but no date, and no `PIN code` of six digits, which is where somebody lives in India.
fn pin(found: &Found<'_>) -> Option<usize> {
    let name = found.before.to_lowercase();
    let length = found.value.len();
    let fits = match (name.contains("pin"), name.contains("code")) {
        (true, true) => length == 4,
        (true, false) => length >= 4,
        (false, _) => true,
    };
    let mut after = found.after.chars();
    let goes_on = after.next().is_some_and(|next| "-/.,:".contains(next))
        && after.next().is_some_and(|next| next.is_ascii_digit());
    (fits && !goes_on).then_some(length)
}

fn is_quoted(found: &Found<'_>) -> bool {
    found.group != "secret_bare"
}

/// Returns the part of a value that stands before what belongs to the sentence or to the next setting.
fn trimmed<'a>(found: &Found<'a>) -> &'a str {
    if is_quoted(found) {
        return found.value;
    }
    for (at, character) in found.value.char_indices() {
        let rest = &found.value[at + character.len_utf8()..];
        if character == ';' || (matches!(character, '&' | ',') && names_something(rest)) {
            return &found.value[..at];
        }
    }
    found.value.trim_end_matches([
        '.', ',', ':', ')', ']', '}', '>', '!', '?', '。', '，', '、',
    ])
}

/// Returns whether a text begins with a name to which something is assigned.
fn names_something(text: &str) -> bool {
    let text = text.trim_start_matches(['"', '\'', ' ']);
    let name = text.trim_start_matches(|character: char| {
        character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.')
    });
    name.len() < text.len()
        && name
            .trim_start_matches(['"', '\'', ' '])
            .starts_with(['=', ':'])
}

/// Returns whether nothing but punctuation follows in the sentence.
fn is_last_word(found: &Found<'_>, value: &str) -> bool {
    let rest = &found.value[value.len()..];
    let ends = |text: &str| text.starts_with(['.', '!', ';', ',', ')']);
    // Only as far as needed, because a line may be as long as the text.
    let ends_line = || {
        let after = found
            .after
            .trim_start_matches(|character: char| character != '\n' && character.is_whitespace());
        after.is_empty() || after.starts_with('\n')
    };
    ends(rest) || (rest.is_empty() && (ends(found.after) || ends_line()))
}

/// Returns whether what stands where a secret would stand is none: it stands in for one, or is something else.
fn is_other(found: &Found<'_>, value: &str) -> bool {
    let behind = || {
        let rest = &found.value[value.len()..];
        rest.chars().chain(found.after.chars())
    };
    is_stand_in(value)
        || is_something_else(value, is_quoted(found))
        || (!is_quoted(found) && is_call(value, behind()))
}

/// Returns a value without what sets it in bold.
fn plain(value: &str) -> &str {
    let word = value.trim_matches(['*', '_']);
    if word.is_empty() { value } else { word }
}

fn assigned_password(found: &Found<'_>) -> Option<usize> {
    let value = trimmed(found);
    let is_secret = if is_other(found, value) {
        false
    } else if is_quoted(found) || is_set(found) {
        value.len() >= 3 && !is_type(value)
    } else {
        may_be_said(found, value)
    };
    is_secret.then_some(value.len())
}

fn said_password(found: &Found<'_>) -> Option<usize> {
    let value = trimmed(found);
    let is_secret = if is_other(found, value) {
        false
    } else if is_quoted(found) {
        !is_type(value)
    } else {
        may_be_said(found, value)
    };
    is_secret.then_some(value.len())
}

/// Returns whether a word that a sentence says of a password is the password: it is written like no word, or it is the
/// last one and describes nothing.
fn may_be_said(found: &Found<'_>, value: &str) -> bool {
    let word = plain(value);
    // Where words are written without blanks the rest of the sentence follows, and no keyboard has that for a password.
    word.chars()
        .filter(|character| !is_unspaced(*character))
        .count()
        >= 4
        && !word.starts_with(is_unspaced)
        && !is_type(word)
        && (is_no_word(word) || (is_last_word(found, value) && !is_remark(word)))
}

fn assigned_key(found: &Found<'_>) -> Option<usize> {
    let value = trimmed(found);
    let is_secret = !is_other(found, value) && is_like_a_key(value, 6, 1);
    let is_sure = match Name::of(found.before) {
        Name::Telling => true,
        Name::Vague => {
            value.len() >= 16 || (is_like_a_key(value, 8, 2) && (is_quoted(found) || is_set(found)))
        }
        Name::SomeKey => is_random(value) || is_long_hex(value),
    };
    (is_secret && is_sure).then_some(value.len())
}

fn said_key(found: &Found<'_>) -> Option<usize> {
    let value = trimmed(found);
    let (shortest, digits) = if is_quoted(found) { (6, 1) } else { (8, 2) };
    let is_secret = !is_other(found, value) && is_like_a_key(value, shortest, digits);
    let is_sure = match Name::of(found.before) {
        Name::Telling => true,
        Name::Vague => value.len() >= 16 || is_quoted(found),
        Name::SomeKey => is_random(value) || is_long_hex(value),
    };
    (is_secret && is_sure).then_some(value.len())
}

/// Accepts a key behind what it is for. What is short is as likely to be its kind or its number.
fn labelled_key(found: &Found<'_>) -> Option<usize> {
    let value = trimmed(found);
    let is_long = value.len() >= 12 || is_quoted(found);
    if is_long { said_key(found) } else { None }
}

/// Returns whether a value is set with an equals sign, as settings are.
fn is_set(found: &Found<'_>) -> bool {
    found.before.trim_end().ends_with('=')
}

fn is_long_hex(text: &str) -> bool {
    text.len() >= 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// How much a name says about what it names.
enum Name {
    /// Nothing else is called so.
    Telling,
    /// What is no secret is called so too.
    Vague,
    /// The end of a longer name, as in `cache_key`.
    SomeKey,
}

impl Name {
    fn of(before: &str) -> Self {
        let lower = before.to_lowercase();
        let is_separator = |character: char| !character.is_alphanumeric() && character != '_';
        let name = lower.split(is_separator).next().unwrap_or_default();
        match name {
            "_key" => Self::SomeKey,
            "token" | "secret" | "credential" | "credentials" | "_token" | "_secret" => Self::Vague,
            _ => Self::Telling,
        }
    }
}
