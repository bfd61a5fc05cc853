//! Many sets of tensors in one launch: each block finds its set in a table, which is in the parameters if it fits, else in memory.

use plimsoll_expr::{DType, Graph};

use super::shape::Shape;
use super::tensors::{Tensor, Tensors};
use super::{Access, Choose, Device, Indexing, Plan, PlanError, Reason, Tuning, finish, runs};
use crate::elementwise::accuracy::meaning;
use crate::elementwise::geometry::Tiles;
use crate::elementwise::spec::{Batched, Form, Stream, element_bytes};
use crate::elementwise::table::Table;
use crate::elementwise::words::MOST_WORDS;

/// Words of the form before the scalars: skip flag, table, index.
const HEAD: usize = 3;
/// Words of a record before its addresses.
const RECORD: usize = 3;
/// Most entries of the table's index, unless there are more sets.
const INDEX: u64 = 4096;

/// The sets of a batch. Set k has `lengths[k]` elements, and the addresses of its tensors' first elements are
/// `starts[k × tensors ..]`, inputs then outputs.
#[derive(Clone, Copy, Debug)]
pub struct Sets<'s> {
    /// Elements of each set; sets may be empty.
    pub lengths: &'s [u64],
    /// Addresses of all tensors.
    pub starts: &'s [u64],
    /// The group of each set, whose scalars it uses.
    pub groups: &'s [u32],
    /// Number of groups.
    pub group_count: usize,
    /// For each input whether it has one element, for all elements of a set.
    pub uniform: &'s [bool],
    /// The type of the flag with which a launch writes nothing, if there is one.
    pub skip: Option<DType>,
}

/// A kernel for many sets, and the table by which its blocks find them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPlan {
    /// The kernel. Its words are those of [`BatchPlan::words`].
    pub plan: Plan,
    /// The table of sets, for the device's memory if [`BatchPlan::table_in_memory`].
    pub table: Vec<u64>,
    batched: Batched,
    /// Log2 of the blocks per entry of the index, and the number of entries.
    index: (u32, u32),
    scalars: usize,
}

impl BatchPlan {
    /// Whether a launch needs the address of the table in memory; else its words hold the table.
    #[must_use]
    pub fn table_in_memory(&self) -> bool {
        self.batched.table_in_memory
    }

    /// The parameter block of launches: `table` is the table's address if it is in memory, `skip` that of the flag, and `scalars` are
    /// the bits of the scalars of the first group, then of the next one.
    ///
    /// # Errors
    /// [`PlanError::Count`] for another number of scalars.
    pub fn words(&self, table: u64, skip: u64, scalars: &[u64]) -> Result<Vec<u64>, PlanError> {
        if scalars.len() != self.scalars {
            return Err(PlanError::Count { tensors: 0, scalars: self.scalars, given: (0, scalars.len()) });
        }
        let inside = !self.batched.table_in_memory;
        let table = if inside { (HEAD + scalars.len()) as u64 } else { table };
        let mut words = vec![skip, table, u64::from(self.index.0) | u64::from(self.index.1) << 32];
        words.extend_from_slice(scalars);
        if inside {
            words.extend_from_slice(&self.table);
        }
        words.resize(self.batched.words as usize, 0);
        Ok(words)
    }

    /// The place of a group's scalars among the words, if the expression has `count` of them.
    #[must_use]
    pub fn scalars_of(group: usize, count: usize) -> std::ops::Range<usize> {
        HEAD + group * count..HEAD + (group + 1) * count
    }
}

