//! `impl Elementwise` for the stand-in: a kernel walks the elements as the words of its form say, and interprets the expression's
//! program for each.

use std::cell::Cell;
use std::sync::Arc;

use plimsoll_core::Fault;
use plimsoll_expr::DType;
use plimsoll_gen::Target;
use plimsoll_gen::elementwise::{self, KernelSpec, Stream as Addressed, Table, body};
use plimsoll_gpu::elementwise::{Elementwise, Facts, OtherDevice};
use plimsoll_gpu::{Arguments, Form, Geometry, Span, Unavailable};
use plimsoll_ir::{Program, eval};

use super::host::{APART, Call, Device, Function, Host, Launch, Stream};

/// What a thread's next kernel does wrong with a set of tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Nothing, and so all later ones.
    None,
    /// The last element isn't computed. The next one exceeds.
    Skips,
    /// One element too many is computed. The next one skips.
    Exceeds,
}

thread_local! {
    pub static MISTAKE: Cell<Mistake> = const { Cell::new(Mistake::None) };
}

impl Elementwise for Host {
    type Compiler = ();
    type Held = Vec<Span>;
    type Entered<'s> = &'s Stream;

    fn compiler(_: &Device) {}

    fn facts((): &()) -> Result<Facts, Fault> {
        let device = elementwise::Device {
            target: Target::plain(80),
            multiprocessors: 32,
            threads_per_multiprocessor: 2048,
            l2_bytes: 1 << 20,
        };
        let name = "stand-in".to_owned();
        Ok(Facts { name, device, table: Table::default(), overlaps: false, compiles: Ok(()) })
    }

    fn load((): &(), spec: &KernelSpec, _: usize) -> Result<Function, Fault> {
        if spec.form == elementwise::Form::Bulk {
            return Err(Unavailable::new("bulk copies", "the stand-in has none", "Choose another form").into());
        }
        let (spec, program) = (spec.clone(), body::program(&spec.graph, spec.tier));
        Ok(Function(Arc::new(move |call: &mut Call<'_>| Kernel { spec: &spec, program: &program }.run(call))))
    }

    fn hold(spans: &[Span]) -> Result<Vec<Span>, Fault> {
        Ok(spans.to_vec())
    }

    fn check_memory((): &(), _: &Vec<Span>) -> Result<(), OtherDevice> {
        Ok(())
    }

    fn check_stream(_: &Function, _: &&Stream) -> Result<(), OtherDevice> {
        Ok(())
    }

    fn enter(stream: &Stream) -> Result<&Stream, Fault> {
        Ok(stream)
    }

    fn admit(stream: &mut &Stream, held: &Vec<Span>) -> Result<(), Fault> {
        held.iter().try_for_each(|span| stream.bytes(*span, |_| ()))
    }

    unsafe fn launch_words(
        stream: &mut &Stream,
        function: &Function,
        shape: (Geometry, Form),
        words: &[u64],
    ) -> Result<(), Fault> {
        launch(function, shape, words).run(stream);
        Ok(())
    }

    unsafe fn prepare_words(
        function: &Function,
        shape: (Geometry, Form),
        words: &[u64],
        _: &Vec<Span>,
    ) -> Result<Launch, Fault> {
        Ok(launch(function, shape, words))
    }
}

fn launch(function: &Function, (geometry, form): (Geometry, Form), words: &[u64]) -> Launch {
    Launch { function: function.clone(), geometry, form, arguments: Arguments::new(), words: words.to_vec() }
}

struct Kernel<'k> {
    spec: &'k KernelSpec,
    program: &'k Program,
}

/// The elements of one set of tensors, and where they are.
struct Walk<'w> {
    /// The addresses of the elements of index 0, inputs then outputs.
    starts: &'w [u64],
    scalars: &'w [u64],
    extents: Vec<u64>,
    strides: Vec<u64>,
    /// Words between two sets of strides.
    pitch: usize,
}

impl Kernel<'_> {
    fn run(&self, call: &Call<'_>) {
        let (graph, rank, words) = (&self.spec.graph, self.spec.rank as usize, &call.launch.words[..]);
        let (tensors, scalars) = (graph.inputs().len() + graph.outputs().len(), graph.scalars().len());
        if self.spec.form == elementwise::Form::Batch {
            return self.run_batch(call, tensors, scalars);
        }
        let (starts, words) = words.split_at(tensors);
        let (scalars, words) = words.split_at(scalars);
        let divisors = |count: usize| words[2..].iter().step_by(3).take(count).copied();
        let (extents, pitch) = match self.spec.form {
            elementwise::Form::Rows | elementwise::Form::Strided => (divisors(rank).collect(), 2 * rank),
            // Two divisors are for tiles, the others for the slower dimensions.
            elementwise::Form::Transpose => (divisors(rank).skip(2).chain([words[0], words[1]]).collect(), rank),
            _ => (vec![words[0]], 0),
        };
        let strides = if pitch > 0 { words[2 + 3 * rank..].to_vec() } else { Vec::new() };
        let walk = Walk { starts, scalars, extents, strides, pitch };
        self.walk(call.stream, &self.unfolded(walk));
    }

