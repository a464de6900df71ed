//! Tables of what is a secret, what only looks like one, and what is hidden.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::samples::{UPPER, alnum, fill, hex, look_alikes, tokens};
use super::*;

mod hostile;
mod written;

#[test]
fn tokens_are_known_by_their_form_wherever_they_stand() {
    let tokens = tokens();
    assert!(tokens.len() >= 60, "{}", tokens.len());
    let mut kinds = BTreeSet::new();
    for (what, token) in tokens {
        kinds.insert(what);
        for (before, after) in [
            ("", ""),
            ("We use ", " for the nightly job."),
            ("(", ")"),
            ("see https://x.example/?a=b&c=", "&d=e"),
            ("密钥是", "。"),
            ("| row | `", "` |"),
            ("x=\"", "\""),
        ] {
            let screened = screen(&format!("{before}{token}{after}"));
            assert_eq!(
                screened.text,
                format!("{before}[redacted: {what}]{after}"),
                "{token}"
            );
            let [
                Finding {
                    class: FindingClass::Secret,
                    what: found,
                    count: 1,
                },
            ] = &screened.findings[..]
            else {
                panic!("{:?}", screened.findings)
            };
            assert_eq!(found, what);
        }
    }
    assert!(kinds.len() >= 50, "{}", kinds.len());
}

#[test]
fn keys_in_armour_go_whole_even_when_they_were_cut_off() {
    let line = alnum(64);
    for kind in ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "] {
        let armour = |edge: &str| format!("-----{edge} {kind}PRIVATE KEY-----");
        let (begin, end) = (armour("BEGIN"), armour("END"));
        let whole = screen(&format!(
            "the key:\n{begin}\n{line}\n{line}\n{end}\nand more"
        ));
        assert_eq!(whole.text, "the key:\n[redacted: private key]\nand more");
        let in_json = screen(&format!("{{\"k\": \"{begin}\\n{line}\\n{end}\\n\"}}"));
        assert_eq!(in_json.text, "{\"k\": \"[redacted: private key]\\n\"}");
        let cut = screen(&format!("{begin}\n{line}\n{line}\n\nA note of its own."));
        assert_eq!(cut.text, "[redacted: private key]\n\nA note of its own.");
    }
    let pgp = format!(
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{line}\n-----END PGP PRIVATE KEY BLOCK-----"
    );
    assert_eq!(screen(&pgp).text, "[redacted: private key]");
    let public = format!("-----BEGIN PUBLIC KEY-----\n{line}\n-----END PUBLIC KEY-----");
    assert_eq!(screen(&public).text, public);
}