/// Plans one kernel for many sets of contiguous tensors of one expression. A set is processed in vectors from the first element on at
/// which all its tensors are aligned; if there is none, element by element.
///
/// # Errors
/// As [`super::plan()`]; [`PlanError::Words`] for more groups than parameters have room for.
pub fn plan_batch(
    graph: &Graph,
    sets: Sets<'_>,
    device: &Device,
    table: &Table,
    choose: &Choose,
) -> Result<BatchPlan, PlanError> {
    let graph = meaning(graph, choose.tier).with_plain_names().with_raw_copies();
    let scalars = graph.scalars().len().saturating_mul(sets.group_count);
    check(&graph, &sets)?;
    let elements = sets.lengths.iter().fold(0, |sum: u64, &length| sum.saturating_add(length));
    if elements == 0 {
        return Err(PlanError::Empty);
    }
    let indexing = indexing(&graph, &sets, elements);
    let mut tensors = Tensors::new(&graph, &indexing);
    // Blocks process the tiles of flat kernels, so rows for bulk copies don't apply.
    let flat = Choose { form: Some(Form::Flat), ..*choose };
    let class = Tuning::classify(&graph, table, choose.tier);
    let tuning = Tuning::new(&graph, &tensors, device, (table, class), &flat, false)?;
    let widest = device.target.widest_access();
    let mut vectors = super::shape::lanes_and_unroll(&graph, &tensors, &tuning, choose);
    if choose.vector.or(choose.unroll).is_none() {
        vectors = narrowed(vectors, &mut tensors, &sets, widest);
        vectors.1 = unrolled(&graph, vectors, &tensors, device);
    }
    let (lanes, unroll) = vectors;
    let (records, blocks) = records(&graph, &mut tensors, &sets, (lanes, unroll, tuning.threads), widest)?;
    let Placed { batched, table, index } = lay_out(&records, record_words(&graph), &sets, scalars, blocks)?;
    let stream = |tensor: &Tensor| match tensor {
        tensor if !tensor.used => Stream::Unused,
        tensor if tensor.uniform => Stream::Uniform,
        _ => Stream::Linear,
    };
    let shape = Shape {
        streams: tensors.all.iter().map(stream).collect(),
        lanes,
        unroll,
        threads: tuning.threads,
        blocks,
        ..Shape::new_empty(Form::Batch, format!("{} sets of tensors in one launch", sets.lengths.len()))
    };
    let mut plan = finish(graph, &indexing, device, choose, tuning, shape)?;
    plan.spec.batched = Some(batched);
    plan.phases = Vec::new();
    let why = if batched.table_in_memory { "too long for the parameters" } else { "it fits into the parameters" };
    let chosen = format!("{} words in {}", table.len(), if batched.table_in_memory { "memory" } else { "parameters" });
    plan.reasons.push(Reason { what: "table", chosen, why: why.to_owned() });
    Ok(BatchPlan { plan, table, batched, index, scalars })
}

/// Lanes and unroll with narrower vectors, down to 4 bytes, if most elements are in sets that are never aligned.
fn narrowed((mut lanes, mut unroll): (u32, u32), tensors: &mut Tensors, sets: &Sets<'_>, widest: u32) -> (u32, u32) {
    let all = sets.lengths.iter().fold(0, |sum: u64, &length| sum.saturating_add(length));
    while lanes > 1 && lanes / 2 * tensors.narrowest() >= 4 {
        let aligned = |k: &usize| find_head(tensors, sets, *k, (lanes, widest)).is_some();
        let aligned = (0..sets.lengths.len()).filter(aligned);
        if aligned.fold(0, |sum: u64, k| sum.saturating_add(sets.lengths[k])) >= all / 2 {
            break;
        }
        (lanes, unroll) = (lanes / 2, unroll * 2);
    }
    (lanes, unroll)
}

/// Fewest bytes that a thread of a large batch reads.
const LEAST_READ: u32 = 64;

/// Vectors per thread: a block finds its set before it reads, so it should read more than a flat kernel's. On an H200 the AdamW of a
/// transformer with parameters in bf16 and moments in f32 took 7.73 ms with 48 bytes read per thread and 6.92 with 96; flat 6.91.
fn unrolled(graph: &Graph, (lanes, unroll): (u32, u32), tensors: &Tensors, device: &Device) -> u32 {
    let read: u32 = tensors.moving().filter(|tensor| !tensor.output).map(|tensor| tensor.bytes * lanes).sum();
    if read == 0 || tensors.bytes_moved() <= device.l2_bytes {
        return unroll;
    }
    let most = super::shape::most_elements(graph, tensors) / lanes;
    unroll.max(LEAST_READ.div_ceil(read).next_power_of_two().min(4).min(most))
}

