//! The default embedder: a local model on ONNX Runtime, on a thread of its own.
//!
//! Inference takes milliseconds to most of a second of pure computation and wants exclusive access to the session, so
//! one thread owns it and takes batches from a channel; the async executor never runs it. A caller has one batch in
//! the channel at a time, which gives three things for nothing: a query waits behind at most one batch of a running
//! ingest, a dropped future stops its remaining batches, and memory is bounded.

mod batches;
mod cache;
mod reference;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use async_trait::async_trait;
use fastembed::{
    AutoDevicePolicy, InitOptionsUserDefined, Pooling, TextEmbedding, TokenizerFiles,
    UserDefinedEmbeddingModel,
};
use memory_core::embed::{EmbedError, Embedder, SpaceId, Vectors};
use tokio::sync::{mpsc, oneshot};

use self::cache::RecentVectors;
use super::graph;
use super::provision::{MODEL_WEIGHTS, Provisioned};
use super::runtime;

/// Computing threads of the runtime. More helps little with a model this small and takes cores from the host.
const THREADS: usize = 2;

/// Batches that may wait in the channel; every caller has at most one there.
const QUEUE: usize = 16;

/// Characters after which a text is cut before it is tokenized. The model reads the first few hundred tokens only, and
/// text that does not fill them with this many characters is blank space or one endless word.
const MAX_CHARACTERS: usize = 16_384;

/// A local model. Cloning is not offered: share it behind an `Arc`.
#[derive(Debug)]
pub struct LocalEmbedder {
    space: SpaceId,
    dims: usize,
    max_tokens: usize,
    recent: Mutex<RecentVectors>,
    worker: Worker,
}

impl LocalEmbedder {
    /// Loads a provisioned model. Takes about half a second, on the model's own thread.
    pub async fn load(provisioned: Provisioned) -> Result<Self, EmbedError> {
        let (space, dims) = (provisioned.space.clone(), provisioned.dims);
        let max_tokens = provisioned.max_tokens;
        let (ready, loaded) = oneshot::channel();
        let (jobs, queue) = mpsc::channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("strata-embed".into())
            .spawn(move || match load_model(&provisioned) {
                Ok(model) => {
                    drop(ready.send(Ok(())));
                    serve(model, queue);
                }
                Err(error) => drop(ready.send(Err(error))),
            })
            .map_err(|error| EmbedError::Failed {
                reason: format!("no thread for the model: {error}"),
            })?;
        let worker = Worker {
            jobs: Some(jobs),
            thread: Some(thread),
        };
        loaded.await.map_err(|_| stopped())??;
        tracing::debug!(space = space.as_str(), "embedding model loaded");
        Ok(Self {
            space,
            dims,
            max_tokens,
            recent: Mutex::default(),
            worker,
        })
    }

    /// Embeds a fixed sentence and returns its cosine to a stored reference, or why the model is not the right one.
    pub async fn self_check(&self) -> Result<f32, EmbedError> {
        let rows = self
            .worker
            .run(vec![reference::SENTENCE.to_owned()])
            .await?;
        let cosine = rows.first().map_or(0.0, |row| reference::cosine(row));
        if cosine > reference::LEAST_COSINE {
            Ok(cosine)
        } else {
            Err(EmbedError::Unavailable {
                reason: format!(
                    "the model's vector for a known sentence is off (cosine {cosine}), run `cargo xtask setup` after removing the model folder"
                ),
            })
        }
    }

    fn recent(&self) -> MutexGuard<'_, RecentVectors> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Embedder for LocalEmbedder {
    fn space(&self) -> &SpaceId {
        &self.space
    }

    fn dims(&self) -> usize {
        self.dims
    }

    async fn embed(&self, mut texts: Vec<String>) -> Result<Vectors, EmbedError> {
        super::refuse_blank(&texts)?;
        let query = if let [text] = &*texts {
            if let Some(vector) = self.recent().get(text) {
                return Ok(Vectors {
                    dims: self.dims,
                    data: vector,
                });
            }
            Some(text.clone())
        } else {
            None
        };
        let mut data = vec![0.0; texts.len() * self.dims];
        for batch in batches::plan(&texts, self.max_tokens) {
            let rows = self
                .worker
                .run(
                    batch
                        .iter()
                        .map(|index| cut(std::mem::take(&mut texts[*index])))
                        .collect(),
                )
                .await?;
            if rows.len() != batch.len() {
                return Err(EmbedError::Failed {
                    reason: format!("{} vectors came back for {} texts", rows.len(), batch.len()),
                });
            }
            for (index, row) in batch.into_iter().zip(rows) {
                check_row(&row, self.dims)?;
                data[index * self.dims..(index + 1) * self.dims].copy_from_slice(&row);
            }
        }
        if let Some(text) = query {
            self.recent().put(text, data.clone());
        }
        Ok(Vectors {
            dims: self.dims,
            data,
        })
    }
}

/// One batch and where its vectors go.
#[derive(Debug)]
struct Job {
    texts: Vec<String>,
    reply: oneshot::Sender<Result<Vec<Vec<f32>>, EmbedError>>,
}

