//! Just enough of Rust's lexical grammar to tell code, string literals and comments apart.
//!
//! A text search would trip over comments that explain a key, and a full parser would be a heavy dependency for one rule.

/// A piece of source text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// An identifier, keyword or number.
    Word(String),
    /// The content of a string literal, escapes left as written.
    Text(String),
    /// A comment, markers included.
    Comment(String),
    /// Any other character.
    Sign(char),
}

/// A token and the line it starts on, counted from one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) token: Token,
    pub(crate) line: usize,
}

/// Splits source text into tokens; broken source ends the last token at the end of the text.
pub(crate) fn tokens(source: &str) -> Vec<Placed> {
    let characters: Vec<char> = source.chars().collect();
    Lexer {
        characters: &characters,
        position: 0,
        line: 1,
        found: Vec::new(),
    }
    .run()
}

/// Splits source text into tokens and leaves the comments out.
pub(crate) fn code_tokens(source: &str) -> Vec<Placed> {
    let mut found = tokens(source);
    found.retain(|placed| !matches!(placed.token, Token::Comment(_)));
    found
}

struct Lexer<'a> {
    characters: &'a [char],
    position: usize,
    line: usize,
    found: Vec<Placed>,
}

impl Lexer<'_> {
    fn run(mut self) -> Vec<Placed> {
        while let Some(character) = self.peek(0) {
            match character {
                '/' if self.peek(1) == Some('/') => self.line_comment(),
                '/' if self.peek(1) == Some('*') => self.block_comment(),
                '"' => self.string(),
                '\'' => self.quote(),
                _ if character.is_alphanumeric() || character == '_' => self.word(),
                _ => {
                    let line = self.line;
                    self.advance();
                    if !character.is_whitespace() {
                        self.push(Token::Sign(character), line);
                    }
                }
            }
        }
        self.found
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.position + ahead).copied()
    }

    fn advance(&mut self) -> Option<char> {
        let character = self.peek(0)?;
        self.position += 1;
        if character == '\n' {
            self.line += 1;
        }
        Some(character)
    }

    fn push(&mut self, token: Token, line: usize) {
        self.found.push(Placed { token, line });
    }

    fn line_comment(&mut self) {
        let line = self.line;
        let mut text = String::new();
        while self.peek(0).is_some_and(|character| character != '\n') {
            text.extend(self.advance());
        }
        self.push(Token::Comment(text), line);
    }

    fn block_comment(&mut self) {
        let line = self.line;
        let mut text = String::new();
        let mut depth = 0_usize;
        while let Some(character) = self.advance() {
            text.push(character);
            match (character, self.peek(0)) {
                ('/', Some('*')) => {
                    text.extend(self.advance());
                    depth += 1;
                }
                ('*', Some('/')) => {
                    text.extend(self.advance());
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                _ => {}
            }
        }
        self.push(Token::Comment(text), line);
    }

    fn string(&mut self) {
        let line = self.line;
        self.advance();
        let mut text = String::new();
        while let Some(character) = self.advance() {
            match character {
                '"' => break,
                '\\' => {
                    text.push('\\');
                    text.extend(self.advance());
                }
                _ => text.push(character),
            }
        }
        self.push(Token::Text(text), line);
    }

    /// A raw string, whose opening hashes have been counted and passed.
    fn raw_string(&mut self, hashes: usize) {
        let line = self.line;
        self.advance();
        let mut text = String::new();
        while let Some(character) = self.advance() {
            if character == '"' && (0..hashes).all(|ahead| self.peek(ahead) == Some('#')) {
                self.position += hashes;
                break;
            }
            text.push(character);
        }
        self.push(Token::Text(text), line);
    }

    /// A character literal, or the tick of a lifetime or label.
    fn quote(&mut self) {
        self.advance();
        match (self.peek(0), self.peek(1)) {
            (Some('\\'), _) => {
                self.advance();
                self.advance();
                while self.peek(0).is_some_and(|character| character != '\'') {
                    self.advance();
                }
                self.advance();
            }
            (Some(_), Some('\'')) => {
                self.advance();
                self.advance();
            }
            _ => {}
        }
    }

    fn word(&mut self) {
        let line = self.line;
        let mut word = String::new();
        while let Some(character) = self
            .peek(0)
            .filter(|character| character.is_alphanumeric() || *character == '_')
        {
            word.push(character);
            self.advance();
        }
        // The prefixes of string literals: r, b, c and their pairs.
        if matches!(word.as_str(), "r" | "br" | "cr") {
            let rest = &self.characters[self.position..];
            let hashes = rest
                .iter()
                .take_while(|&&character| character == '#')
                .count();
            if self.peek(hashes) == Some('"') {
                self.position += hashes;
                return self.raw_string(hashes);
            }
            if word == "r" && hashes == 1 {
                // A raw identifier: the name follows as a word of its own.
                self.position += 1;
                return;
            }
        }
        if matches!(word.as_str(), "b" | "c") && self.peek(0) == Some('"') {
            return self.string();
        }
        if word == "b" && self.peek(0) == Some('\'') {
            return self.quote();
        }
        self.push(Token::Word(word), line);
    }
}

#[cfg(test)]
mod tests {
    use super::{Token, code_tokens, tokens};

    fn check(source: &str, expected: &[&str]) {
        let found: Vec<String> = code_tokens(source)
            .into_iter()
            .map(|placed| match placed.token {
                Token::Word(word) => word,
                Token::Text(text) => format!("\"{text}\""),
                Token::Comment(comment) => comment,
                Token::Sign(sign) => sign.to_string(),
            })
            .collect();
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn code_text_and_comments_are_told_apart() {
        check(
            "a.b // c.d \"e\"\n/* f /* g */ h */ i",
            &["a", ".", "b", "i"],
        );
        check(
            r#"x("in \" // text", 'y', '"')"#,
            &["x", "(", "\"in \\\" // text\"", ",", ",", ")"],
        );
        check(
            r##"r#"raw " text"# br"b" b"c" c"d" r#type"##,
            &["\"raw \" text\"", "\"b\"", "\"c\"", "\"d\"", "type"],
        );
        check(
            "fn f<'a>(x: &'a str) -> char { '\\'' }",
            &[
                "fn", "f", "<", "a", ">", "(", "x", ":", "&", "a", "str", ")", "-", ">", "char",
                "{", "}",
            ],
        );
        check("b'\"' z", &["z"]);
        check("'\\u{1F600}' z", &["z"]);
        check("\"never closed", &["\"never closed\""]);
        check("/* never closed", &[]);
    }

    #[test]
    fn lines_are_counted_through_literals_and_comments() {
        let found = tokens("a\n/* \n */ b \"x\ny\" c");
        let lines: Vec<usize> = found.iter().map(|placed| placed.line).collect();
        assert_eq!(lines, [1, 2, 3, 3, 4]);
        assert_eq!(found[1].token, Token::Comment("/* \n */".to_owned()));
    }
}
