//! Characters that a person does not see and a model reads.
//!
//! Unicode needs many of them: emoji families are held together by joiners, Persian and the scripts of India are written
//! with them, and ideographs are varied by selectors. So what counts is where one stands: between characters that need
//! it, one is kept; anywhere else, or twice in a row, it carries something else and goes.

use std::borrow::Cow;
use std::ops::Range;

const CONTROL: &str = "control characters";
const BIDI: &str = "bidirectional controls";
const ZERO_WIDTH: &str = "zero-width characters";
const TAG: &str = "tag characters";
const SELECTOR: &str = "variation selectors";
const PRIVATE: &str = "private-use characters";
const INVISIBLE: &str = "invisible characters";

/// The flags that are spelt with tag characters: England, Scotland, Wales.
const SPELT_FLAGS: [&str; 3] = ["gbeng", "gbsct", "gbwls"];
const BLACK_FLAG: char = '\u{1F3F4}';
const END_OF_TAGS: char = '\u{E007F}';

/// A text without its hidden characters and with plain line ends, and where each part of it stood before.
#[derive(Debug)]
pub(super) struct Bare<'a> {
    pub(super) text: Cow<'a, str>,
    /// Where hidden characters stood, in order, and of what kind they were.
    pub(super) hidden: Vec<(usize, &'static str)>,
    /// Places from which on the text stood elsewhere: here, and there.
    moves: Vec<(usize, usize)>,
}

impl Bare<'_> {
    /// Returns where a part of the bare text stood, without what was hidden at its ends.
    pub(super) fn origin(&self, part: Range<usize>) -> Range<usize> {
        let of_byte = |at: usize| {
            let moves = self.moves.partition_point(|(here, _)| *here <= at);
            moves
                .checked_sub(1)
                .map_or(at, |last| self.moves[last].1 + (at - self.moves[last].0))
        };
        let start = of_byte(part.start);
        if part.is_empty() {
            return start..start;
        }
        start..of_byte(part.end - 1) + 1
    }
}

/// Returns a text without its hidden characters.
pub(super) fn bare(text: &str) -> Bare<'_> {
    let mut bare = Bare {
        text: Cow::Borrowed(text),
        hidden: Vec::new(),
        moves: Vec::new(),
    };
    if text.is_ascii() && !text.bytes().any(|byte| is_control(byte.into())) {
        return bare;
    }
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.chars();
    // A line is looked through once, not for each mark in it.
    let (mut line_end, mut two_ways) = (0, false);
    loop {
        let at = text.len() - rest.as_str().len();
        if at >= line_end {
            let line = text[at..].split_inclusive(ends_line).next();
            line_end = at + line.map_or(0, str::len);
            two_ways = line.is_some_and(|line| line.contains(runs_leftwards));
        }
        let Some(character) = rest.next() else {
            break;
        };
        match judge(&kept, character, rest.as_str(), two_ways) {
            Verdict::Keep => kept.push(character),
            Verdict::LineEnd => kept.push('\n'),
            Verdict::KeepTags(length) => {
                kept.push(character);
                kept.extend(rest.by_ref().take(length));
            }
            Verdict::Remove(what) => bare.hidden.push((at, what)),
        }
        let next = text.len() - rest.as_str().len();
        let moved = bare.moves.last().map_or(0, |(here, there)| there - here);
        if next - kept.len() != moved {
            bare.moves.push((kept.len(), next));
        }
    }
    bare.text = Cow::Owned(kept);
    bare
}