/// Checks numbers and addresses.
fn check(graph: &Graph, sets: &Sets<'_>) -> Result<(), PlanError> {
    let (bytes, scalars) = (element_bytes(graph), graph.scalars().len());
    let (count, given) = (sets.lengths.len(), sets.starts.len());
    if count.checked_mul(bytes.len()) != Some(given) || sets.groups.len() != count {
        return Err(PlanError::Count { tensors: count * bytes.len(), scalars, given: (given, scalars) });
    }
    for (tensor, &start) in sets.starts.iter().enumerate() {
        let (set, bytes) = (tensor / bytes.len(), bytes[tensor % bytes.len()]);
        if !start.is_multiple_of(bytes.into()) && sets.lengths[set] > 0 {
            return Err(PlanError::Misaligned { tensor, start, bytes });
        }
    }
    if let Some(group) = sets.groups.iter().find(|group| **group as usize >= sets.group_count) {
        return Err(super::tuning::refused(
            "group",
            group,
            &format!("there are {} groups of scalars", sets.group_count),
        ));
    }
    if graph.depends_on_place() && graph.least_rank() > 1 {
        return Err(super::tuning::refused("form", "batch", "sets have one dimension"));
    }
    Ok(())
}

/// All sets as if they were one.
fn indexing(graph: &Graph, sets: &Sets<'_>, elements: u64) -> Indexing {
    let access = |tensor: usize| {
        let uniform = sets.uniform.get(tensor).is_some_and(|uniform| *uniform);
        Access { strides: vec![i64::from(!uniform)], phase: 0 }
    };
    let count = graph.inputs().len() + graph.outputs().len();
    Indexing { extents: vec![elements], accesses: (0..count).map(access).collect() }
}

/// The first element of a set at which all tensors are aligned to their accesses; `None` if there is none.
fn find_head(tensors: &mut Tensors, sets: &Sets<'_>, set: usize, (lanes, widest): (u32, u32)) -> Option<u32> {
    let starts = &sets.starts[set * tensors.all.len()..][..tensors.all.len()];
    for (tensor, start) in tensors.all.iter_mut().zip(starts) {
        tensor.phase = (start % u64::from(super::indexing::ALIGNMENT)) as u32;
    }
    let moving: Vec<&Tensor> = tensors.moving().collect();
    runs::first_aligned(&moving, |tensor| runs::access_bytes(tensor, lanes, widest))
}

/// Addresses in a record: those of outputs in place are those of their inputs.
pub fn addresses(graph: &Graph) -> usize {
    graph.inputs().len() + graph.outputs().iter().filter(|output| output.in_place.is_none()).count()
}

/// The place of a tensor's address among those of a record; tensors are inputs, then outputs.
pub fn address(graph: &Graph, tensor: usize) -> usize {
    let inputs = graph.inputs().len();
    let Some(output) = tensor.checked_sub(inputs) else { return tensor };
    let before = || graph.outputs()[..output].iter().filter(|output| output.in_place.is_none()).count();
    graph.outputs()[output].in_place.map_or_else(|| inputs + before(), |slot| slot as usize)
}

/// Words of a record, a whole number of accesses of 16 bytes.
fn record_words(graph: &Graph) -> usize {
    (RECORD + addresses(graph)).next_multiple_of(2)
}

/// The records of the sets that aren't empty, and the number of all blocks.
fn records(
    graph: &Graph,
    tensors: &mut Tensors,
    sets: &Sets<'_>,
    (lanes, unroll, threads): (u32, u32, u32),
    widest: u32,
) -> Result<(Vec<u64>, u64), PlanError> {
    let (count, words, inputs) = (tensors.all.len(), record_words(graph), graph.inputs().len());
    let own = |tensor: &usize| *tensor < inputs || graph.outputs()[*tensor - inputs].in_place.is_none();
    let mut records = Vec::with_capacity(sets.lengths.len() * words);
    let mut blocks = 0_u64;
    for (set, &length) in sets.lengths.iter().enumerate().filter(|(_, length)| **length > 0) {
        let head = find_head(tensors, sets, set, (lanes, widest)).map_or(length, u64::from).min(length);
        let tiles = Tiles::new(length, head, 0, threads, lanes * unroll);
        // A set without whole tiles has no elements before them either.
        let head = if tiles.whole > 0 { head } else { 0 };
        records.extend([blocks | u64::from(sets.groups[set]) << 32, length, tiles.whole | head << 32]);
        records.extend((0..count).filter(own).map(|tensor| sets.starts[set * count + tensor]));
        records.resize(records.len().next_multiple_of(words), 0);
        blocks = blocks.saturating_add(tiles.blocks);
        if blocks >= 1 << 31 {
            return Err(PlanError::Blocks { blocks });
        }
    }
    Ok((records, blocks))
}

