//! Section vectors, once in eight bits for scanning and once exactly for the final scores.
//!
//! The scan is bound by memory, so it reads a quarter of the bytes. Every row remembers how far its rounded copy is off,
//! which bounds the error of a scanned score; whatever could still be among the best is scored again exactly, so the
//! answer is that of an exact search.

/// Vectors of one length, one a row; a row may have none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matrix {
    dims: usize,
    codes: Vec<i8>,
    scales: Vec<f32>,
    errors: Vec<f32>,
    exact: Vec<f32>,
}

/// A query vector made ready for scanning.
#[derive(Debug)]
pub(crate) struct Probe {
    unit: Vec<f32>,
    codes: Vec<i16>,
    scale: f32,
    error: f32,
}

/// What float arithmetic itself may add to an error bound.
const ROUNDING: f32 = 1e-5;

impl Probe {
    /// Returns the probe of a vector, or `None` for a vector without a direction.
    pub(crate) fn new(vector: &[f32]) -> Option<Self> {
        let length = norm(vector);
        if !length.is_finite() || length <= 0.0 {
            return None;
        }
        let unit: Vec<f32> = vector.iter().map(|value| value / length).collect();
        let largest = unit
            .iter()
            .fold(0.0_f32, |largest, value| largest.max(value.abs()));
        // The sum of all products must fit into 32 bits.
        let steps = (i32::MAX / 127 / i32::try_from(vector.len()).ok()?.max(1)).clamp(1, 2_047);
        #[expect(clippy::cast_precision_loss, reason = "at most 2047")]
        let scale = largest / steps as f32;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the quotient is at most 2047"
        )]
        let codes: Vec<i16> = unit
            .iter()
            .map(|value| (value / scale).round() as i16)
            .collect();
        let error = unit
            .iter()
            .zip(&codes)
            .map(|(value, code)| (value - f32::from(*code) * scale).powi(2))
            .sum::<f32>()
            .sqrt();
        Some(Self {
            unit,
            codes,
            scale,
            error,
        })
    }
}

impl Matrix {
    /// Returns a matrix of the given rows of other matrices, in order.
    pub(crate) fn gather<'a>(
        dims: usize,
        rows: impl ExactSizeIterator<Item = Option<&'a [f32]>>,
    ) -> Self {
        let mut matrix = Self::with_capacity(dims, rows.len());
        for vector in rows {
            matrix.push(vector);
        }
        matrix
    }

    /// Returns an empty matrix for vectors of a length with room for that many rows.
    pub(crate) fn with_capacity(dims: usize, rows: usize) -> Self {
        Self {
            dims,
            codes: Vec::with_capacity(rows * dims),
            exact: Vec::with_capacity(rows * dims),
            scales: Vec::with_capacity(rows),
            errors: Vec::with_capacity(rows),
        }
    }

    /// Appends a row.
    pub(crate) fn push(&mut self, vector: Option<&[f32]>) {
        if self.dims == 0 {
            return;
        }
        let largest = vector
            .filter(|vector| vector.len() == self.dims)
            .map(|vector| {
                vector
                    .iter()
                    .fold(0.0_f32, |largest, value| largest.max(value.abs()))
            })
            .filter(|largest| largest.is_finite() && *largest > 0.0);
        let (Some(vector), Some(largest)) = (vector, largest) else {
            self.codes.extend(std::iter::repeat_n(0, self.dims));
            self.exact.extend(std::iter::repeat_n(0.0, self.dims));
            self.scales.push(0.0);
            self.errors.push(0.0);
            return;
        };
        let scale = largest / 127.0;
        let start = self.codes.len();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the quotient is at most 127"
        )]
        self.codes
            .extend(vector.iter().map(|value| (value / scale).round() as i8));
        let error = vector
            .iter()
            .zip(&self.codes[start..])
            .map(|(value, code)| (value - f32::from(*code) * scale).powi(2))
            .sum::<f32>()
            .sqrt();
        self.exact.extend_from_slice(vector);
        self.scales.push(scale);
        self.errors.push(error);
    }

    /// Moves each row to its new place, one at a time, since a second copy of all vectors would be the largest thing in
    /// memory.
    pub(crate) fn permute(&mut self, mut new_rows: Vec<u32>) {
        if self.dims == 0 {
            return;
        }
        for row in 0..new_rows.len() {
            while new_rows[row] as usize != row {
                let target = new_rows[row] as usize;
                swap_rows(&mut self.codes, self.dims, row, target);
                swap_rows(&mut self.exact, self.dims, row, target);
                self.scales.swap(row, target);
                self.errors.swap(row, target);
                new_rows.swap(row, target);
            }
        }
    }

    /// Gives back room that was not needed.
    pub(crate) fn shrink(&mut self) {
        self.codes.shrink_to_fit();
        self.exact.shrink_to_fit();
    }

    /// Returns a row's vector, when it has one.
    pub(crate) fn row(&self, row: usize) -> Option<&[f32]> {
        // A row without a vector has no scale.
        let has_vector = self.scales.get(row).is_some_and(|scale| *scale > 0.0);
        has_vector.then(|| &self.exact[row * self.dims..(row + 1) * self.dims])
    }

    /// Returns about how many bytes this takes.
    pub(crate) const fn bytes(&self) -> usize {
        self.codes.len() + 4 * (self.scales.len() + self.errors.len() + self.exact.len())
    }

    /// Calls `visit` with each row that has a vector, its scanned similarity and how far that may be off.
    pub(crate) fn scan(&self, probe: &Probe, mut visit: impl FnMut(usize, f32, f32)) {
        if self.dims == 0 || probe.codes.len() != self.dims {
            return;
        }
        for (row, codes) in self.codes.chunks_exact(self.dims).enumerate() {
            let scale = self.scales[row];
            if scale > 0.0 {
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "the rounding is part of the error bound"
                )]
                let score = dot_codes(codes, &probe.codes) as f32 * scale * probe.scale;
                let error = self.errors[row];
                visit(row, score, error + (1.0 + error) * probe.error + ROUNDING);
            }
        }
    }

    /// Returns a row's exact similarity.
    pub(crate) fn similarity(&self, row: usize, probe: &Probe) -> f32 {
        dot(
            &self.exact[row * self.dims..(row + 1) * self.dims],
            &probe.unit,
        )
    }
}