/// The sending side of the model's thread.
#[derive(Debug)]
struct Worker {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    async fn run(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, EmbedError> {
        let (reply, answer) = oneshot::channel();
        let jobs = self.jobs.as_ref().ok_or_else(stopped)?;
        jobs.send(Job { texts, reply })
            .await
            .map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

impl Drop for Worker {
    /// Ends the thread, waiting for the batch it is at: the library must not compute while the process takes it down.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the embedding thread ended in a panic");
        }
    }
}

/// Runs batches until every sender is gone.
fn serve(mut model: TextEmbedding, mut queue: mpsc::Receiver<Job>) {
    while let Some(Job { texts, reply }) = queue.blocking_recv() {
        // The caller went away while the batch waited.
        if reply.is_closed() {
            continue;
        }
        let rows = model
            .embed(&texts, Some(texts.len()))
            .map_err(|error| EmbedError::Failed {
                reason: error.to_string(),
            });
        // A caller that left in the meantime has no use for the answer.
        drop(reply.send(rows));
    }
}

fn load_model(provisioned: &Provisioned) -> Result<TextEmbedding, EmbedError> {
    let unusable = |reason: String| EmbedError::Unavailable {
        reason: format!(
            "the model in `{}` cannot be used ({reason}), run `cargo xtask setup`",
            provisioned.model_dir.display()
        ),
    };
    let weights = WeightFile::open(provisioned).map_err(|error| unusable(error.to_string()))?;
    let config = provisioned.read("config.json")?;
    let encoder = graph::bert_encoder(&config, &weights.file, weights.length, &weights.name)
        .map_err(|error| unusable(error.to_string()))?;
    if encoder.hidden as usize != provisioned.dims {
        let (found, expected) = (encoder.hidden, provisioned.dims);
        return Err(unusable(format!(
            "its vectors have {found} numbers instead of {expected}"
        )));
    }
    let environment = runtime::environment(&provisioned.runtime, |name| std::env::var_os(name))?;
    let tokenizer = TokenizerFiles {
        tokenizer_file: provisioned.read("tokenizer.json")?,
        config_file: config,
        special_tokens_map_file: provisioned.read("special_tokens_map.json")?,
        tokenizer_config_file: provisioned.read("tokenizer_config.json")?,
    };
    let model = UserDefinedEmbeddingModel::new(encoder.onnx, tokenizer).with_pooling(Pooling::Mean);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let options = InitOptionsUserDefined::new()
        .with_environment(environment)
        .with_max_length(provisioned.max_tokens)
        .with_intra_threads(cores.min(THREADS))
        // The runtime maps the weights from their file. Handing them over as bytes works too and costs two more
        // copies of them while loading, 150 MB at the peak.
        .with_session_config(
            "session.model_external_initializers_file_folder_path",
            weights.folder,
        )
        // Waiting threads sleep. Spinning is a millisecond faster per query on an idle machine and several times
        // slower on a busy one, where it takes the time from the very thread that it waits for.
        .with_session_config("session.intra_op.allow_spinning", "0")
        // Another device would give other last digits, and with them another space.
        .with_auto_device(AutoDevicePolicy::PreferCPU);
    TextEmbedding::try_new_from_user_defined(model, options)
        .map_err(|error| unusable(error.to_string()))
}

/// The weights as the runtime is told of them: a folder, and a name within it.
struct WeightFile {
    file: File,
    length: u64,
    folder: String,
    name: String,
}

impl WeightFile {
    fn open(provisioned: &Provisioned) -> io::Result<Self> {
        let mut path = provisioned.model_dir.join(MODEL_WEIGHTS);
        // The runtime refuses a link that leads out of the folder, and a cache may well be made of links.
        if path.is_symlink() {
            path = path.canonicalize()?;
        }
        let file = File::open(&path)?;
        let length = file.metadata()?.len();
        let text = |part: Option<&OsStr>| {
            let text = part.and_then(OsStr::to_str).map(str::to_owned);
            text.ok_or_else(|| {
                io::Error::other(format!("the path `{}` is not Unicode", path.display()))
            })
        };
        Ok(Self {
            length,
            folder: text(path.parent().map(Path::as_os_str))?,
            name: text(path.file_name())?,
            file,
        })
    }
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_CHARACTERS
        && let Some((end, _)) = text.char_indices().nth(MAX_CHARACTERS)
    {
        text.truncate(end);
    }
    text
}

fn check_row(row: &[f32], dims: usize) -> Result<(), EmbedError> {
    let squares: f32 = row.iter().map(|value| value * value).sum();
    if row.len() == dims && (squares - 1.0).abs() < 1e-3 {
        Ok(())
    } else {
        Err(EmbedError::Failed {
            reason: format!(
                "a vector of {} numbers and squared length {squares} came back",
                row.len()
            ),
        })
    }
}

fn stopped() -> EmbedError {
    EmbedError::Failed {
        reason: "the embedding thread has stopped, restart the process".into(),
    }
}

#[cfg(test)]
mod tests;
