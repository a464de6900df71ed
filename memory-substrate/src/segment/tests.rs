//! Tests of the segmentation: examples by script, everyday queries, and properties over any text.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn check_tokens(text: &str, expected: &str) {
    assert_eq!(index_text(text), expected, "{text}");
}

/// Asserts that a question has tokens and that the document contains every one of them.
fn check_found(document: &str, query: &str) {
    let indexed: HashSet<String> = analyze(document).into_iter().collect();
    let asked = analyze(query);
    assert!(!asked.is_empty(), "`{query}` has no tokens");
    for token in &asked {
        assert!(
            indexed.contains(token),
            "`{token}` of `{query}` is not among the tokens of `{document}`"
        );
    }
}

#[test]
fn words_are_found_in_text_without_spaces() {
    check_found("今日は成語しりとりをした", "しりとり");
    check_found("今天玩成语接龙游戏", "成语接龙");
    check_found("오늘 끝말잇기 게임을 했다", "끝말잇기");
    check_found("오늘 끝말잇기 게임을 했다", "게임");
    check_found("请检查这台设备的状态", "设备");
    check_found("重跑gen-itgc后50条, 指针悬空", "itgc");
    check_found("重跑gen-itgc后50条, 指针悬空", "悬空");
    check_found("重跑gen-itgc后50条, 指针悬空", "gen-itgc");
    check_found("новосибирск красный проспект", "Новосибирск");
    check_found("ผู้ใช้เปลี่ยนรหัสผ่านแล้ว", "รหัสผ่าน");
    check_found("हिन्दी में लिखा हुआ पृष्ठ", "हिन्दी");
}

#[test]
fn everyday_punctuation_is_text() {
    check_found("the pre-edit hook runs first", "pre-edit");
    check_found("please don't use agents here", "don't use agents");
    check_found("please don\u{2019}t use agents here", "don't use agents");
    check_found(
        "saved under ~/Downloads/transcripts/2026",
        "Downloads/transcripts",
    );
    check_found(
        "run it with --error-on-warnings set",
        "\"--error-on-warnings\"",
    );
    check_found("installed on Ubuntu 20.04 today", "ubuntu 20.04");
    check_found("a AND b OR c", "a AND OR");
    check_found("only (bypass only) applies", "(bypass only)");
    for nothing in ["*", "", "  ", "\"\"", "🎉", "-- ()"] {
        assert!(analyze(nothing).is_empty(), "{nothing}");
    }
}

#[test]
fn glued_words_give_whole_and_parts() {
    check_tokens("snake_case", "snake_case snake case");
    check_tokens("memory.live.on", "memory.live.on memory live on");
    check_tokens("v1.24.4", "v1.24.4 v1 24 4");
    check_tokens("Ubuntu 20.04", "ubuntu 20.04 20 04");
    check_tokens("gen-itgc and 2026-11-30", "gen itgc and 2026 11 30");
    check_tokens("_private __init__", "private init");
    check_tokens(
        "Alice's cat, the dogs' bowl, l'homme, don't",
        "alice cat the dogs bowl l homme don t",
    );
    check_tokens("3,141.5", "3,141.5 3 141 5");
}

#[test]
fn accents_are_optional() {
    check_tokens("Über", "uber");
    check_tokens("U\u{308}ber STRASSE Straße", "uber strasse strasse");
    check_found("Das Café öffnet über Mittag", "cafe uber");
    check_found("ΑΘΗΝΑ", "αθηνα");
    check_found("Η Αθήνα", "ΑΘΗΝΑ");
    check_found("ΟΔΟΣ", "οδος");
}

#[test]
fn compatible_forms_are_one() {
    check_tokens("Ｆｕｌｌ　ｗｉｄｔｈ ﬁne", "full width fine");
    check_tokens("ｶﾀｶﾅ", "カタ タカ カナ");
    check_tokens("soft\u{ad}hyphen", "softhyphen");
    check_tokens("猫", "猫");
    check_tokens("猫と50匹", "猫と 50 匹");
}

#[test]
fn long_tokens_are_cut_on_both_sides() {
    let hash = "0123456789abcdef".repeat(4);
    check_tokens(&hash, &hash[..MAX_TOKEN_CHARS]);
    let wide = "ж".repeat(100);
    check_tokens(&wide, &wide[..2 * MAX_TOKEN_CHARS]);
}

#[test]
fn the_version_names_the_unicode_tables() {
    let (major, minor, _) = unicode_segmentation::UNICODE_VERSION;
    assert!(
        SEGMENTATION_VERSION.ends_with(&format!("+unicode-{major}.{minor}")),
        "bump the version: the tables changed"
    );
}

proptest! {
    #[test]
    fn any_text_gives_clean_tokens(text in any::<String>()) {
        let tokens = analyze(&text);
        for token in &tokens {
            prop_assert!(!token.is_empty());
            prop_assert!(!token.contains(char::is_whitespace));
            prop_assert!(token.chars().count() <= MAX_TOKEN_CHARS);
        }
        let joined = index_text(&text);
        prop_assert_eq!(joined.split_whitespace().collect::<Vec<_>>(), tokens);
    }

    #[test]
    fn a_line_does_not_depend_on_its_neighbours(left in "\\PC{0,30}", right in "\\PC{0,30}") {
        let mut apart = analyze(&left);
        apart.extend(analyze(&right));
        prop_assert_eq!(analyze(&format!("{left}\n{right}")), apart);
    }

    #[test]
    fn ascii_is_cut_alike_beside_other_text(text in "[ -~]{0,60}") {
        let mut expected = analyze(&text);
        expected.push("ж".into());
        prop_assert_eq!(analyze(&format!("{text} ж")), expected);
    }

    #[test]
    fn case_and_composition_do_not_matter(text in "[a-zà-üα-ωа-я ]{0,40}") {
        let decomposed: String = text.nfd().collect();
        prop_assert_eq!(analyze(&decomposed), analyze(&text));
    }
}