fn swap_rows<T>(values: &mut [T], dims: usize, left: usize, right: usize) {
    let (low, high) = (left.min(right), left.max(right));
    let (before, after) = values.split_at_mut(high * dims);
    before[low * dims..(low + 1) * dims].swap_with_slice(&mut after[..dims]);
}

/// Returns the sum of products. Widening a block first and multiplying then is the form that compilers turn into
/// multiply-and-add on eight 16-bit lanes, on any x86-64 or ARM and without unsafe code. The probe's steps are chosen so
/// that no sum can overflow; the wrapping operations say so, since a check for it would cost the vector code.
fn dot_codes(left: &[i8], right: &[i16]) -> i32 {
    const BLOCK: usize = 64;
    let (left_blocks, left_rest) = left.as_chunks::<BLOCK>();
    let (right_blocks, right_rest) = right.as_chunks::<BLOCK>();
    let mut total = 0_i32;
    for (left, right) in left_blocks.iter().zip(right_blocks) {
        let mut wide = [0_i16; BLOCK];
        for (wide, left) in wide.iter_mut().zip(left) {
            *wide = i16::from(*left);
        }
        let mut sum = 0_i32;
        for (wide, right) in wide.iter().zip(right) {
            sum = sum.wrapping_add(i32::from(*wide).wrapping_mul(i32::from(*right)));
        }
        total = total.wrapping_add(sum);
    }
    for (left, right) in left_rest.iter().zip(right_rest) {
        total = total.wrapping_add(i32::from(*left).wrapping_mul(i32::from(*right)));
    }
    total
}

/// Returns the inner product, summed in eight fixed lanes: the same bits on every machine, and vector code on all.
pub(crate) fn dot(left: &[f32], right: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; 8];
    let (left_chunks, left_rest) = left.as_chunks::<8>();
    let (right_chunks, right_rest) = right.as_chunks::<8>();
    for (left, right) in left_chunks.iter().zip(right_chunks) {
        for lane in 0..8 {
            lanes[lane] += left[lane] * right[lane];
        }
    }
    let rest: f32 = left_rest
        .iter()
        .zip(right_rest)
        .map(|(left, right)| left * right)
        .sum();
    lanes.iter().sum::<f32>() + rest
}

fn norm(vector: &[f32]) -> f32 {
    dot(vector, vector).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pseudo_random(seed: u32, dims: usize) -> Vec<f32> {
        let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
        let vector: Vec<f32> = (0..dims)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                f32::from(i16::try_from(state >> 20).unwrap_or(0)) / 2_048.0 - 1.0
            })
            .collect();
        let length = norm(&vector);
        vector.iter().map(|value| value / length).collect()
    }

    #[test]
    fn the_scanned_score_is_within_its_own_error_bound() {
        let rows: Vec<Vec<f32>> = (0..200).map(|seed| pseudo_random(seed, 96)).collect();
        let matrix = Matrix::gather(96, rows.iter().map(|row| Some(row.as_slice())));
        let probe = Probe::new(&pseudo_random(999, 96)).expect("not zero");
        let mut seen = 0;
        matrix.scan(&probe, |row, score, error| {
            seen += 1;
            let exact = matrix.similarity(row, &probe);
            assert!(
                (score - exact).abs() <= error,
                "row {row}: {score} against {exact}, bound {error}"
            );
            assert!(error < 0.02, "a bound of {error} would rescore everything");
        });
        assert_eq!(seen, 200);
    }

    #[test]
    fn rows_move_with_everything_that_belongs_to_them() {
        let rows: Vec<Vec<f32>> = (0..7).map(|seed| pseudo_random(seed, 16)).collect();
        let given = rows
            .iter()
            .enumerate()
            .map(|(number, row)| (number != 3).then_some(row.as_slice()));
        let mut matrix = Matrix::gather(16, given.collect::<Vec<_>>().into_iter());
        let new_rows = [4, 0, 6, 2, 1, 5, 3];
        matrix.permute(new_rows.to_vec());
        for (old, new) in new_rows.into_iter().enumerate() {
            let expected = (old != 3).then_some(rows[old].as_slice());
            assert_eq!(matrix.row(new as usize), expected);
        }
    }

    #[test]
    fn a_row_without_a_vector_is_never_visited() {
        let one = pseudo_random(1, 8);
        let zero = vec![0.0; 8];
        let rows = [
            Some(one.as_slice()),
            None,
            Some(zero.as_slice()),
            Some(&one[..4]),
        ];
        let matrix = Matrix::gather(8, rows.into_iter());
        assert_eq!((0..4).filter(|row| matrix.row(*row).is_some()).count(), 1);
        let probe = Probe::new(&one).expect("not zero");
        let mut visited = Vec::new();
        matrix.scan(&probe, |row, _, _| visited.push(row));
        assert_eq!(visited, [0]);
        assert!((matrix.similarity(0, &probe) - 1.0).abs() < 1e-6);
        assert!(Probe::new(&zero).is_none());
    }
}