/// A table, and where it is.
struct Placed {
    batched: Batched,
    table: Vec<u64>,
    index: (u32, u32),
}

/// Decides where the table is, and builds it: the index and the records.
fn lay_out(records: &[u64], record: usize, sets: &Sets<'_>, scalars: usize, blocks: u64) -> Result<Placed, PlanError> {
    let firsts: Vec<u64> = records.iter().step_by(record).map(|word| word & u64::from(u32::MAX)).collect();
    let before = HEAD.saturating_add(scalars);
    if before > MOST_WORDS {
        return Err(PlanError::Words { words: before });
    }
    let shift_for = |most: u64| (0..32).find(|shift| (blocks - 1) >> shift < most);
    // In parameters, entries of the index take the place of records.
    let room = (MOST_WORDS - before).saturating_sub(records.len() + 1) as u64;
    let inside = shift_for(room.min(4 * firsts.len() as u64));
    let shift = inside.or_else(|| shift_for(INDEX.max(4 * firsts.len() as u64))).unwrap_or(31);
    let mut table: Vec<u64> = index(&firsts, blocks, shift);
    table.resize(table.len().next_multiple_of(2), 0);
    let entries = table.len() as u32;
    table.extend_from_slice(records);
    let words = if inside.is_some() { before + table.len() } else { before };
    if u32::try_from(table.len()).is_err() {
        return Err(PlanError::Sets { sets: firsts.len(), most: u32::MAX as usize / (record + 4) });
    }
    let words = (words as u32).next_power_of_two().min(MOST_WORDS as u32);
    let batched = Batched { table_in_memory: inside.is_none(), words, skip: sets.skip };
    Ok(Placed { batched, table, index: (shift, entries) })
}

