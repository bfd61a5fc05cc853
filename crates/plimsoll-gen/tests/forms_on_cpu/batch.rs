//! Batches of sets of any length and alignment, with groups, inputs of one element and a flag to skip.

use plimsoll_core::stats::Rng;
use plimsoll_expr::{DType, Layout, Value};
use plimsoll_gen::Target;
use plimsoll_gen::elementwise::{BatchPlan, Choose, Sets, Table, plan_batch};

use super::{Case, Memory, check, compiled, device, expected, graph, memory, pick, scalars, tensors};

/// What only a batch has.
pub struct Batch {
    plan: BatchPlan,
    lengths: Vec<u64>,
    /// The bits of all groups' scalars.
    scalars: Vec<u64>,
}

impl Batch {
    /// The parameter block, the table in memory, and the places of the addresses of all sets' tensors and of the flag.
    pub fn words(&self) -> (Vec<u64>, Vec<u64>, Vec<u64>) {
        let words = self.plan.words(0, 0, &self.scalars).unwrap();
        let (tensors, table) = (self.plan.plan.spec.streams.len(), &self.plan.table);
        let graph = &self.plan.plan.spec.graph;
        let addresses =
            graph.inputs().len() + graph.outputs().iter().filter(|output| output.in_place.is_none()).count();
        let record = (3 + addresses).next_multiple_of(2);
        // An output in place has its input's address.
        let own = |tensor: usize| {
            tensor < graph.inputs().len() || graph.outputs()[tensor - graph.inputs().len()].in_place.is_none()
        };
        let sets = self.lengths.iter().filter(|length| **length > 0).count();
        let mut next = table.len() - sets * record;
        let mut places = Vec::new();
        for length in &self.lengths {
            let place = |tensor| match self.plan.table_in_memory() {
                true => 2 * (next + 3 + tensor) as u64 + 1,
                false => 2 * (3 + self.scalars.len() + next + 3 + tensor) as u64,
            };
            let mut address = 0;
            for tensor in 0..tensors {
                places.push(if *length > 0 && own(tensor) { place(address) } else { u64::MAX });
                address += usize::from(own(tensor));
            }
            next += if *length > 0 { record } else { 0 };
        }
        let has_flag = self.plan.plan.spec.batched.unwrap().skip.is_some();
        places.extend(has_flag.then_some(0));
        (words, if self.plan.table_in_memory() { table.clone() } else { Vec::new() }, places)
    }
}

#[test]
#[cfg_attr(not(gxx), ignore = "g++ is not installed")]
fn batch_computes_every_set() {
    let mut rng = Rng::new(4);
    let mut cases = Vec::new();
    let texts = [
        "in x: bf16, z: bf16\nscalar a: f32\ny = x + a*z",
        "in x: i32\nx = x*3 + 1",
        "in x: f32, t: i16\nx = x*t + index()",
    ];
    for text in texts {
        for (sets, groups, skip) in [(1, 1, None), (20, 3, None), (150, 2, Some(DType::F32)), (400, 1, Some(DType::U8))]
        {
            for flag in [0, 1].into_iter().take(if skip.is_some() { 2 } else { 1 }) {
                cases.extend(batch(&mut rng, text, (sets, groups), skip.map(|skip| (skip, flag == 1))));
            }
        }
    }
    for in_memory in [false, true] {
        let count = compiled(&cases, |spec| spec.batched.is_some_and(|batched| batched.table_in_memory == in_memory));
        assert!(count > 2, "{in_memory}: {count}");
    }
    check("forms-batch", &cases);
}

/// A batch of this many sets and groups, with a flag that is set or not.
fn batch(rng: &mut Rng, text: &str, (sets, groups): (usize, usize), skip: Option<(DType, bool)>) -> Option<Case> {
    let graph = graph(text);
    let uniform: Vec<bool> = graph.inputs().iter().map(|input| input.name == "t").collect();
    let lengths: Vec<u64> = (0..sets).map(|_| pick(rng, &[0, 1, 31, 64, 511, 512, 700, 2048, 3000])).collect();
    let of_set: Vec<u32> = (0..sets).map(|_| (rng.next_u64() % groups as u64) as u32).collect();
    let scalars: Vec<Vec<Value>> = (0..groups).map(|_| scalars(rng, &graph)).collect();
    let (mut all, mut expects) = (Vec::new(), Vec::new());
    for (&length, &group) in lengths.iter().zip(&of_set) {
        let aligned = rng.next_u64().is_multiple_of(2);
        let mut set = tensors(rng, &graph, &[length], true, aligned);
        for slot in (0..uniform.len()).filter(|slot| uniform[*slot]) {
            set[slot] = memory(rng, Layout::contiguous(&[1]).unwrap(), graph.inputs()[slot].dtype, 0);
        }
        let skips = skip.is_some_and(|(_, flag)| flag);
        let broadcast: Vec<Memory> = set
            .iter()
            .map(|memory| match memory.layout.elements() == 1 && length > 1 {
                true => Memory { layout: memory.layout.broadcast_to(&[length]).unwrap(), ..memory.clone() },
                false => memory.clone(),
            })
            .collect();
        let computed = expected(&graph, &[length], &broadcast, &scalars[group as usize]);
        let unchanged = || {
            (0..graph.outputs().len()).map(|place| {
                set[graph.outputs()[place].in_place.map_or(graph.inputs().len() + place, |slot| slot as usize)]
                    .bytes
                    .clone()
            })
        };
        expects.extend(if skips { unchanged().collect() } else { computed });
        all.extend(set);
    }
    let starts: Vec<u64> = all.iter().map(Memory::start).collect();
    if let Some((dtype, flag)) = skip {
        let mut bytes = Vec::new();
        dtype.write(Value::Int(flag.into()), &mut bytes);
        all.push(Memory { layout: Layout::contiguous(&[1]).unwrap(), dtype, before: 0, bytes });
    }
    let choose = Choose { threads: Some(32), unroll: Some(2), ..Choose::default() };
    let (group_count, skip) = (groups, skip.map(|(skip, _)| skip));
    let described = Sets { lengths: &lengths, starts: &starts, groups: &of_set, group_count, uniform: &uniform, skip };
    let planned = plan_batch(&graph, described, &device(Target::plain(80)), &Table::default(), &choose);
    let Ok(plan) = planned else {
        assert!(lengths.iter().all(|&length| length == 0), "{planned:?}");
        return None;
    };
    let bits = |values: &Vec<Value>| -> Vec<u64> {
        graph.scalars().iter().zip(values).map(|(scalar, value)| scalar.dtype.encode(*value)).collect()
    };
    let batch = Batch { plan: plan.clone(), lengths, scalars: scalars.iter().flat_map(bits).collect() };
    Some(Case { plan: plan.plan, batch: Some(batch), scalars: Vec::new(), tensors: all, expected: expects })
}
