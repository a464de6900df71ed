//! Slugs: the names of pages, made by one function from any file name or title.
//!
//! A slug is a path of segments of Unicode letters (with their combining marks), digits, `-` and `_`. The same
//! function makes the file's name and the link's target, so the two cannot drift apart, and it never drops a
//! script: a title is only replaced by a digest when no letter or digit of any script is left.
//!
//! Folding is NFC and full Unicode lower case, not case folding proper: `Straße` stays `straße`, which is what
//! a reader expects in a file name. Two names with the same slug are the caller's business
//! ([`Slug::with_hash_suffix`]), because only the caller knows which names are taken.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::digest;

/// Longest segment of a slug in bytes, so that a file name with its ending fits every file system.
pub const MAX_SEGMENT_BYTES: usize = 80;

/// Longest slug in bytes, so that a path below a deep home folder still fits.
pub const MAX_SLUG_BYTES: usize = 200;

/// Prefix of the synthetic pages that stand for skills.
pub const SKILLS_PREFIX: &str = "skills/";

/// Prefix of the synthetic pages that stand for commands of the command line.
pub const CLI_COMMANDS_PREFIX: &str = "cli-commands/";

/// Hex digits in a suffix that tells two names apart.
const SUFFIX_DIGITS: usize = 8;

/// Names a page: a canonical path of segments without an ending.
///
/// Slugs order by their bytes. Cloning is cheap.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slug(Arc<str>);

/// Says why a text is not a slug.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlugError {
    /// The text is empty; ask for a name.
    #[error("a slug cannot be empty")]
    Empty,
    /// The text is longer than a path may be; shorten it.
    #[error("a slug has at most {MAX_SLUG_BYTES} bytes, this one has {bytes}")]
    TooLong {
        /// Length of the text in bytes.
        bytes: usize,
    },
    /// A segment is not in canonical form; use the canonical one, or report the name as not existing.
    #[error("`{segment}` is not a segment of a slug, `{canonical}` would be")]
    NotCanonical {
        /// The segment as it was given.
        segment: String,
        /// What the slug function makes of it.
        canonical: String,
    },
}

impl Slug {
    /// Returns the slug that `text` spells, accepting the canonical form only.
    ///
    /// Traversal, absolute paths, empty segments, capitals and reserved device names are all refused, because
    /// the slug function would make something else of them.
    pub fn parse(text: &str) -> Result<Self, SlugError> {
        if text.is_empty() {
            return Err(SlugError::Empty);
        }
        if text.len() > MAX_SLUG_BYTES {
            return Err(SlugError::TooLong { bytes: text.len() });
        }
        for part in text.split('/') {
            let canonical = segment(part);
            if canonical != part {
                return Err(SlugError::NotCanonical {
                    segment: part.to_owned(),
                    canonical,
                });
            }
        }
        Ok(Self(Arc::from(text)))
    }

    /// Returns the slug of a relative file path, with or without `.md`.
    ///
    /// Separators of either kind are structure. `.` and empty parts are skipped, `..` takes one part back and
    /// never leaves the root.
    #[must_use]
    pub fn from_path(path: &str) -> Self {
        let stem = without_ending(path);
        let mut segments: Vec<String> = Vec::new();
        for part in stem.split(['/', '\\']) {
            match part {
                "" | "." => {}
                ".." => {
                    segments.pop();
                }
                _ => segments.push(segment(part)),
            }
        }
        if segments.is_empty() {
            segments.push(untitled(path));
        }
        Self::from_segments(segments)
    }

    /// Returns the slug of a title: one segment, in which separators of paths are data like any other sign.
    #[must_use]
    pub fn from_title(title: &str) -> Self {
        Self(Arc::from(segment(title)))
    }

    /// Returns a slug that differs from this one by a suffix made from `seed`.
    ///
    /// The seed should be what makes the page another one, such as its original path: then the same page gets
    /// the same slug again.
    #[must_use]
    pub fn with_hash_suffix(&self, seed: &str) -> Self {
        let mut segments: Vec<String> = self.segments().map(str::to_owned).collect();
        if let Some(last) = segments.pop() {
            segments.push(suffixed(&last, seed));
        }
        Self::from_segments(segments)
    }

