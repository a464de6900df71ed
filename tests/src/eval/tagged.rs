//! Reading the old tagged test collections, which look like XML and are not.

/// Returns the texts between an opening and a closing tag, in order.
pub fn between<'a>(text: &'a str, open: &'a str, close: &'a str) -> impl Iterator<Item = &'a str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.find(open)? + open.len();
        let end = start + rest[start..].find(close)?;
        let inner = &rest[start..end];
        rest = &rest[end + close.len()..];
        Some(inner)
    })
}

/// Returns the relevant documents of each query from lines of `query 0 document judgement`.
pub fn judgements(text: &str) -> Vec<(usize, String)> {
    text.lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace();
            let query = fields.next()?.parse().ok()?;
            let document = fields.nth(1)?.to_owned();
            let judged: i32 = fields.next()?.parse().ok()?;
            (judged > 0).then_some((query, document))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_judgements_are_read() {
        let text = "<doc>\n<n>1</n></doc><doc><n>2</n></doc>";
        let numbers: Vec<_> = between(text, "<doc>", "</doc>")
            .flat_map(|doc| between(doc, "<n>", "</n>"))
            .collect();
        assert_eq!(numbers, ["1", "2"]);
        assert_eq!(
            judgements("1 0 184 1\n1 0 29 0\n2 0 7 3\nnonsense"),
            [(1, "184".to_owned()), (2, "7".to_owned())]
        );
    }
}