/// What becomes of a character.
enum Verdict {
    Keep,
    /// It ends a line in an unusual way.
    LineEnd,
    /// It is a flag, and so many characters after it spell which one.
    KeepTags(usize),
    Remove(&'static str),
}

/// Decides about a character between what was kept before it and what is still to come, on a line that runs both ways
/// or does not.
fn judge(before: &str, character: char, after: &str, two_ways: bool) -> Verdict {
    let keep_if = |keep: bool, what| {
        if keep {
            Verdict::Keep
        } else {
            Verdict::Remove(what)
        }
    };
    match character {
        _ if character != '\n' && ends_line(character) => Verdict::LineEnd,
        _ if is_control(character) => Verdict::Remove(CONTROL),
        ' '..='\u{A0}' => Verdict::Keep,
        BLACK_FLAG => spelt_flag(after).map_or(Verdict::Keep, Verdict::KeepTags),
        '\u{E0000}'..='\u{E00FF}' | '\u{E01F0}'..='\u{E0FFF}' => Verdict::Remove(TAG),
        '\u{FE00}'..='\u{FE0F}'
        | '\u{E0100}'..='\u{E01EF}'
        | '\u{180B}'..='\u{180D}'
        | '\u{180F}' => keep_if(may_vary(before, character), SELECTOR),
        '\u{200D}' => keep_if(joins(before, after) || shapes(before, after), ZERO_WIDTH),
        '\u{200C}' => keep_if(shapes(before, after), ZERO_WIDTH),
        '\u{200B}' => keep_if(separates_words(before, after), ZERO_WIDTH),
        '\u{2060}' | '\u{FEFF}' => Verdict::Remove(ZERO_WIDTH),
        // The marks belong one at a time into text that runs both ways; the controls reorder what stands around them.
        '\u{200E}' | '\u{200F}' | '\u{61C}' => {
            keep_if(two_ways && !before.ends_with(is_direction_mark), BIDI)
        }
        '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{206A}'..='\u{206F}' => {
            Verdict::Remove(BIDI)
        }
        // Fillers in syllables of old Hangul, where one stands for a letter that is missing.
        '\u{115F}' => keep_if(
            after.starts_with(|next| next != character && is_old_hangul(next)),
            INVISIBLE,
        ),
        '\u{1160}' => keep_if(
            before.ends_with(|last| last != character && is_old_hangul(last)),
            INVISIBLE,
        ),
        // Mongolian spells the last vowel of some words apart from the rest.
        '\u{180E}' => keep_if(
            before.ends_with(is_mongolian) && after.starts_with(is_mongolian),
            INVISIBLE,
        ),
        '\u{AD}'
        | '\u{34F}'
        | '\u{17B4}'
        | '\u{17B5}'
        | '\u{2061}'..='\u{2065}'
        | '\u{3164}'
        | '\u{FFA0}'
        | '\u{FFF0}'..='\u{FFFB}'
        | '\u{1BCA0}'..='\u{1BCA3}'
        | '\u{1D173}'..='\u{1D17A}'
        | '\u{FDD0}'..='\u{FDEF}' => Verdict::Remove(INVISIBLE),
        '\u{E000}'..='\u{F8FF}' | '\u{F0000}'..='\u{FFFFD}' | '\u{100000}'..='\u{10FFFD}' => {
            Verdict::Remove(PRIVATE)
        }
        _ if u32::from(character) & 0xFFFE == 0xFFFE => Verdict::Remove(INVISIBLE),
        _ => Verdict::Keep,
    }
}

/// Returns whether a character ends a line, in the usual way or an unusual one.
fn ends_line(character: char) -> bool {
    matches!(
        character,
        '\n' | '\u{B}' | '\u{C}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// Returns whether a character is a control character other than a tab and the usual line ends.
fn is_control(character: char) -> bool {
    character.is_control() && !matches!(character, '\t' | '\n' | '\r')
}

/// Returns how many characters after a black flag spell which flag it is.
fn spelt_flag(after: &str) -> Option<usize> {
    SPELT_FLAGS.iter().find_map(|flag| {
        let tags = flag
            .bytes()
            .map(|byte| char::from_u32(0xE0000 + u32::from(byte)));
        let mut there = after.chars();
        let spelt = tags
            .chain([Some(END_OF_TAGS)])
            .all(|tag| tag == there.next());
        spelt.then_some(flag.len() + 1)
    })
}

/// Returns whether a selector may follow: there is one character that has variants, and it has not been varied yet.
fn may_vary(before: &str, selector: char) -> bool {
    before.chars().next_back().is_some_and(|base| match selector {
        '\u{FE0E}' | '\u{FE0F}' => is_pictographic(base) || matches!(base, '#' | '*' | '0'..='9'),
        '\u{180B}'..='\u{180D}' | '\u{180F}' => is_mongolian(base),
        '\u{E0100}'..='\u{E01EF}' => is_ideograph(base),
        _ => {
            is_ideograph(base)
                || matches!(base, '\u{1000}'..='\u{109F}' | '\u{AA60}'..='\u{AA7F}' | '\u{A840}'..='\u{A87F}'
                    | '\u{2200}'..='\u{22FF}' | '\u{2A00}'..='\u{2AFF}' | '\u{3000}'..='\u{303F}' | '\u{FF01}'..='\u{FF0F}'
                    | '\u{FF1A}'..='\u{FF1F}' | '0')
        }
    })
}

/// Returns whether two emoji are made one here.
fn joins(before: &str, after: &str) -> bool {
    let is_dress = |character: &char| matches!(character, '\u{FE0F}' | '\u{1F3FB}'..='\u{1F3FF}' | '\u{E0020}'..='\u{E007F}');
    // No emoji wears more than a few, and there may be any number that belong to none.
    let mut worn = before.chars().rev().take(4);
    let base = worn.find(|character| !is_dress(character));
    base.is_some_and(is_pictographic) && after.starts_with(is_pictographic)
}

/// Returns whether a joiner shapes the letters beside it here, as some scripts need it.
fn shapes(before: &str, after: &str) -> bool {
    match before.chars().next_back() {
        Some('\u{200C}' | '\u{200D}') => false,
        Some(letter) if is_shaped(letter) => true,
        // A letter that is shown by itself in the form that it has inside a word.
        _ => after.starts_with(is_shaped),
    }
}

/// Returns whether words that are written without blanks are kept apart here.
fn separates_words(before: &str, after: &str) -> bool {
    let is_unspaced = |character| matches!(character, '\u{E00}'..='\u{EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}' | '\u{AA60}'..='\u{AA7F}');
    before.ends_with(is_unspaced) && after.starts_with(is_unspaced)
}

fn is_direction_mark(character: char) -> bool {
    matches!(character, '\u{200E}' | '\u{200F}' | '\u{61C}')
}

fn runs_leftwards(character: char) -> bool {
    matches!(character, '\u{590}'..='\u{5FF}' | '\u{600}'..='\u{61B}' | '\u{61D}'..='\u{8FF}' | '\u{FB1D}'..='\u{FDCF}'
        | '\u{FDF0}'..='\u{FDFF}' | '\u{FE70}'..='\u{FEFE}' | '\u{10800}'..='\u{10FFF}' | '\u{1E800}'..='\u{1EFFF}')
}

/// Returns whether a character belongs to a script whose letters change with their neighbours.
fn is_shaped(character: char) -> bool {
    matches!(character, '\u{600}'..='\u{61B}' | '\u{61D}'..='\u{8FF}' | '\u{900}'..='\u{DFF}' | '\u{F00}'..='\u{109F}'
        | '\u{1700}'..='\u{17B3}' | '\u{17B6}'..='\u{180A}' | '\u{1810}'..='\u{18AF}' | '\u{1A00}'..='\u{1AAF}'
        | '\u{1B00}'..='\u{1C4F}' | '\u{A800}'..='\u{A82F}' | '\u{A840}'..='\u{A95F}' | '\u{A980}'..='\u{AAFF}'
        | '\u{ABC0}'..='\u{ABFF}' | '\u{FB50}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FDFF}' | '\u{FE70}'..='\u{FEFE}'
        | '\u{10A00}'..='\u{10AFF}' | '\u{10D00}'..='\u{10FFF}' | '\u{11000}'..='\u{11FFF}' | '\u{1E900}'..='\u{1E95F}')
}

fn is_pictographic(character: char) -> bool {
    matches!(character, '\u{A9}' | '\u{AE}' | '\u{203C}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{21FF}'
        | '\u{2300}'..='\u{23FF}' | '\u{2460}'..='\u{24FF}' | '\u{25A0}'..='\u{27BF}' | '\u{2900}'..='\u{297F}'
        | '\u{2B00}'..='\u{2BFF}' | '\u{3030}' | '\u{303D}' | '\u{3297}' | '\u{3299}' | '\u{1F000}'..='\u{1FAFF}')
}

fn is_ideograph(character: char) -> bool {
    matches!(character, '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{323AF}')
}

fn is_mongolian(character: char) -> bool {
    matches!(character, '\u{1820}'..='\u{18AA}')
}

fn is_old_hangul(character: char) -> bool {
    matches!(character, '\u{1100}'..='\u{11FF}' | '\u{A960}'..='\u{A97F}' | '\u{D7B0}'..='\u{D7FF}')
}