/// For every 2^`shift` blocks the first and the last set that they may belong to, in halves.
fn index(firsts: &[u64], blocks: u64, shift: u32) -> Vec<u64> {
    let mut entries = Vec::new();
    let mut set = 0;
    let mut advance = |block: u64| {
        while firsts.get(set + 1).is_some_and(|&first| first <= block) {
            set += 1;
        }
        set as u64
    };
    for entry in 0..=(blocks - 1) >> shift {
        let low = advance(entry << shift);
        let high = advance(((entry + 1) << shift) - 1);
        entries.push(low | high << 32);
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::super::tests::{TRIAD, device, graph};
    use super::*;

    #[test]
    fn index_brackets_the_set_of_every_block() {
        let firsts = [0, 1, 2, 3, 100, 101, 5000];
        for shift in [0, 1, 4, 7, 12, 14] {
            let entries = index(&firsts, 6000, shift);
            assert_eq!(entries.len() as u64, (5999 >> shift) + 1);
            for block in 0..6000_u64 {
                let set = firsts.iter().filter(|&&first| first <= block).count() as u64 - 1;
                let range = entries[(block >> shift) as usize];
                let (low, high) = (range & 0xffff_ffff, range >> 32);
                assert!(low <= set && set <= high, "{block} {shift}");
                assert!(shift > 0 || low == high);
            }
        }
    }

    #[test]
    fn batches_use_the_rows_of_flat_kernels() {
        let table = Table::for_device("NVIDIA H200", 90);
        let graph = graph("in x: bf16\ny = exp(x)");
        let plan =
            plan_batch(&graph, sets(&[1 << 28; 4], &[0; 8], &[0; 4]), &device(90), &table, &Choose::default()).unwrap();
        assert!(plan.plan.spec.lanes >= 4, "{plan:?}");
    }

    #[test]
    fn threads_of_large_batches_read_at_least_64_bytes() {
        let unroll = |text: &str, length: u64| {
            let graph = graph(text);
            let tensors = graph.inputs().len() + graph.outputs().len();
            let (lengths, starts) = ([length; 4], vec![0; 4 * tensors]);
            let sets = sets(&lengths, &starts, &[0; 4]);
            let plan = plan_batch(&graph, sets, &device(80), &Table::default(), &Choose::default()).unwrap();
            (plan.plan.spec.lanes, plan.plan.spec.unroll)
        };
        let mixed = "in g: bf16, m: f32, v: f32, p: bf16\ny: bf16 = p - g*m/v";
        assert_eq!(unroll(mixed, 1 << 26), (4, 2));
        assert_eq!(unroll("in x: f32, z: f32, v: f32, w: f32\ny = x*z + v*w", 1 << 26), (4, 1));
        assert_eq!(unroll(mixed, 1 << 12).1, 1);
    }

    fn sets<'s>(lengths: &'s [u64], starts: &'s [u64], groups: &'s [u32]) -> Sets<'s> {
        Sets { lengths, starts, groups, group_count: 2, uniform: &[], skip: None }
    }

    /// Plans a batch of the triad with these addresses of each set.
    fn batch(lengths: &[u64], address: impl Fn(usize) -> u64) -> Result<BatchPlan, PlanError> {
        let starts: Vec<u64> = (0..3 * lengths.len()).map(address).collect();
        let groups = vec![0; lengths.len()];
        plan_batch(&graph(TRIAD), sets(lengths, &starts, &groups), &device(80), &Table::default(), &Choose::default())
    }

    #[test]
    fn table_of_a_batch_is_in_the_parameters_if_it_fits() {
        let few = batch(&[5; 20], |_| 0).unwrap();
        assert!(!few.table_in_memory());
        let words = few.words(7, 9, &[1, 2]).unwrap();
        assert_eq!((words.len(), words[0], words[1], &words[3..5]), (256, 9, 5, &[1, 2][..]));
        assert_eq!(words[5..5 + few.table.len()], few.table);
        let many = batch(&[5; 20_000], |_| 0).unwrap();
        assert!(many.table_in_memory());
        assert_eq!(many.words(7, 9, &[1, 2]).unwrap()[..2], [9, 7]);
        assert_eq!(many.words(7, 9, &[1]), Err(PlanError::Count { tensors: 0, scalars: 2, given: (0, 1) }));
    }

    #[test]
    fn sets_of_a_batch_have_whole_tiles_from_their_first_aligned_element_on() {
        // Aligned, aligned from some element on, never aligned together, empty, and longer than 2^32 elements.
        let long = 5 << 32;
        let plan = batch(&[1 << 20, 1 << 20, 1 << 20, 0, long], |tensor| match tensor / 3 {
            1 => 4,
            2 => 4 * (tensor as u64 % 3),
            _ => 0,
        });
        let plan = plan.unwrap();
        let records: Vec<&[u64]> = plan.table[plan.table.len() - 4 * 6..].chunks(6).collect();
        let tile = plan.plan.spec.tile();
        assert_eq!((records[0][1], records[0][2]), (1 << 20, (1 << 20) / tile));
        let head = records[1][2] >> 32;
        assert!(head > 0 && head < 32 && records[1][2] as u32 as u64 >= (1 << 20) / tile - 1);
        assert_eq!(records[2][2], 0);
        assert_eq!((records[3][1], records[3][2]), (long, long / tile));
    }

    #[test]
    fn batch_rejects_unknown_groups_and_more_groups_than_fit() {
        let graph = graph(TRIAD);
        let plan = |groups: &[u32], group_count| {
            let sets = Sets { group_count, ..sets(&[5, 5], &[0; 6], groups) };
            plan_batch(&graph, sets, &device(80), &Table::default(), &Choose::default())
        };
        assert!(plan(&[0, 400], 401).is_ok());
        assert!(matches!(plan(&[0, 2], 2), Err(PlanError::Choice { what: "group", .. })));
        assert!(matches!(plan(&[0, 0], 1000), Err(PlanError::Words { words: 1003 })));
    }
}
