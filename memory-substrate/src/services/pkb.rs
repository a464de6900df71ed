//! Search of the personal knowledge base: a small folder, kept in memory whole.
//!
//! Two rankings of its chunks, by keyword and by meaning, are joined by their ranks, because their scores have nothing in
//! common. Vectors are kept by a hash of the text they were made from, so only what is new is embedded.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use memory_core::embed::Embedder;
use memory_core::env::Fs;
use memory_core::services::{Call, Pkb, PkbFile, PkbHit, ServiceResult};
use memory_core::store::{StoreError, StoreResult};
use serde::{Deserialize, Serialize};

use super::{Host, admit, failed};
use crate::blocking;
use crate::pages::hash_bytes;
use crate::pkb::{PkbChunk, PkbFolder};
use crate::segment;
use crate::snapshot::{Lengths, Postings, PostingsBuilder, dot, inverse_frequency};

/// How much a rank counts against the next one when two rankings are joined.
const RANK_OFFSET: f32 = 60.0;
const PATH_WEIGHT: f32 = 2.0;
const SATURATION: f32 = 1.5;
const LENGTH_WEIGHT: f32 = 0.75;
/// Chunks embedded while somebody waits for the answer; the rest waits for the next synchronisation.
const EMBEDDED_WHILE_SEARCHING: usize = 16;
/// Chunks given to the model at once.
const TEXTS_AT_ONCE: usize = 64;

/// The knowledge base in memory.
#[derive(Debug)]
pub(crate) struct PkbSearch {
    fs: Arc<dyn Fs>,
    folder: PkbFolder,
    vectors_path: PathBuf,
    image: Mutex<Arc<Image>>,
    vectors: Mutex<Option<Vectors>>,
}

/// The chunks and their terms.
#[derive(Debug, Default)]
struct Image {
    chunks: Vec<PkbChunk>,
    keys: Vec<String>,
    postings: Postings,
    lengths: Vec<Lengths>,
}

/// Vectors by the hash of their text.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Vectors {
    space: String,
    rows: HashMap<String, Vec<f32>>,
}

impl PkbSearch {
    pub(crate) fn new(fs: Arc<dyn Fs>, root: PathBuf, vectors_path: PathBuf) -> Self {
        Self {
            folder: PkbFolder::new(fs.clone(), root),
            fs,
            vectors_path,
            image: Mutex::default(),
            vectors: Mutex::default(),
        }
    }

    /// Embeds every chunk that has no vector yet and keeps the vectors on disk.
    pub(crate) async fn embed_all(&self, embedder: &dyn Embedder) -> StoreResult<usize> {
        let image = self.current().await?;
        let count = self.embed_missing(&image, embedder, usize::MAX).await?;
        if count > 0 {
            let kept = self.with_vectors(embedder, |vectors| {
                vectors.rows.retain(|key, _| image.keys.contains(key));
                vectors.clone()
            });
            let (fs, path) = (self.fs.clone(), self.vectors_path.clone());
            blocking::run(move || {
                let bytes = serde_json::to_vec(&kept)
                    .map_err(|error| StoreError::engine("keeping vectors", error))?;
                fs.write(&path, &bytes)
                    .map_err(|error| StoreError::engine("keeping vectors", error))
            })
            .await?;
        }
        Ok(count)
    }

    async fn search(
        &self,
        text: &str,
        limit: usize,
        embedder: Option<&dyn Embedder>,
    ) -> StoreResult<Vec<PkbHit>> {
        let image = self.current().await?;
        if image.chunks.is_empty() || limit == 0 || text.trim().is_empty() {
            return Ok(Vec::new());
        }
        let lexical = image.lexical(text);
        let dense = match embedder {
            Some(embedder) => self
                .dense(&image, text, embedder)
                .await
                .unwrap_or_else(|error| {
                    tracing::warn!(%error, "the knowledge base is searched by keyword only");
                    Vec::new()
                }),
            None => Vec::new(),
        };
        Ok(image.join(&lexical, &dense, limit))
    }

