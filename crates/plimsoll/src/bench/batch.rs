//! The sets of a batch as text: `4096x4096*24,4096*49`.

use std::sync::Arc;

/// Most sets, so that a typing error doesn't take all memory.
const MOST_SETS: u64 = 1 << 20;
/// Most characters of a list that are part of a result's name.
const SHOWN: usize = 60;

/// The numbers of elements of a batch's sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchSets {
    /// Elements of each set.
    pub lengths: Arc<[u64]>,
    label: String,
}

/// Why a list of sets is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchSetsError {
    /// A part that isn't a shape.
    #[error("'{0}' is no shape with a number of sets: write 4096x4096*24, or 4096 for one set")]
    Part(String),
    /// No elements at all.
    #[error("the sets have no elements, so there is nothing to time")]
    Empty,
    /// Too many sets.
    #[error("more than {MOST_SETS} sets: use fewer")]
    Sets,
    /// Too many elements.
    #[error("the sets have more than 2^63 elements")]
    Elements,
}

impl BatchSets {
    /// All elements together.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.lengths.iter().sum()
    }

    /// Its name in results: the list, shortened.
    #[must_use]
    pub fn label(&self) -> String {
        format!("batch of {}: {}", self.lengths.len(), self.label)
    }
}

impl std::str::FromStr for BatchSets {
    type Err = BatchSetsError;

    /// Shapes with an optional number of sets, separated by commas, spaces or lines; the rest of a line after # is a comment.
    fn from_str(text: &str) -> Result<Self, BatchSetsError> {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or(""));
        let parts: Vec<&str> =
            lines.flat_map(|line| line.split([',', ' ', '\t'])).filter(|part| !part.is_empty()).collect();
        let (mut lengths, mut total) = (Vec::new(), 0_u64);
        for part in &parts {
            let (length, count) =
                parse_part(part).ok_or_else(|| BatchSetsError::Part(part.chars().take(40).collect()))?;
            if count > MOST_SETS - lengths.len() as u64 {
                return Err(BatchSetsError::Sets);
            }
            let more = length.checked_mul(count).and_then(|more| total.checked_add(more));
            total = more.filter(|total| *total < 1 << 63).ok_or(BatchSetsError::Elements)?;
            lengths.extend((0..count).map(|_| length));
        }
        if total == 0 {
            return Err(BatchSetsError::Empty);
        }
        let mut label: String = parts.join(",");
        if label.chars().count() > SHOWN {
            label = label.chars().take(SHOWN).chain(['…']).collect();
        }
        Ok(Self { lengths: lengths.into(), label })
    }
}

/// Elements of a set, and the number of such sets.
fn parse_part(part: &str) -> Option<(u64, u64)> {
    let (shape, count) = part.split_once('*').unwrap_or((part, "1"));
    let mut extents = shape.split('x').map(|extent| extent.parse::<u64>().ok());
    let length = extents.try_fold(1_u64, |product, extent| product.checked_mul(extent?))?;
    Some((length, count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_name_shapes_and_numbers_of_sets() {
        let sets: BatchSets = "2x3*2, 7\n5*1 # the rest\n0*2".parse().unwrap();
        assert_eq!(sets.lengths[..], [6, 6, 7, 5, 0, 0]);
        assert_eq!((sets.elements(), sets.label().as_str()), (24, "batch of 6: 2x3*2,7,5*1,0*2"));
        let error = |text: &str| text.parse::<BatchSets>().unwrap_err();
        assert_eq!(error("3xx4"), BatchSetsError::Part("3xx4".to_owned()));
        assert_eq!((error(""), error("0*4")), (BatchSetsError::Empty, BatchSetsError::Empty));
        assert_eq!(error("1*99999999999"), BatchSetsError::Sets);
        assert_eq!(error("4294967296*2,4294967296x4294967295"), BatchSetsError::Elements);
    }
}
