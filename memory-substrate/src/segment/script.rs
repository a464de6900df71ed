//! Knows the scripts that are treated apart: those without spaces, and those whose accents are optional.
//!
//! Block ranges are enough here. A character that a table would put elsewhere only changes how it is cut, and it is
//! cut the same way when indexed and when asked for.

use unicode_normalization::char::{decompose_canonical, is_combining_mark};

/// Returns whether a character belongs to a script that is cut into pairs: Han, kana, bopomofo, Hangul, Thai, Lao,
/// Khmer, Burmese. All but Hangul write no spaces; Hangul glues particles to its words.
pub(super) fn is_paired(character: char) -> bool {
    // Nothing below the first range belongs here, and that is where most text is.
    character >= '\u{e00}'
        && matches!(character,
            '\u{e01}'..='\u{e3a}' | '\u{e40}'..='\u{e4e}' | '\u{e81}'..='\u{ece}' | '\u{edc}'..='\u{edf}'
            | '\u{1000}'..='\u{103f}' | '\u{1050}'..='\u{109d}' | '\u{1780}'..='\u{17d3}' | '\u{17d7}'
            | '\u{1100}'..='\u{11ff}' | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}' | '\u{3131}'..='\u{318e}'
            | '\u{3041}'..='\u{3096}' | '\u{3099}' | '\u{309a}' | '\u{309d}'..='\u{309f}'
            | '\u{30a1}'..='\u{30fa}' | '\u{30fc}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}'
            | '\u{3105}'..='\u{312f}' | '\u{31a0}'..='\u{31bf}'
            | '\u{2e80}'..='\u{2fd5}' | '\u{3005}' | '\u{3007}' | '\u{3021}'..='\u{3029}' | '\u{3038}'..='\u{303b}'
            | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Returns whether a character is part of a word rather than between two.
pub(super) fn is_word(character: char) -> bool {
    character.is_alphanumeric() || is_combining_mark(character)
}

/// Returns whether a character is invisible or only chooses a glyph; it is dropped from tokens.
pub(super) fn is_ignored(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{640}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{206f}' | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}

/// Writes a lower-case token without the accents of its Latin and Greek letters.
pub(super) fn fold(token: &str, folded: &mut String) {
    folded.clear();
    let mut foldable = false;
    for character in token.chars() {
        match character {
            '\0'..='\u{7f}' => {
                foldable = true;
                folded.push(character);
            }
            // A mark that did not combine with its letter.
            '\u{300}'..='\u{36f}' if foldable => {}
            '\u{c0}'..='\u{24f}'
            | '\u{1e00}'..='\u{1eff}'
            | '\u{370}'..='\u{3ff}'
            | '\u{1f00}'..='\u{1fff}' => {
                foldable = true;
                if let Some(plain) = spelled(character) {
                    folded.push_str(plain);
                } else {
                    decompose_canonical(character, |piece| {
                        if !is_combining_mark(piece) {
                            folded.push(piece);
                        }
                    });
                }
            }
            _ => {
                foldable = false;
                folded.push(character);
            }
        }
    }
}

/// Returns how a letter without a decomposition is written on a keyboard that lacks it.
fn spelled(character: char) -> Option<&'static str> {
    Some(match character {
        'ß' => "ss",
        'æ' => "ae",
        'œ' => "oe",
        'ø' => "o",
        'ł' => "l",
        'đ' | 'ð' => "d",
        'þ' => "th",
        'ħ' => "h",
        'ı' => "i",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_fold(token: &str, expected: &str) {
        let mut folded = String::from("left over");
        fold(token, &mut folded);
        assert_eq!(folded, expected, "{token}");
    }

    #[test]
    fn only_optional_accents_are_folded() {
        check_fold("über", "uber");
        check_fold("straße", "strasse");
        check_fold("smørrebrød", "smorrebrod");
        check_fold("αθήνα", "αθηνα");
        check_fold("i\u{307}stanbul", "istanbul");
        check_fold("đường", "duong");
        for same in ["plain", "йод", "हिन्दी", "й\u{301}", "עברית"] {
            check_fold(same, same);
        }
    }

    #[test]
    fn scripts_without_spaces_are_paired() {
        for character in "漢かカーᄒ한설备々ฉ่กາខမ𠀀ㄅ".chars() {
            assert!(is_paired(character), "{character:?}");
        }
        for character in "aé7я・。、 ฿๑٣हאß".chars() {
            assert!(!is_paired(character), "{character:?}");
        }
    }
}