#[test]
fn words_beside_a_secret_give_it_away() {
    let random = alnum(40);
    let uuid = "c9bf9e57-1685-4c89-bafb-ff5af830be8a";
    for (text, expected) in [
        (
            "my production database password is `hunter2` and my API key is `sk-abc123`".to_owned(),
            "my production database password is `[redacted: password]` and my API key is `[redacted: key or token]`",
        ),
        (
            "password: hunter2".to_owned(),
            "password: [redacted: password]",
        ),
        (
            "Password: swordfish".to_owned(),
            "Password: [redacted: password]",
        ),
        (
            "The wifi password is swordfish.".to_owned(),
            "The wifi password is [redacted: password].",
        ),
        (
            "the password for the staging db.example.com is Tr0ub4dor&3".to_owned(),
            "the password for the staging db.example.com is [redacted: password]",
        ),
        (
            "DB_PASSWORD=correcthorse".to_owned(),
            "DB_PASSWORD=[redacted: password]",
        ),
        (
            "export PGPASSWORD='s3cr3t'".to_owned(),
            "export PGPASSWORD='[redacted: password]'",
        ),
        (
            "passphrase is \"correct horse battery staple\"".to_owned(),
            "passphrase is \"[redacted: password]\"",
        ),
        (
            "{\"user\": \"ada\", \"password\": \"p@ss, word\"}".to_owned(),
            "{\"user\": \"ada\", \"password\": \"[redacted: password]\"}",
        ),
        (
            "Server=db;User Id=sa;Password=Str0ng!;Encrypt=true".to_owned(),
            "Server=db;User Id=sa;Password=[redacted: password];Encrypt=true",
        ),
        (
            "?user=ada&password=hunter2&next=/home".to_owned(),
            "?user=ada&password=[redacted: password]&next=/home",
        ),
        (
            "postgres://admin:hunter2@db.internal:5432/app".to_owned(),
            "postgres://admin:[redacted: password in an address]@db.internal:5432/app",
        ),
        (
            "redis://:pa55@cache/0".to_owned(),
            "redis://:[redacted: password in an address]@cache/0",
        ),
        (
            "mongodb+srv://u:p@c.example".to_owned(),
            "mongodb+srv://u:[redacted: password in an address]@c.example",
        ),
        (
            format!("Authorization: Bearer {random}"),
            "Authorization: Bearer [redacted: authorization header]",
        ),
        (
            "-H 'Authorization: Basic YWRhOmh1bnRlcjI='".to_owned(),
            "-H 'Authorization: Basic [redacted: authorization header]'",
        ),
        (
            format!("send it with bearer {random} please"),
            "send it with bearer [redacted: bearer token] please",
        ),
        (
            "curl -s -u ada:hunter2 https://x.example".to_owned(),
            "curl -s -u ada:[redacted: password] https://x.example",
        ),
        (
            "mysql --password=hunter2 -h db".to_owned(),
            "mysql --password=[redacted: password] -h db",
        ),
        (
            "deploy --token tok12345 now".to_owned(),
            "deploy --token [redacted: password] now",
        ),
        (
            "machine x login ada password hunter2".to_owned(),
            "machine x login ada password [redacted: password]",
        ),
        (
            "CREATE USER a IDENTIFIED BY 'hunter2';".to_owned(),
            "CREATE USER a IDENTIFIED BY '[redacted: password]';",
        ),
        (
            "The PIN is 4711, do not tell".to_owned(),
            "The PIN is [redacted: pin], do not tell",
        ),
        (
            "pin for the safe: 90210".to_owned(),
            "pin for the safe: [redacted: pin]",
        ),
        ("密码是hunter2".to_owned(), "密码是[redacted: password]"),
        ("密码：hunter2".to_owned(), "密码：[redacted: password]"),
        (
            "Das Passwort lautet Geheim77.".to_owned(),
            "Das Passwort lautet [redacted: password].",
        ),
        (
            "Le mot de passe est `azerty`".to_owned(),
            "Le mot de passe est `[redacted: password]`",
        ),
        (
            format!("aws_secret_access_key = {random}"),
            "aws_secret_access_key = [redacted: key or token]",
        ),
        (
            format!("client_secret: {random}"),
            "client_secret: [redacted: key or token]",
        ),
        (
            format!("HEROKU_API_KEY={uuid}"),
            "HEROKU_API_KEY=[redacted: key or token]",
        ),
        (
            format!("x-api-key: {random}"),
            "x-api-key: [redacted: key or token]",
        ),
        (
            format!("the access token for the shop is {random}."),
            "the access token for the shop is [redacted: key or token].",
        ),
        (
            format!("AccountName=x;AccountKey={random}=="),
            "AccountName=x;AccountKey=[redacted: key or token]",
        ),
        (
            format!("the token we got on Monday, {random}, still works"),
            "the token we got on Monday, [redacted: likely secret], still works",
        ),
        (
            format!("secret (rotate it) {random}"),
            "secret (rotate it) [redacted: likely secret]",
        ),
        (
            format!("https://maps.example/api?key={random}&v=3"),
            "https://maps.example/api?key=[redacted: key or token]&v=3",
        ),
    ] {
        assert_eq!(screen(&text).text, expected, "{text}");
        assert_eq!(redact(&text).text, expected, "{text}");
    }
}

#[test]
fn what_only_looks_like_a_secret_is_left_alone() {
    let texts = look_alikes();
    assert!(texts.len() >= 200, "{}", texts.len());
    for text in texts {
        let screened = screen(&text);
        assert_eq!(
            (screened.text.as_str(), screened.findings),
            (text.as_str(), Vec::new())
        );
        assert_eq!(inspect(&text), Vec::new());
    }
}

