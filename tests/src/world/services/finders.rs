//! The world's searches: by words, by the toy embedding, and over the knowledge base.

use async_trait::async_trait;
use memory_core::embed::SpaceId;
use memory_core::services::{
    Call, Capability, Dense, DenseSpace, Lexical, LexicalQuery, Pkb, PkbFile, PkbHit, SectionHit,
    ServiceError, ServiceResult,
};
use memory_core::text::section::SectionId;

use super::{huge, reads, spoilt, unknown};
use crate::world::search::{DIMS, Terms, cosine, embed, words};
use crate::world::story::{Page, Part};
use crate::world::{Nonsense, World};

impl World {
    fn terms(&self, call: &Call) -> Terms {
        let sections = self.visible_sections(call);
        let texts = sections.map(|(page, _, part)| (page.title.as_str(), part.text.as_str()));
        let pages: Vec<_> = texts.collect();
        Terms::of(pages.into_iter())
    }
}

/// Sorts best first, ties by section, and cuts.
fn best(mut hits: Vec<SectionHit>, limit: u32, best_per_page: bool) -> Vec<SectionHit> {
    hits.sort_by(|left, right| {
        right
            .score
            .total_cmp(&left.score)
            .then_with(|| left.id.cmp(&right.id))
    });
    if best_per_page {
        let mut seen = std::collections::BTreeSet::new();
        hits.retain(|hit| seen.insert(hit.id.slug.clone()));
    }
    hits.truncate(limit as usize);
    hits
}

fn spoilt_hits(mut hits: Vec<SectionHit>, nonsense: Option<Nonsense>) -> Vec<SectionHit> {
    match nonsense {
        Some(Nonsense::Numbers) => {
            let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -0.0];
            for (hit, odd) in hits.iter_mut().zip(odd.into_iter().cycle()) {
                hit.score = odd;
            }
        }
        Some(Nonsense::Long) => hits.push(SectionHit {
            id: SectionId::lead(unknown()),
            score: 99.0,
        }),
        _ => {}
    }
    spoilt(hits, nonsense)
}

#[async_trait]
impl Dense for World {
    async fn space(&self, call: &Call) -> ServiceResult<DenseSpace> {
        let nonsense = self
            .gate(call, reads(Capability::Dense, "dense.space", ""))
            .await?;
        let dims = match nonsense {
            Some(Nonsense::Numbers) => u32::MAX,
            _ => u32::try_from(DIMS).unwrap_or(u32::MAX),
        };
        Ok(DenseSpace {
            space: SpaceId::new("conform"),
            dims,
        })
    }

    async fn embed(&self, call: &Call, texts: Vec<String>) -> ServiceResult<Vec<f32>> {
        let nonsense = self
            .gate(
                call,
                reads(Capability::Dense, "dense.embed", &texts.join("\n")),
            )
            .await?;
        if self.is_empty(Capability::Dense) {
            return Ok(Vec::new());
        }
        let mut flat: Vec<f32> = texts.iter().flat_map(|text| embed(text)).collect();
        if nonsense == Some(Nonsense::Numbers) {
            flat.fill(f32::NAN);
        }
        Ok(spoilt(flat, nonsense))
    }

    async fn search(
        &self,
        call: &Call,
        vector: Vec<f32>,
        limit: u32,
    ) -> ServiceResult<Vec<SectionHit>> {
        let nonsense = self
            .gate(call, reads(Capability::Dense, "dense.search", ""))
            .await?;
        if self.is_empty(Capability::Dense) {
            return Ok(Vec::new());
        }
        if vector.len() != DIMS && nonsense.is_none() {
            return Err(ServiceError::BadRequest {
                reason: format!("a vector of {} numbers instead of {DIMS}", vector.len()),
            });
        }
        let hit = |(page, _, part): (&Page, usize, &Part)| SectionHit {
            id: part.id.clone(),
            score: cosine(&vector, &embed(&format!("{} {}", page.title, part.text))),
        };
        let hits = self.visible_sections(call).map(hit).collect();
        Ok(spoilt_hits(best(hits, limit, false), nonsense))
    }
}

