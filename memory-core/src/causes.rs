//! An error with its causes, as text for people.
//!
//! A message of ours never repeats its cause, which hangs on `source`. So whoever shows an error walks the chain, and all
//! walk it here, because errors that only wrap another one repeat its text and each walker would have to know that.

use std::error::Error;

/// Returns an error and its causes, the outermost first.
pub fn cause_chain(error: &dyn Error) -> Vec<String> {
    let mut chain = vec![error.to_string()];
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        // Transparent wrappers repeat their inner text.
        if chain.last() != Some(&text) {
            chain.push(text);
        }
        next = cause.source();
    }
    chain
}

/// Returns an error and its causes on one line.
pub fn with_causes(error: &dyn Error) -> String {
    cause_chain(error).join(": ")
}

#[cfg(test)]
mod tests {
    use std::io;

    use thiserror::Error;

    use super::*;

    #[derive(Debug, Error)]
    enum Failed {
        #[error("could not read `/x`")]
        Read { source: io::Error },
        #[error(transparent)]
        Inner(#[from] Box<Self>),
    }

    #[test]
    fn a_chain_is_outermost_first_without_repetitions() {
        let source = io::Error::new(io::ErrorKind::PermissionDenied, "denied");
        let error = Failed::from(Box::new(Failed::Read { source }));
        assert_eq!(cause_chain(&error), ["could not read `/x`", "denied"]);
        assert_eq!(with_causes(&error), "could not read `/x`: denied");
    }
}