#[test]
fn hidden_characters_go_and_those_that_scripts_need_stay() {
    let tags: String = "gbeng"
        .bytes()
        .filter_map(|byte| char::from_u32(0xE0000 + u32::from(byte)))
        .collect();
    let england = format!("\u{1F3F4}{tags}\u{E007F}");
    for text in [
        "plain",
        "tabs\tand\nlines\r\n",
        "👩‍👩‍👧‍👦",
        "🏳️‍🌈 and 👩🏽‍🚀",
        "❤️‍🔥",
        "1️⃣ #️⃣",
        "☎︎ ☎️",
        &england,
        "🇨🇭",
        "می‌خواهم",
        "क्‍ष and क्‌ष",
        "ශ්‍රී ලංකා",
        "നന്‍മ",
        "葛\u{E0100}城",
        "\u{1820}\u{180B}",
        "שלום\u{200F}!",
        "∩\u{FE00}",
        "ภาษา\u{200B}ไทย",
        "\u{115F}\u{1161}",
        "naïve café",
        "a\u{A0}b",
        "한국어",
    ] {
        assert_eq!(
            screen(text),
            Screened {
                text: text.to_owned(),
                findings: Vec::new()
            },
            "{text:?}"
        );
    }
    let ignore: String = "ignore"
        .bytes()
        .filter_map(|byte| char::from_u32(0xE0000 + u32::from(byte)))
        .collect();
    let smuggled: String = (0..8)
        .filter_map(|number| char::from_u32(0xE0100 + number))
        .collect();
    for (text, expected, what) in [
        ("a\u{200B}b", "ab", "zero-width characters"),
        ("a\u{200D}b", "ab", "zero-width characters"),
        ("\u{FEFF}a", "a", "zero-width characters"),
        ("a\u{2060}b", "ab", "zero-width characters"),
        (
            "می\u{200C}\u{200C}خ",
            "می\u{200C}خ",
            "zero-width characters",
        ),
        ("\u{202E}gpj.exe", "gpj.exe", "bidirectional controls"),
        ("a\u{2066}b\u{2069}", "ab", "bidirectional controls"),
        ("latin\u{200E}", "latin", "bidirectional controls"),
        (
            "של\u{200F}\u{200E}ום",
            "של\u{200F}ום",
            "bidirectional controls",
        ),
        (&format!("hi{ignore}"), "hi", "tag characters"),
        (&format!("\u{1F3F4}{ignore}"), "\u{1F3F4}", "tag characters"),
        (&format!("😀{smuggled}"), "😀", "variation selectors"),
        ("a\u{FE0F}", "a", "variation selectors"),
        ("❤\u{FE0F}\u{FE0F}", "❤\u{FE0F}", "variation selectors"),
        ("葛\u{E0100}\u{E0101}", "葛\u{E0100}", "variation selectors"),
        ("a\u{0}b\u{7}", "ab", "control characters"),
        ("\u{1B}[31mred", "[31mred", "control characters"),
        ("a\u{9B}b", "ab", "control characters"),
        ("so\u{AD}ft", "soft", "invisible characters"),
        ("\u{3164}x", "x", "invisible characters"),
        ("x\u{FFFF}", "x", "invisible characters"),
        ("\u{E0B0}x", "x", "private-use characters"),
    ] {
        let screened = screen(text);
        assert_eq!(screened.text, expected, "{text:?}");
        let [
            Finding {
                class: FindingClass::Hidden,
                what: found,
                ..
            },
        ] = &screened.findings[..]
        else {
            panic!("{text:?}: {:?}", screened.findings)
        };
        assert_eq!(found, what, "{text:?}");
    }
    assert_eq!(screen("a\u{2028}b\u{85}c").text, "a\nb\nc");
    assert_eq!(screen("cafe\u{301}").text, "café", "composed");
}