    /// The folded dimensions of tiles as two each.
    fn unfolded<'w>(&self, walk: Walk<'w>) -> Walk<'w> {
        let [rows, columns] = self.spec.folds;
        let pitch = walk.pitch + usize::from(rows > 0) + usize::from(columns > 0);
        if pitch == walk.pitch {
            return walk;
        }
        let rank = walk.pitch;
        // Of each dimension its extent, and its stride's place in a set.
        let mut dimensions: Vec<(u64, usize)> = walk.extents.iter().copied().zip(0..).collect();
        let mut last = pitch;
        for (side, fold) in [(rank - 1, columns), (rank - 2, rows)] {
            if fold > 0 {
                last -= 1;
                dimensions[side].0 /= u64::from(fold);
                dimensions.insert(side + 1, (u64::from(fold), last));
            }
        }
        let sets = walk.strides.chunks_exact(pitch);
        let strides =
            sets.flat_map(|set| dimensions.iter().map(|(_, place)| set[*place]).collect::<Vec<_>>()).collect();
        Walk { extents: dimensions.iter().map(|(extent, _)| *extent).collect(), strides, pitch, ..walk }
    }

    /// Walks the sets of a batch in the order of its table.
    fn run_batch(&self, call: &Call<'_>, tensors: usize, scalars: usize) {
        let (batched, words) = (self.spec.batched.unwrap(), &call.launch.words[..]);
        let flag = batched.skip.map_or(0, |dtype| bytes(call.stream, words[0], dtype, |bytes| load(bytes)).unwrap());
        if flag != 0 {
            return;
        }
        let word = |place: usize| match batched.table_in_memory {
            false => words[words[1] as usize + place],
            true => bytes(call.stream, words[1] + 8 * place as u64, DType::U64, |bytes| load(bytes)).unwrap(),
        };
        let half = |word: u64| ((word & 0xffff_ffff) as usize, (word >> 32) as usize);
        let (shift, records) = half(words[2]);
        let in_place: Vec<Option<u32>> = self.spec.graph.outputs().iter().map(|output| output.in_place).collect();
        let own = tensors - in_place.iter().flatten().count();
        let record = |set: usize| records + set * (3 + own).next_multiple_of(2);
        let inputs = self.spec.graph.inputs().len();
        // An output in place has its input's address.
        let mut next = inputs..;
        let outputs = in_place.iter().map(|slot| slot.map_or_else(|| next.next().unwrap(), |slot| slot as usize));
        let places: Vec<usize> = (0..inputs).chain(outputs).collect();
        let mut done = None;
        for block in 0..call.launch.geometry.grid[0] as usize {
            let (low, high) = half(word(block >> shift));
            let set = (low..=high).rev().find(|set| half(word(record(*set))).0 <= block).unwrap();
            if done.replace(set) == Some(set) {
                continue;
            }
            let group = half(word(record(set))).1;
            let starts: Vec<u64> = places.iter().map(|place| word(record(set) + 3 + place)).collect();
            let scalars = &words[3 + group * scalars..][..scalars];
            let extents = vec![word(record(set) + 1)];
            self.walk(call.stream, &Walk { starts: &starts, scalars, extents, strides: Vec::new(), pitch: 0 });
        }
    }

    fn walk(&self, stream: &Stream, walk: &Walk<'_>) {
        let count: u64 = walk.extents.iter().product();
        let (count, next) = match MISTAKE.get() {
            Mistake::None => (count, Mistake::None),
            Mistake::Skips => (count.saturating_sub(1), Mistake::Exceeds),
            Mistake::Exceeds => (count + 1, Mistake::Skips),
        };
        MISTAKE.set(next);
        (0..count).for_each(|place| self.element(stream, walk, place));
    }

    fn element(&self, stream: &Stream, walk: &Walk<'_>, place: u64) {
        let (graph, Program { inputs, scalars, outputs, .. }) = (&self.spec.graph, self.program);
        let mut coordinates = vec![0; walk.extents.len()];
        let mut rest = place;
        for (coordinate, extent) in coordinates.iter_mut().zip(&walk.extents).rev() {
            (*coordinate, rest) = (rest % extent, rest / extent);
        }
        let read = inputs.iter().enumerate().map(|(slot, dtype)| {
            let address = self.address(walk, slot, (place, &coordinates), *dtype);
            address.and_then(|address| bytes(stream, address, *dtype, |bytes| load(bytes))).unwrap_or(0)
        });
        let element = eval::Element {
            inputs: &read.collect::<Vec<_>>(),
            scalars: walk.scalars,
            types: (inputs, scalars),
            place,
            coordinates: &coordinates,
        };
        let block = self.program.total();
        let (results, _) = eval::run(block, element);
        for (slot, ((bits, id), dtype)) in results.into_iter().zip(&block.results).zip(outputs).enumerate() {
            let bits = dtype.encode(block.get(*id).dtype.decode(bits));
            let at = self.address(walk, graph.inputs().len() + slot, (place, &coordinates), *dtype);
            at.and_then(|address| bytes(stream, address, *dtype, |bytes| store(bytes, bits)));
        }
    }

    /// The address of an element of a tensor; `None` if the kernel doesn't use the tensor.
    fn address(
        &self,
        walk: &Walk<'_>,
        tensor: usize,
        (place, coordinates): (u64, &[u64]),
        dtype: DType,
    ) -> Option<u64> {
        let offset = match self.spec.streams[tensor] {
            Addressed::Unused => return None,
            Addressed::Uniform => 0,
            Addressed::Linear | Addressed::Shifted => place,
            Addressed::Indexed { set, .. } | Addressed::Transposed { set, .. } | Addressed::Dense { set, .. } => {
                let strides = &walk.strides[walk.pitch * usize::from(set)..];
                let terms =
                    coordinates.iter().zip(strides).map(|(coordinate, stride)| coordinate.wrapping_mul(*stride));
                terms.fold(0, u64::wrapping_add)
            }
        };
        Some(walk.starts[tensor].wrapping_add(offset.wrapping_mul(dtype.bytes())))
    }
}

/// Calls `access` on the bytes of an element; `None` if there is no memory.
fn bytes<R>(stream: &Stream, address: u64, dtype: DType, access: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
    stream.bytes(Span::new(address / APART, address, dtype.bytes()), access).ok()
}

fn load(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

fn store(bytes: &mut [u8], bits: u64) {
    let length = bytes.len();
    bytes.copy_from_slice(&bits.to_le_bytes()[..length]);
}