    /// Joins canonical segments; a path that is too long loses parents and gets a suffix for the whole.
    fn from_segments(mut segments: Vec<String>) -> Self {
        let joined = segments.join("/");
        if joined.len() <= MAX_SLUG_BYTES {
            return Self(Arc::from(joined));
        }
        let last = suffixed(&segments.pop().unwrap_or_default(), &joined);
        let mut room = MAX_SLUG_BYTES - last.len();
        let mut out = String::with_capacity(MAX_SLUG_BYTES);
        for part in segments {
            if part.len() + 1 > room {
                break;
            }
            room -= part.len() + 1;
            out.push_str(&part);
            out.push('/');
        }
        out.push_str(&last);
        Self(Arc::from(out))
    }

    /// Returns the slug as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the segments, outermost first.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/')
    }

    /// Returns the innermost segment.
    #[must_use]
    pub fn last_segment(&self) -> &str {
        self.0.rsplit_once('/').map_or(&*self.0, |(_, last)| last)
    }

    /// Returns everything before the innermost segment, if there is anything.
    #[must_use]
    pub fn parent(&self) -> Option<&str> {
        self.0.rsplit_once('/').map(|(parent, _)| parent)
    }

    /// Returns the path of the page's file, relative to the folder of pages.
    #[must_use]
    pub fn to_relative_path(&self) -> String {
        format!("{}.md", self.0)
    }

    /// Returns whether the slug stands for a skill.
    #[must_use]
    pub fn is_skill(&self) -> bool {
        self.0.starts_with(SKILLS_PREFIX)
    }

    /// Returns whether the slug stands for a command of the command line.
    #[must_use]
    pub fn is_cli_command(&self) -> bool {
        self.0.starts_with(CLI_COMMANDS_PREFIX)
    }

    /// Returns whether the slug belongs to a synthetic page, so that no file may take it.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.is_skill() || self.is_cli_command()
    }
}