#[test]
fn a_secret_that_hides_behind_hidden_characters_is_found() {
    let token = format!("AKIA{}", fill(UPPER, 16, 7));
    let (head, tail) = token.split_at(7);
    let hidden = format!("x\nkey: {head}\u{200B}{tail}");
    let screened = screen(&hidden);
    assert_eq!(screened.text, "x\nkey: [redacted: aws access key]");
    assert_eq!(
        screened
            .findings
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["redacted: aws access key", "removed: zero-width characters"]
    );
    let spots: Vec<String> = inspect(&hidden).iter().map(ToString::to_string).collect();
    assert_eq!(
        spots,
        [
            "2:13: a secret (aws access key)",
            "2:13: zero-width characters"
        ]
    );
}

#[test]
fn an_unusual_line_end_ends_a_line_for_every_purpose() {
    let text = format!("secret\u{B}a, {}", alnum(30));
    assert_eq!(screen(&text).text, text.replace('\u{B}', "\n"));
    assert_eq!(inspect(&text), []);
}

#[test]
fn accents_apart_from_their_letters_hide_nothing() {
    let key = format!("dapi{}e\u{301}", hex(31));
    assert_eq!(screen(&key).text, "[redacted: databricks token]\u{301}");
    let apart = "one\ncontrasen\u{303}a: hunter2";
    assert_eq!(screen(apart).text, "one\ncontraseña: [redacted: password]");
    let spots: Vec<String> = inspect(apart).iter().map(ToString::to_string).collect();
    assert_eq!(spots, ["2:1: a secret (password)"]);
}

#[test]
fn places_are_told_and_texts_are_not() {
    let text = "é line\nthe password is `hunter2`, and\u{200B} so on\n";
    let spots = inspect(text);
    assert_eq!(
        spots.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["2:18: a secret (password)", "2:31: zero-width characters"]
    );
    assert!(!format!("{spots:?} {:?}", screen(text).findings).contains("hunter2"));
    assert_eq!(
        inspect("\u{FEFF}# Page\n"),
        [],
        "a byte order mark belongs to the file"
    );
}

/// Pieces of which odd texts are made.
fn pieces() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "password",
        "is",
        ": ",
        "=",
        "`",
        "\"",
        "hunter2",
        "swordfish",
        "\n",
        " ",
        " token ",
        "api key",
        "[redacted: password]",
        "[redacted:",
        "]",
        "://",
        "a:b@c",
        "\u{200B}",
        "\u{200D}",
        "👩",
        "\u{FE0F}",
        "\u{202E}",
        "é",
        "e\u{301}",
        "ک",
        "PIN",
        "4711",
        "密码是",
        ";",
        ",",
        "bearer ",
        "secret",
        "\r",
        "\u{E0067}",
        "\u{1F3F4}",
        "AKIA",
        "&x=1",
    ]);
    let piece = prop_oneof![
        4 => words.prop_map(str::to_owned),
        1 => prop::sample::select(tokens()).prop_map(|(_, token)| token),
        1 => any::<char>().prop_map(String::from),
        1 => "[A-Za-z0-9+/_=-]{1,30}",
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn screening_ends_changes_nothing_twice_and_does_not_blow_up(text in pieces()) {
        // The mark of a file is taken out of a note, and is no finding in a page.
        prop_assume!(!text.starts_with('\u{FEFF}'));
        let once = screen(&text);
        prop_assert!(once.text.len() <= text.len() * 48 + 48, "{} of {}", once.text.len(), text.len());
        let twice = screen(&once.text);
        prop_assert_eq!(&twice.text, &once.text);
        prop_assert!(twice.findings.is_empty(), "{:?}", twice.findings);
        prop_assert_eq!(once.findings.is_empty(), inspect(&text).is_empty(), "{:?}", text);
        let redacted = redact(&text);
        prop_assert_eq!(redact(&redacted.text), Screened { text: redacted.text.clone(), findings: Vec::new() });
    }

    #[test]
    fn no_token_survives_among_other_text(
        (_, token) in prop::sample::select(tokens()),
        before in "[ a-zé語(\n\"]{0,20}",
        after in "[ .)\n\"]{0,3}",
    ) {
        let screened = screen(&format!("{before} {token}{after}"));
        prop_assert!(!screened.text.contains(&token[token.len() / 2..]), "{}", screened.text);
    }

    #[test]
    fn any_text_can_be_inspected(text in any::<String>()) {
        drop((screen(&text), inspect(&text)));
    }
}
