//! The certificates of a process, as PEM text: what each transport with TLS is made of.
//!
//! Certificates are renewed while queries run. A [`TlsIdentity`] reads its files again when a
//! transport asks for it before a handshake; open connections go on with what they began with.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::error::{DataFusionError, Result};
use parking_lot::{Mutex, RwLock};

/// A burst of connections reads the files once.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Far more than any chain has: a wrong file is refused before it fills the memory.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The end of each error's text.
const REMEDY: &str =
    "`tributary certs --out DIR --host NAME` makes a certificate, its key and its CA";

/// Who this process is towards its peers, and whom it trusts: a certificate chain, its private key,
/// and the CA certificates that a peer's chain must lead to. A clone is the same identity.
#[derive(Clone)]
pub struct TlsIdentity(Arc<Inner>);

struct Inner {
    /// None for an identity that was given as text.
    files: Option<Files>,
    current: RwLock<Arc<TlsPem>>,
    /// Held while files are read, so that one thread reads them.
    reading: Mutex<Reading>,
}

struct Reading {
    last: Instant,
    /// What was wrong with the files, already logged.
    problem: Option<String>,
}

impl TlsIdentity {
    /// An identity of PEM texts, which stays as it is.
    ///
    /// # Errors
    /// `Configuration` for a text that isn't the PEM it should be.
    pub fn from_pem(
        chain: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
        roots: impl Into<Vec<u8>>,
    ) -> Result<Self> {
        let pem =
            TlsPem { chain: chain.into(), key: key.into(), roots: roots.into(), generation: 1 };
        for part in TlsPart::ALL {
            check(part, pem.part(part)).map_err(|problem| error(&part.to_string(), &problem))?;
        }
        Ok(Self::new(None, pem))
    }

    /// The identity in these files: the node's certificate and those of intermediate CAs, its key,
    /// and the trusted CA certificates.
    ///
    /// # Errors
    /// `Configuration` for a file that can't be read or isn't the PEM it should be.
    pub fn from_files(
        chain: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        roots: impl Into<PathBuf>,
    ) -> Result<Self> {
        let files = Files { chain: chain.into(), key: key.into(), roots: roots.into() };
        let pem = files.read(1)?;
        Ok(Self::new(Some(files), pem))
    }

    /// The identity in a folder as `tributary certs` makes it: `node.pem`, `node.key`, `ca.pem`.
    ///
    /// # Errors
    /// Those of [`Self::from_files`].
    pub fn from_dir(dir: impl AsRef<Path>) -> Result<Self> {
        let dir = dir.as_ref();
        Self::from_files(dir.join("node.pem"), dir.join("node.key"), dir.join("ca.pem"))
    }

    fn new(files: Option<Files>, pem: TlsPem) -> Self {
        Self(Arc::new(Inner {
            files,
            current: RwLock::new(Arc::new(pem)),
            reading: Mutex::new(Reading { last: Instant::now(), problem: None }),
        }))
    }

    /// What the files held when they were read last.
    pub fn current(&self) -> Arc<TlsPem> {
        Arc::clone(&self.0.current.read())
    }

    /// Reads the files again if that was a second ago or longer. A new version that is incomplete
    /// or can't be read is logged once, and the old one stays.
    ///
    /// This blocks on the file system. While another thread reads, it returns at once.
    pub fn refresh(&self) {
        let Some(mut reading) = self.0.reading.try_lock() else { return };
        if reading.last.elapsed() < REFRESH_INTERVAL {
            return;
        }
        reading.last = Instant::now();
        let problem = match self.read_again() {
            Ok(is_new) => {
                if is_new || reading.problem.is_some() {
                    log::info!("{self:?} was read again");
                }
                None
            }
            Err(error) => Some(error.strip_backtrace()),
        };
        if let Some(problem) = &problem
            && reading.problem.as_ref() != Some(problem)
        {
            log::warn!("certificates stay as they are: {problem}");
        }
        reading.problem = problem;
    }

    /// Reads the files now, and returns whether they hold something new.
    ///
    /// # Errors
    /// `Configuration` for a new version that is refused; the old one stays.
    pub fn reload(&self) -> Result<bool> {
        let mut reading = self.0.reading.lock();
        reading.last = Instant::now();
        let is_new = self.read_again()?;
        reading.problem = None;
        Ok(is_new)
    }