    async fn dense(
        &self,
        image: &Image,
        text: &str,
        embedder: &dyn Embedder,
    ) -> StoreResult<Vec<(usize, f32)>> {
        self.embed_missing(image, embedder, EMBEDDED_WHILE_SEARCHING)
            .await?;
        let query = embed(embedder, vec![text.to_owned()])
            .await?
            .pop()
            .unwrap_or_default();
        let mut scored: Vec<(usize, f32)> = self.with_vectors(embedder, |vectors| {
            let keys = image.keys.iter().enumerate();
            keys.filter_map(|(chunk, key)| Some((chunk, dot(vectors.rows.get(key)?, &query))))
                .collect()
        });
        rank(&mut scored);
        Ok(scored)
    }

    async fn embed_missing(
        &self,
        image: &Image,
        embedder: &dyn Embedder,
        most: usize,
    ) -> StoreResult<usize> {
        self.load_vectors(embedder).await;
        let missing: Vec<usize> = self.with_vectors(embedder, |vectors| {
            let chunks = image.chunks.iter().zip(&image.keys).enumerate();
            let lacks = chunks.filter(|(_, (chunk, key))| {
                !chunk.text.trim().is_empty() && !vectors.rows.contains_key(*key)
            });
            lacks.map(|(number, _)| number).take(most).collect()
        });
        for batch in missing.chunks(TEXTS_AT_ONCE) {
            let texts = batch
                .iter()
                .map(|chunk| image.chunks[*chunk].text.clone())
                .collect();
            let rows = embed(embedder, texts).await?;
            self.with_vectors(embedder, |vectors| {
                vectors.rows.extend(
                    batch
                        .iter()
                        .map(|chunk| image.keys[*chunk].clone())
                        .zip(rows),
                );
            });
        }
        Ok(missing.len())
    }

    /// Takes the vectors that are kept on disk, the first time they are needed. Others than the model's are of no use.
    async fn load_vectors(&self, embedder: &dyn Embedder) {
        if self
            .vectors
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some()
        {
            return;
        }
        let (fs, path) = (self.fs.clone(), self.vectors_path.clone());
        let kept = blocking::run(move || {
            let bytes = fs
                .read(&path)
                .map_err(|error| StoreError::engine("reading vectors", error))?;
            serde_json::from_slice::<Vectors>(&bytes)
                .map_err(|error| StoreError::engine("reading vectors", error))
        })
        .await;
        let dims = embedder.dims();
        let kept = kept.unwrap_or_default();
        let usable = kept.space == embedder.space().as_str()
            && kept.rows.values().all(|row| row.len() == dims);
        let vectors = if usable { kept } else { Vectors::default() };
        self.vectors
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(vectors);
    }

    fn with_vectors<T>(&self, embedder: &dyn Embedder, work: impl FnOnce(&mut Vectors) -> T) -> T {
        let mut vectors = self.vectors.lock().unwrap_or_else(PoisonError::into_inner);
        let vectors = vectors.get_or_insert_default();
        if vectors.space != embedder.space().as_str() {
            *vectors = Vectors {
                space: embedder.space().to_string(),
                rows: HashMap::new(),
            };
        }
        work(vectors)
    }

    /// Returns the folder as it is now; terms are only taken again when something changed.
    async fn current(&self) -> StoreResult<Arc<Image>> {
        let (folder, known) = (
            self.folder.clone(),
            self.image
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        );
        let current = blocking::run(move || {
            // Without a folder nothing is known about what was in it, so what is in memory stays.
            let Some(chunks) = folder.chunks()? else {
                return Ok::<_, StoreError>(known);
            };
            Ok(if chunks == known.chunks {
                known
            } else {
                Arc::new(Image::of(chunks))
            })
        })
        .await?;
        *self.image.lock().unwrap_or_else(PoisonError::into_inner) = current.clone();
        Ok(current)
    }
}

async fn embed(embedder: &dyn Embedder, texts: Vec<String>) -> StoreResult<Vec<Vec<f32>>> {
    let vectors = embedder
        .embed(texts)
        .await
        .map_err(|error| StoreError::engine("embedding the knowledge base", error))?;
    Ok((0..vectors.rows())
        .map(|row| vectors.row(row).to_vec())
        .collect())
}

/// Sorts best first, ties by chunk, which lie in the order of paths.
fn rank(scored: &mut [(usize, f32)]) {
    scored.sort_by(|left, right| {
        right
            .1
            .total_cmp(&left.1)
            .then_with(|| left.0.cmp(&right.0))
    });
}