impl fmt::Debug for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slug({:?})", &*self.0)
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Slug {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for Slug {
    type Err = SlugError;

    fn from_str(text: &str) -> Result<Self, SlugError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Slug {
    type Error = SlugError;

    fn try_from(text: String) -> Result<Self, SlugError> {
        Self::parse(&text)
    }
}

impl From<Slug> for String {
    fn from(slug: Slug) -> Self {
        slug.0.as_ref().to_owned()
    }
}

/// Returns `name` without a trailing `.md`, in whatever case it is written.
pub(super) fn without_ending(name: &str) -> &str {
    let Some(cut) = name.len().checked_sub(3) else {
        return name;
    };
    match name.get(cut..) {
        Some(ending) if ending.eq_ignore_ascii_case(".md") => &name[..cut],
        _ => name,
    }
}

/// Returns the canonical segment for any text; a canonical segment comes back unchanged.
fn segment(text: &str) -> String {
    let kept = fold(text);
    if kept.is_empty() {
        untitled(text)
    } else if kept.len() > MAX_SEGMENT_BYTES || is_device_name(&kept) {
        suffixed(&kept, &kept)
    } else {
        kept
    }
}

/// Returns the letters, digits and `_` of a text, with one `-` for each run of anything else between them.
fn fold(text: &str) -> String {
    // How a character is drawn is not part of the name. It goes first: what it kept apart is put in order by NFC.
    let bare = text.chars().filter(|&c| !is_emoji_dressing(c));
    let lower = bare.nfc().collect::<String>().to_lowercase();
    let mut out = String::with_capacity(lower.len());
    let mut gap = false;
    let mut after_letter = false;
    for c in lower.nfc() {
        if c.is_alphanumeric() || c == '_' {
            if gap && !out.is_empty() {
                out.push('-');
            }
            out.push(c);
            gap = false;
            after_letter = true;
        } else if after_letter && is_combining_mark(c) {
            // Vowel signs and the virama of Indic scripts are marks: without them words fall together.
            out.push(c);
        } else {
            gap = true;
            after_letter = false;
        }
    }
    out
}

/// Returns whether `c` is a variation selector or an enclosing mark.
const fn is_emoji_dressing(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' | '\u{20dd}'..='\u{20e4}')
}

/// Returns whether Windows keeps the name for a device, with whatever ending.
fn is_device_name(segment: &str) -> bool {
    if matches!(segment, "con" | "prn" | "aux" | "nul") {
        return true;
    }
    let port = segment
        .strip_prefix("com")
        .or_else(|| segment.strip_prefix("lpt"));
    port.is_some_and(|port| {
        let mut chars = port.chars();
        matches!(
            (chars.next(), chars.next()),
            (Some('0'..='9' | '¹' | '²' | '³'), None)
        )
    })
}

/// Returns the segment for a text that holds no letter and no digit.
fn untitled(text: &str) -> String {
    format!("untitled-{}", digest::hex(&[text], SUFFIX_DIGITS / 2))
}

/// Returns `segment`, cut where needed, followed by a suffix made from `seed`.
fn suffixed(segment: &str, seed: &str) -> String {
    let mut end = segment.len().min(MAX_SEGMENT_BYTES - SUFFIX_DIGITS - 1);
    while !segment.is_char_boundary(end) {
        end -= 1;
    }
    let stem = segment[..end].trim_end_matches('-');
    format!("{stem}-{}", digest::hex(&[seed], SUFFIX_DIGITS / 2))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn titles_of_every_script_keep_their_letters() {
        for (title, expected) in [
            ("大语言模型概述", "大语言模型概述"),
            ("断路器自动恢复", "断路器自动恢复"),
            ("한글 테스트", "한글-테스트"),
            ("हिन्दी भाषा", "हिन्दी-भाषा"),
            (
                "Новосибирск: Красный проспект",
                "новосибирск-красный-проспект",
            ),
            (
                "Coupon Enable/Disable Feature",
                "coupon-enable-disable-feature",
            ),
            ("Release 1.10...", "release-1-10"),
            ("snake_case -- and  more", "snake_case-and-more"),
            ("Cafe\u{301}", "café"),
            ("İstanbul", "i\u{307}stanbul"),
            ("1\u{fe0f}\u{20e3} first", "1-first"),
            ("Straße", "straße"),
        ] {
            assert_eq!(Slug::from_title(title).as_str(), expected, "{title}");
        }
    }

    #[test]
    fn a_title_without_letters_gets_a_stable_name_of_its_own() {
        let rocket = Slug::from_title("🚀");
        assert_eq!(rocket, Slug::from_title("🚀"));
        assert!(rocket.as_str().starts_with("untitled-") && rocket.as_str().len() == 17);
        let names: HashSet<_> = ["🚀", "🎉", "!!!", "", "..."]
            .map(Slug::from_title)
            .into_iter()
            .collect();
        assert_eq!(names.len(), 5);
    }

    #[test]
    fn paths_are_structure_and_never_leave_the_root() {
        for (path, expected) in [
            ("People/Alice Smith.md", "people/alice-smith"),
            ("a\\b.MD", "a/b"),
            ("../../etc/passwd", "etc/passwd"),
            ("a/../../b", "b"),
            ("%2e%2e/x", "2e-2e/x"),
            ("C:\\x", "c/x"),
            ("\\\\srv\\x", "srv/x"),
            ("/d%3A/PyCode", "d-3a/pycode"),
            ("./x/./y/", "x/y"),
            ("skills/search", "skills/search"),
        ] {
            assert_eq!(Slug::from_path(path).as_str(), expected, "{path}");
        }
        assert!(Slug::from_path(".md").as_str().starts_with("untitled-"));
        assert!(Slug::from_path("..").as_str().starts_with("untitled-"));
    }

    #[test]
    fn device_names_and_long_names_get_a_suffix() {
        for name in ["CON", "nul", "COM1", "lpt9", "COM¹", "Aux"] {
            let slug = Slug::from_title(name);
            assert_eq!(slug.as_str().len(), name.to_lowercase().len() + 9, "{slug}");
        }
        assert_eq!(Slug::from_title("console").as_str(), "console");
        let long = Slug::from_title(&"ü".repeat(300));
        assert!(long.as_str().len() <= MAX_SEGMENT_BYTES);
        assert_ne!(long, Slug::from_title(&"ü".repeat(301)));
        let deep = Slug::from_path(&"abcdefghij/".repeat(40));
        assert!(deep.as_str().len() <= MAX_SLUG_BYTES);
        assert_ne!(deep, Slug::from_path(&"abcdefghij/".repeat(41)));
    }

    #[test]
    fn strict_parsing_refuses_what_is_not_canonical() {
        for bad in [
            "A", "a b", "/a", "a/", "a//b", "..", "a/../b", "a\\b", "con", "-a", "a-", "a--b",
            "a.md", "a\0",
        ] {
            assert!(
                matches!(Slug::parse(bad), Err(SlugError::NotCanonical { .. })),
                "{bad:?}"
            );
        }
        assert_eq!(Slug::parse(""), Err(SlugError::Empty));
        assert_eq!(
            Slug::parse(&"a/".repeat(101)),
            Err(SlugError::TooLong { bytes: 202 })
        );
        let slug = Slug::parse("people/alice_b-1").unwrap();
        assert_eq!(
            (slug.parent(), slug.last_segment()),
            (Some("people"), "alice_b-1")
        );
        assert_eq!(slug.to_relative_path(), "people/alice_b-1.md");
        assert!(
            Slug::parse("skills/x").unwrap().is_reserved()
                && Slug::parse("cli-commands/x").unwrap().is_cli_command()
        );
        assert!(!Slug::parse("skills").unwrap().is_reserved());
    }

    #[test]
    fn serde_checks_the_form() {
        let slug: Slug = serde_json::from_str("\"a/b\"").unwrap();
        assert_eq!(serde_json::to_string(&slug).unwrap(), "\"a/b\"");
        assert!(serde_json::from_str::<Slug>("\"../b\"").is_err());
    }

    #[test]
    fn a_collision_gets_another_name_that_depends_on_the_seed() {
        let slug = Slug::from_path("notes/foo");
        let other = slug.with_hash_suffix("Foo!.md");
        assert_ne!(slug, other);
        assert_eq!(other, slug.with_hash_suffix("Foo!.md"));
        assert_ne!(other, slug.with_hash_suffix("Foo?.md"));
        assert_eq!(other.parent(), Some("notes"));
        let full = Slug::from_path(&format!(
            "{}/{}/{}",
            "a".repeat(70),
            "b".repeat(70),
            "c".repeat(58)
        ));
        assert_eq!(full.as_str().len(), MAX_SLUG_BYTES);
        let full = full.with_hash_suffix("x");
        assert_eq!(Slug::parse(full.as_str()), Ok(full.clone()));
    }

    #[test]
    fn a_thousand_titles_of_twelve_scripts_stay_apart() {
        let words = [
            "term",
            "срок",
            "语言",
            "言葉",
            "단어",
            "शब्द",
            "λέξη",
            "كلمة",
            "מילה",
            "คำ",
            "ბრუნი",
            "բառ",
        ];
        let mut seen = HashSet::new();
        for index in 0..1008 {
            assert!(seen.insert(Slug::from_title(&format!("{} {index}", words[index % 12]))));
        }
    }

    #[test]
    fn every_character_folds_to_a_fixed_point() {
        for c in '\0'..=char::MAX {
            let text = format!("a{c}b");
            let slug = Slug::from_title(&text);
            assert_eq!(Slug::parse(slug.as_str()).as_ref(), Ok(&slug), "{c:?}");
        }
    }

    #[test]
    fn a_variation_selector_does_not_keep_marks_out_of_order() {
        for text in [
            "\u{1dd3}\u{fe00}\u{111c0}A",
            "a\u{1dd3}\u{fe0f}\u{111c0}",
            "e\u{fe0f}\u{301}",
        ] {
            let slug = Slug::from_title(text);
            assert_eq!(Slug::parse(slug.as_str()).as_ref(), Ok(&slug), "{text:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn made_slugs_are_canonical(text in "\\PC{0,120}|[a-c./\\\\:]{0,260}|\\p{M}{0,5}[\\p{L}\\p{M}\u{fe0f}\u{200d} ]{0,90}", seed in ".{0,8}") {
            for slug in [Slug::from_path(&text), Slug::from_title(&text), Slug::from_path(&text).with_hash_suffix(&seed)] {
                prop_assert_eq!(Slug::parse(slug.as_str()), Ok(slug.clone()));
                prop_assert_eq!(&Slug::from_path(slug.as_str()), &slug);
                prop_assert_eq!(&Slug::from_path(&slug.to_relative_path()), &slug);
                drop(Slug::parse(&text));
            }
        }
    }
}