#[async_trait]
impl Lexical for World {
    async fn search(&self, call: &Call, query: LexicalQuery) -> ServiceResult<Vec<SectionHit>> {
        let nonsense = self
            .gate(
                call,
                reads(Capability::Lexical, "lexical.search", &query.text),
            )
            .await?;
        if self.is_empty(Capability::Lexical) {
            return Ok(Vec::new());
        }
        let terms = self.terms(call);
        let mut hits = Vec::new();
        for (page, _, part) in self.visible_sections(call) {
            let head = format!("{} {}", page.title, part.heading);
            let score = terms.score(&query, &head, &part.text);
            if score > 0.0 {
                hits.push(SectionHit {
                    id: part.id.clone(),
                    score,
                });
            }
        }
        Ok(spoilt_hits(
            best(hits, query.limit, query.best_per_page),
            nonsense,
        ))
    }

    async fn idf(&self, call: &Call, text: String) -> ServiceResult<Vec<(String, f32)>> {
        let nonsense = self
            .gate(call, reads(Capability::Lexical, "lexical.idf", &text))
            .await?;
        if self.is_empty(Capability::Lexical) {
            return Ok(Vec::new());
        }
        let terms = self.terms(call);
        let mut found: Vec<(String, f32)> = Vec::new();
        for word in words(&text) {
            if found.iter().all(|(known, _)| *known != word) {
                let idf = match nonsense {
                    Some(Nonsense::Numbers) => f32::NAN,
                    _ => terms.idf(&word),
                };
                found.push((word, idf));
            }
        }
        Ok(spoilt(found, nonsense))
    }
}

#[async_trait]
impl Pkb for World {
    async fn always_shown(&self, call: &Call) -> ServiceResult<Vec<PkbFile>> {
        let nonsense = self
            .gate(call, reads(Capability::Pkb, "pkb.always_shown", ""))
            .await?;
        if self.is_empty(Capability::Pkb) || !Self::may_see_global(call.scope()) {
            return Ok(Vec::new());
        }
        let files = self.story.files.iter().filter(|file| file.always);
        let files = files.map(|file| PkbFile {
            path: file.path.clone(),
            text: match nonsense {
                Some(Nonsense::Texts) => huge(&file.text),
                _ => file.text.clone(),
            },
        });
        Ok(spoilt(files.collect(), nonsense))
    }

    async fn search(&self, call: &Call, text: String, limit: u32) -> ServiceResult<Vec<PkbHit>> {
        let nonsense = self
            .gate(call, reads(Capability::Pkb, "pkb.search", &text))
            .await?;
        if self.is_empty(Capability::Pkb) || !Self::may_see_global(call.scope()) {
            return Ok(Vec::new());
        }
        let query = LexicalQuery {
            text,
            head_weight: 2.0,
            body_weight: 1.0,
            k1: 1.2,
            b: 0.75,
            limit,
            best_per_page: false,
        };
        let files = &self.story.files;
        let terms = Terms::of(
            files
                .iter()
                .map(|file| (file.path.as_str(), file.text.as_str())),
        );
        let mut hits: Vec<PkbHit> = Vec::new();
        for file in files {
            let score = terms.score(&query, &file.path, &file.text);
            if score > 0.0 {
                let odd = nonsense == Some(Nonsense::Numbers);
                hits.push(PkbHit {
                    path: file.path.clone(),
                    chunk: 0,
                    text: match nonsense {
                        Some(Nonsense::Texts) => huge(&file.text),
                        _ => file.text.clone(),
                    },
                    dense: odd.then_some(f32::NAN),
                    lexical: Some(if odd { f32::INFINITY } else { score }),
                    fused: if odd { f32::NAN } else { score },
                });
            }
        }
        hits.sort_by(|left, right| {
            right
                .fused
                .total_cmp(&left.fused)
                .then_with(|| left.path.cmp(&right.path))
        });
        hits.truncate(limit as usize);
        Ok(spoilt(hits, nonsense))
    }
}