impl Image {
    fn of(chunks: Vec<PkbChunk>) -> Self {
        let mut builder = PostingsBuilder::default();
        let rows: Vec<u32> = (0..u32::try_from(chunks.len()).unwrap_or(u32::MAX)).collect();
        let lengths = rows
            .iter()
            .zip(&chunks)
            .map(|(row, chunk)| {
                builder.add(
                    *row,
                    &segment::index_text(&chunk.path),
                    &segment::index_text(&chunk.text),
                )
            })
            .collect();
        let keys = chunks
            .iter()
            .map(|chunk| hash_bytes(chunk.text.as_bytes()))
            .collect();
        Self {
            keys,
            postings: builder.finish(&rows),
            lengths,
            chunks,
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "chunks have some thousand terms"
    )]
    fn lexical(&self, text: &str) -> Vec<(usize, f32)> {
        let weighted = |head: f32, body: f32| PATH_WEIGHT * head + body;
        let length = |lengths: &Lengths| weighted(lengths.head as f32, lengths.body as f32);
        let average = self.lengths.iter().map(length).sum::<f32>() / self.lengths.len() as f32;
        let mut terms = segment::analyze(text);
        terms.sort_unstable();
        terms.dedup();
        let mut scores = vec![0.0_f32; self.chunks.len()];
        for term in &terms {
            let found = self.postings.of(term);
            let inverse = inverse_frequency(self.chunks.len(), found.len());
            for posting in found {
                let row = posting.row as usize;
                let frequency = weighted(f32::from(posting.head), f32::from(posting.body));
                let norm = SATURATION
                    * (1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * length(&self.lengths[row]) / average);
                scores[row] += inverse * frequency * (SATURATION + 1.0) / (frequency + norm);
            }
        }
        let mut ranking: Vec<(usize, f32)> = scores
            .into_iter()
            .enumerate()
            .filter(|(_, score)| *score > 0.0)
            .collect();
        rank(&mut ranking);
        ranking
    }

    /// Joins two rankings and returns the best chunk of each file.
    #[expect(clippy::cast_precision_loss, reason = "a rank is a small number")]
    fn join(&self, lexical: &[(usize, f32)], dense: &[(usize, f32)], limit: usize) -> Vec<PkbHit> {
        // What is only similar is of interest as far as it could be shown, what has a word of the question always.
        let near = &dense[..dense.len().min(limit.saturating_mul(3).max(20))];
        let mut fused: HashMap<usize, f32> = HashMap::new();
        for (rank, (chunk, _)) in lexical.iter().enumerate().chain(near.iter().enumerate()) {
            *fused.entry(*chunk).or_default() += 1.0 / (RANK_OFFSET + rank as f32 + 1.0);
        }
        let mut order: Vec<(usize, f32)> = fused.into_iter().collect();
        rank(&mut order);
        let score = |ranking: &[(usize, f32)], wanted: usize| {
            ranking
                .iter()
                .find(|(chunk, _)| *chunk == wanted)
                .map(|(_, score)| *score)
        };
        let mut hits: Vec<PkbHit> = Vec::new();
        for (number, fused) in order {
            let chunk = &self.chunks[number];
            if hits.len() < limit && hits.iter().all(|hit| hit.path != chunk.path) {
                hits.push(PkbHit {
                    path: chunk.path.clone(),
                    chunk: chunk.chunk,
                    text: chunk.text.clone(),
                    dense: score(dense, number),
                    lexical: score(lexical, number),
                    fused,
                });
            }
        }
        hits
    }
}

#[async_trait]
impl Pkb for Host {
    async fn always_shown(&self, call: &Call) -> ServiceResult<Vec<PkbFile>> {
        if !admit(call)?.allows_global() {
            return Ok(Vec::new());
        }
        let folder = self.shared.pkb.folder.clone();
        blocking::run(move || folder.always_shown())
            .await
            .map_err(failed)
    }

    async fn search(&self, call: &Call, text: String, limit: u32) -> ServiceResult<Vec<PkbHit>> {
        if !admit(call)?.allows_global() {
            return Ok(Vec::new());
        }
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        self.shared
            .pkb
            .search(&text, limit, self.shared.embedder.as_deref())
            .await
            .map_err(failed)
    }
}