    /// The caller holds `reading`. Contents are compared instead of modification times, which have
    /// a tick's resolution: three small files, once a second at most.
    fn read_again(&self) -> Result<bool> {
        let Some(files) = &self.0.files else { return Ok(false) };
        let current = self.current();
        let new = files.read(current.generation + 1)?;
        let is_new = TlsPart::ALL.iter().any(|part| new.part(*part) != current.part(*part));
        if is_new {
            *self.0.current.write() = Arc::new(new);
        }
        Ok(is_new)
    }

    /// A part's name for people: its file's, or what it is.
    pub fn name(&self, part: TlsPart) -> String {
        match &self.0.files {
            Some(files) => files.path(part).display().to_string(),
            None => part.to_string(),
        }
    }
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("TlsIdentity");
        if let Some(files) = &self.0.files {
            fields.field("chain", &files.chain).field("key", &files.key);
            fields.field("roots", &files.roots);
        }
        fields.field("generation", &self.current().generation).finish()
    }
}

/// One version of an identity's texts.
pub struct TlsPem {
    /// The certificate of this process, then those of the intermediate CAs.
    pub chain: Vec<u8>,
    /// The private key of the first certificate.
    pub key: Vec<u8>,
    /// The trusted CA certificates.
    pub roots: Vec<u8>,
    /// Grows with each new version.
    pub generation: u64,
}

impl TlsPem {
    fn part(&self, part: TlsPart) -> &[u8] {
        match part {
            TlsPart::Chain => &self.chain,
            TlsPart::Key => &self.key,
            TlsPart::Roots => &self.roots,
        }
    }
}

impl fmt::Debug for TlsPem {
    /// Shows no text: one of them is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsPem").field("generation", &self.generation).finish_non_exhaustive()
    }
}

/// A part of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPart {
    /// The certificate chain.
    Chain,
    /// The private key.
    Key,
    /// The trusted CA certificates.
    Roots,
}

impl TlsPart {
    const ALL: [Self; 3] = [Self::Chain, Self::Key, Self::Roots];
}

impl fmt::Display for TlsPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Chain => "the certificate chain",
            Self::Key => "the private key",
            Self::Roots => "the CA certificates",
        })
    }
}

struct Files {
    chain: PathBuf,
    key: PathBuf,
    roots: PathBuf,
}

impl Files {
    fn read(&self, generation: u64) -> Result<TlsPem> {
        Ok(TlsPem {
            chain: self.read_part(TlsPart::Chain)?,
            key: self.read_part(TlsPart::Key)?,
            roots: self.read_part(TlsPart::Roots)?,
            generation,
        })
    }

    fn read_part(&self, part: TlsPart) -> Result<Vec<u8>> {
        let path = self.path(part);
        read_file(path)
            .and_then(|bytes| check(part, &bytes).map(|()| bytes))
            .map_err(|problem| error(&path.display().to_string(), &problem))
    }

    fn path(&self, part: TlsPart) -> &Path {
        match part {
            TlsPart::Chain => &self.chain,
            TlsPart::Key => &self.key,
            TlsPart::Roots => &self.roots,
        }
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|e| format!("can't be read ({e})"))?;
    match u64::try_from(bytes.len()) {
        Ok(n_bytes) if n_bytes <= MAX_FILE_BYTES => Ok(bytes),
        _ => Err("is too long for a PEM file".to_owned()),
    }
}

/// Looks at the marks of the sections only: transports decode what is between them. Whoever
/// rewrites a file in place may be caught halfway, with a section that has no end.
fn check(part: TlsPart, bytes: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(bytes);
    let (found, wanted) = match part {
        TlsPart::Chain | TlsPart::Roots => {
            (text.contains("-----BEGIN CERTIFICATE-----"), "certificate")
        }
        // There is one with the algorithm in front of these words too.
        TlsPart::Key => (text.contains("PRIVATE KEY-----"), "private key"),
    };
    if text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----") {
        return Err(
            "is encrypted: write it in plain with `openssl pkey -in FILE -out FILE`".to_owned()
        );
    }
    if !found {
        return Err(format!("holds no {wanted} in PEM format"));
    }
    if text.matches("-----BEGIN ").count() != text.matches("-----END ").count() {
        return Err(format!("holds an incomplete {wanted}"));
    }
    Ok(())
}

