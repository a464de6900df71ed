//! Signed manifests: keys, and the signature that may stand beside a manifest as `<name>.plugin.toml.sig`.
//!
//! A manifest names the hash of its library, so signing it signs both. A signature is only worth what the list of keys is,
//! and that list is the operator's (`[[key]]` in the allow file). The file holds 128 hexadecimal digits; the key that made
//! them may follow in a second line. That line proves nothing and is used for one thing: to say whether a signature that
//! does not fit was made with another key or for another manifest.

use std::fmt;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ed25519_dalek::{Signature, Signer as _, VerifyingKey};
use thiserror::Error;

use crate::files::{self, FileFault};
use crate::registry::Candidate;

/// What is appended to a manifest's file name.
pub const SIGNATURE_SUFFIX: &str = ".sig";

/// Bytes a signature's or a key's file may have.
const FILE_LIMIT: u64 = 1024;

/// First line of a key's file.
const KEY_HEADER: &str = "# Strata plugin signing key. Keep it secret.";

/// A key that signatures are checked with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Parses a key of 64 hexadecimal digits; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bytes = from_hex::<32>(text).ok_or("it is not 64 lower-case hexadecimal digits")?;
        let key = VerifyingKey::from_bytes(&bytes).map_err(|_| "it is not an ed25519 key")?;
        // Such a key accepts signatures that nobody made.
        if key.is_weak() {
            return Err("it is a weak key".to_owned());
        }
        Ok(Self(key))
    }

    fn verifies(&self, signature: &Signature, manifest: &[u8]) -> bool {
        self.0.verify_strict(manifest, signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&to_hex(self.0.as_bytes()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PublicKey({self})")
    }
}

/// A key that manifests are signed with. It is never shown.
pub struct SigningKey(ed25519_dalek::SigningKey);

impl fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SigningKey(for {})", self.public())
    }
}

/// A signing key cannot be made, kept or read.
#[derive(Debug, Error)]
pub enum KeyError {
    /// The system gives no randomness. Report it.
    #[error("the system gives no random numbers: {reason}")]
    Random {
        /// What the system said.
        reason: String,
    },
    /// The file cannot be written. Name another, or correct the folder's rights; an existing file is never replaced.
    #[error("cannot write the key file `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file cannot be read. Correct its path or rights.
    #[error("cannot read the key file `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others may read the file. Make it private, or make another key if somebody may have read it.
    #[error("the key file `{}` can be read by others; run `chmod 600` on it", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// The file holds no signing key. Name another.
    #[error("`{}` is not a signing key: {reason}", path.display())]
    NotAKey {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl SigningKey {
    /// Makes a new key.
    pub fn generate() -> Result<Self, KeyError> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|error| KeyError::Random {
            reason: error.to_string(),
        })?;
        Ok(Self(ed25519_dalek::SigningKey::from_bytes(&secret)))
    }

    /// Writes the key to a new file that only its owner may read.
    pub fn write_new(&self, path: &Path) -> Result<(), KeyError> {
        let write = || {
            let mut options = std::fs::OpenOptions::new();
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)?;
            let secret = to_hex(self.0.as_bytes());
            file.write_all(format!("{KEY_HEADER}\n{secret}\n").as_bytes())?;
            file.sync_all()
        };
        write().map_err(|source| KeyError::Write {
            path: path.to_owned(),
            source,
        })
    }

    /// Reads a key from a file that only its owner may read.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let not_a_key = |reason: String| KeyError::NotAKey {
            path: path.to_owned(),
            reason,
        };
        let unreadable = |source| KeyError::Read {
            path: path.to_owned(),
            source,
        };
        let mode = std::fs::metadata(path)
            .map_err(unreadable)?
            .permissions()
            .mode();
        if mode & 0o077 != 0 {
            return Err(KeyError::Exposed {
                path: path.to_owned(),
            });
        }
        let bytes =
            files::read(path, FILE_LIMIT).map_err(|fault| match fault.reason(FILE_LIMIT) {
                Ok(reason) => not_a_key(reason),
                Err(source) => unreadable(source),
            })?;
        let text = String::from_utf8_lossy(&bytes);
        let secret = text
            .strip_prefix(KEY_HEADER)
            .map(str::trim)
            .and_then(from_hex::<32>);
        secret
            .map(|secret| Self(ed25519_dalek::SigningKey::from_bytes(&secret)))
            .ok_or_else(|| not_a_key("make one with `strata plugins keygen`".to_owned()))
    }

    /// Returns the key that its signatures are checked with.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs the manifest of a candidate as it was read, and returns the text of the signature's file.
    pub fn sign_candidate(&self, candidate: &Candidate) -> String {
        self.sign(&candidate.text)
    }

    /// Signs a manifest's bytes and returns the text of the signature's file.
    pub fn sign(&self, manifest: &[u8]) -> String {
        let signature = to_hex(&self.0.sign(manifest).to_bytes());
        format!("{signature}\nkey {}\n", self.public())
    }
}

/// Returns where the signature of a manifest stands.
pub fn signature_path(manifest: &Path) -> PathBuf {
    let mut name = manifest.as_os_str().to_owned();
    name.push(SIGNATURE_SUFFIX);
    PathBuf::from(name)
}

/// The signature that stands beside a manifest.
#[derive(Debug)]
pub(crate) struct Detached {
    signature: Signature,
    signer: Option<PublicKey>,
}