fn error(name: &str, problem: &str) -> DataFusionError {
    DataFusionError::Configuration(format!("TLS: {name} {problem}; {REMEDY}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn certificate(content: &str) -> String {
        format!("-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n")
    }

    fn key(content: &str) -> String {
        format!("-----BEGIN PRIVATE KEY-----\n{content}\n-----END PRIVATE KEY-----\n")
    }

    fn write(dir: &Path, content: &str) {
        fs::write(dir.join("node.pem"), certificate(content)).expect("the folder is writable");
        fs::write(dir.join("node.key"), key(content)).expect("the folder is writable");
        fs::write(dir.join("ca.pem"), certificate("ca")).expect("the folder is writable");
    }

    #[test]
    fn new_files_are_a_new_generation_and_old_ones_are_not() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        write(dir.path(), "first");
        let identity = TlsIdentity::from_dir(dir.path()).expect("the files are complete");
        let first = identity.current();
        assert_eq!((first.generation, &first.key), (1, &key("first").into_bytes()));
        assert!(!identity.reload().expect("the files are complete"));
        assert_eq!(identity.current().generation, 1);

        write(dir.path(), "other");
        identity.0.reading.lock().last = Instant::now() + Duration::from_secs(3600);
        identity.refresh();
        assert_eq!(identity.current().generation, 1, "read again within the interval");
        assert!(identity.clone().reload().expect("the files are complete"));
        let second = identity.current();
        assert_eq!((second.generation, &second.key), (2, &key("other").into_bytes()));
        assert_eq!(first.generation, 1, "what a handshake has taken doesn't change");
    }

    #[test]
    fn a_refresh_after_the_interval_reads_and_keeps_the_old_version_of_a_bad_one() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        write(dir.path(), "first");
        let identity = TlsIdentity::from_dir(dir.path()).expect("the files are complete");
        let refresh = || {
            identity.0.reading.lock().last -= REFRESH_INTERVAL;
            identity.refresh();
            (identity.current().generation, identity.0.reading.lock().problem.clone())
        };
        fs::write(dir.path().join("node.pem"), &certificate("other")[..40]).expect("writable");
        let (generation, problem) = refresh();
        assert_eq!(generation, 1);
        let problem = problem.expect("the problem is noted");
        assert!(problem.contains("node.pem holds an incomplete certificate"), "{problem}");

        write(dir.path(), "other");
        assert_eq!(refresh(), (2, None));
    }

    #[test]
    fn errors_name_the_file_and_the_remedy() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let open = || TlsIdentity::from_dir(dir.path()).expect_err("a bad file").to_string();
        let refuse = |file: &str, content: &[u8], problem: &str| {
            write(dir.path(), "good");
            fs::write(dir.path().join(file), content).expect("the folder is writable");
            let text = open();
            assert!(text.contains(&format!("{file} {problem}")), "{text}");
            assert!(text.contains("tributary certs --out DIR --host NAME"), "{text}");
        };
        refuse("node.pem", b"", "holds no certificate");
        refuse("ca.pem", key("x").as_bytes(), "holds no certificate");
        refuse("node.key", certificate("x").as_bytes(), "holds no private key");
        refuse("node.key", &key("x").as_bytes()[..30], "holds an incomplete private key");
        let encrypted = key("x").replace("PRIVATE", "ENCRYPTED PRIVATE");
        refuse("node.key", encrypted.as_bytes(), "is encrypted");
        let long = vec![b'x'; usize::try_from(MAX_FILE_BYTES).expect("small") + 1];
        refuse("ca.pem", &long, "is too long");
        fs::remove_file(dir.path().join("node.pem")).expect("it is there");
        assert!(open().contains("node.pem can't be read"), "{}", open());
    }

    #[test]
    fn no_text_is_shown() {
        let identity =
            TlsIdentity::from_pem(certificate("a"), key("secret"), certificate("b")).expect("PEM");
        assert!(!identity.reload().expect("nothing to read"));
        let shown = format!("{identity:?} {:?}", identity.current());
        assert!(!shown.contains("secret") && !shown.contains(&format!("{:?}", b"secret")));
        assert!(shown.contains("generation: 1"), "{shown}");
        let error = TlsIdentity::from_pem(certificate("a"), "secret", "").expect_err("no key");
        assert!(error.to_string().contains("the private key holds no private key"), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