impl Detached {
    /// Reads the signature of a manifest; `None` when there is none, an error that says what is wrong with it otherwise.
    pub(crate) fn beside(manifest: &Path) -> Result<Option<Self>, String> {
        match files::read(&signature_path(manifest), FILE_LIMIT) {
            Ok(bytes) => Self::parse(&String::from_utf8_lossy(&bytes)).map(Some),
            Err(FileFault::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(fault) => Err(match fault.reason(FILE_LIMIT) {
                Ok(reason) => format!("its signature cannot be used: {reason}"),
                Err(error) => format!("its signature cannot be read: {error}"),
            }),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default().trim();
        let signature = from_hex::<64>(first).ok_or_else(|| {
            format!("its signature has {} characters where 128 hexadecimal digits belong; sign it again", first.len())
        })?;
        let named = lines
            .next()
            .and_then(|line| line.trim().strip_prefix("key "));
        Ok(Self {
            signature: Signature::from_bytes(&signature),
            signer: named.and_then(|key| PublicKey::parse(key).ok()),
        })
    }

    /// Returns whether a key made this signature for these bytes.
    pub(crate) fn fits(&self, key: &PublicKey, manifest: &[u8]) -> bool {
        key.verifies(&self.signature, manifest)
    }

    /// Returns why none of the listed keys fits.
    pub(crate) fn misfit(&self, listed: &[PublicKey], manifest: &[u8]) -> String {
        match self.signer {
            Some(signer) if self.fits(&signer, manifest) => {
                format!("it is signed with key {signer}, which is not listed; if you trust its owner, run `strata plugins trust --key`")
            }
            Some(signer) if listed.contains(&signer) => {
                "its manifest was changed after it was signed; install it again".to_owned()
            }
            Some(signer) => {
                format!("its manifest was changed after it was signed, with key {signer}, which is not listed either; install it again")
            }
            None => "its signature fits none of the listed keys: its manifest was changed, or another key signed it".to_owned(),
        }
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from_digit(u32::from(digit), 16).unwrap_or_default());
            }
            text
        })
}

/// Returns the bytes of exactly so many lower-case hexadecimal digits.
fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &[u8] = b"id = \"tier-v3\"\n";

    fn key(number: u8) -> SigningKey {
        SigningKey(ed25519_dalek::SigningKey::from_bytes(&[number; 32]))
    }

    /// The first test vector of RFC 8032 shows that keys and signatures are the ones everybody else means.
    #[test]
    fn signatures_are_those_of_the_standard() {
        let secret = from_hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
            .expect("digits");
        let key = SigningKey(ed25519_dalek::SigningKey::from_bytes(&secret));
        assert_eq!(
            key.public().to_string(),
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
        );
        let text = key.sign(b"");
        assert!(
            text.starts_with("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"),
            "{text}"
        );
    }

    #[test]
    fn a_signature_fits_its_key_and_its_manifest_only() {
        let detached = Detached::parse(&key(1).sign(MANIFEST)).expect("well formed");
        assert!(detached.fits(&key(1).public(), MANIFEST));
        assert!(!detached.fits(&key(2).public(), MANIFEST));
        let mut changed = MANIFEST.to_vec();
        changed[0] ^= 1;
        assert!(!detached.fits(&key(1).public(), &changed));
    }

    #[test]
    fn a_misfit_says_whether_key_or_manifest_is_wrong() {
        let (listed, text) = ([key(1).public()], key(2).sign(MANIFEST));
        let stranger = Detached::parse(&text).expect("well formed");
        let reason = stranger.misfit(&listed, MANIFEST);
        assert!(
            reason.starts_with("it is signed with key ") && reason.contains("not listed"),
            "{reason}"
        );
        let reason = stranger.misfit(&listed, b"changed");
        assert!(
            reason.contains("was changed") && reason.contains("not listed either"),
            "{reason}"
        );
        let own = Detached::parse(&key(1).sign(MANIFEST)).expect("well formed");
        let reason = own.misfit(&listed, b"changed");
        assert_eq!(
            reason,
            "its manifest was changed after it was signed; install it again"
        );
        let bare = text.lines().next().expect("a line");
        let reason = Detached::parse(bare)
            .expect("well formed")
            .misfit(&listed, MANIFEST);
        assert!(
            reason.starts_with("its signature fits none of the listed keys"),
            "{reason}"
        );
    }

    #[test]
    fn what_is_not_a_signature_or_a_key_is_refused() {
        let text = key(1).sign(MANIFEST);
        let error = Detached::parse(&text[..127]).expect_err("cut short");
        assert!(error.contains("has 127 characters where 128"), "{error}");
        assert!(Detached::parse("").is_err());
        assert!(Detached::parse(&"g".repeat(128)).is_err());
        assert!(PublicKey::parse(&"0".repeat(63)).is_err());
        let weak = PublicKey::parse(&format!("01{}", "00".repeat(31))).expect_err("weak");
        assert_eq!(weak, "it is a weak key");
    }

    #[test]
    fn a_key_file_is_private_and_never_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        let key = SigningKey::generate().expect("random");
        key.write_new(&path).expect("written");
        let mode =
            |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(
            SigningKey::read(&path).expect("read").public(),
            key.public()
        );
        assert!(matches!(key.write_new(&path), Err(KeyError::Write { .. })));

        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("set");
        assert!(matches!(
            SigningKey::read(&path),
            Err(KeyError::Exposed { .. })
        ));
        let other = folder.path().join("other");
        std::fs::write(&other, "hello").expect("written");
        std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o600)).expect("set");
        assert!(matches!(
            SigningKey::read(&other),
            Err(KeyError::NotAKey { .. })
        ));
        assert!(!format!("{key:?}").contains(&to_hex(key.0.as_bytes())));
    }
}
