//! pattern on a GPU: one array over most of the free memory, filled and read back.

use super::kernels::{self, RESULT_WORDS};
use super::{Checked, Pass};
use crate::prelude::gpu::*;

impl<G: Gpu> Run<G> for super::GpuRunner {
    const NEEDS: &'static [Need] = &[Need::Code(&kernels::SOURCE), Need::Graphs];

    fn points(&self, _: &G::Device, _: &Request) -> usize {
        Pass::ALL.len()
    }

    fn run(&self, session: &mut Session<'_, G>) -> Result<(), Fault> {
        let (most, _) = fit_arrays::<G>(session.device, 1, u64::MAX / 4)?;
        let wanted = requested_bytes(session, most)?;
        let bytes = wanted.min(most);
        let flags = (bytes < wanted).then_some(plimsoll_core::Flag::Shrunk).into_iter().collect();
        let bench = Bench::<G>::new(session.device, bytes, session.request.seed)?;
        let sweep = Sweep { series: super::checks(), points: &Pass::ALL, share: 1.0, flags };
        let coordinates = |pass: &Pass| Checked { pass: *pass, memory: bytes.into() };
        session.sweep(sweep, coordinates, |_, pass| bench.check(*pass, bytes)).map(drop)
    }

    fn verify(&self, device: &mut G::Device, depth: Depth, report: &mut dyn FnMut(Case)) -> Result<(), Fault> {
        const MOST: u64 = 1 << 20;
        let words: &[u64] = if depth == Depth::Small { &[1, 255, 257] } else { &[1, 31, 255, 257, 1023, MOST / 8] };
        let bench = Bench::<G>::new(device, MOST, 7)?;
        for &n in words {
            for pass in Pass::ALL {
                let on = format!("{n} words, {pass}");
                bench.fill(pass, 8 * n)?;
                report(Case::new(kernels::fill().name, on.clone(), bench.check_on_host(pass, n)?));
                report(Case::from_sample(kernels::check().name, on.clone(), &mut bench.check(pass, 8 * n)?)?);
                report(Case::new(kernels::check().name, on, bench.check_finds(pass, n)?));
            }
        }
        Ok(())
    }
}

/// State shared by all points.
struct Bench<G: Gpu> {
    kit: Kit<G>,
    memory: G::Buffer,
    result: Rc<G::Buffer>,
    seed: u64,
}

impl<G: Gpu> Bench<G> {
    fn new(device: &G::Device, bytes: u64, seed: u64) -> Result<Self, Fault> {
        let kit = Kit::new(device, &kernels::SOURCE, &[kernels::fill(), kernels::check()], TRUST)?;
        let (memory, result) = (kit.array(bytes)?, Rc::new(kit.array(8 * RESULT_WORDS)?));
        Ok(Self { kit, memory, result, seed })
    }

    fn fill(&self, pass: Pass, bytes: u64) -> Result<(), Fault> {
        let arguments =
            Arguments::new().span(self.memory.part(0, bytes)?).u64(self.seed).u64(pass.flip()).u64(bytes / 8);
        self.kit.run_once(&self.kit.unit.launch(&kernels::fill(), bytes / 8, arguments)?)
    }

    fn launch(&self, pass: Pass, bytes: u64) -> Result<G::Launch, Fault> {
        let arguments = Arguments::new().span(self.memory.part(0, bytes)?).buffer(&*self.result);
        let arguments = arguments.u64(self.seed).u64(pass.flip()).u64(bytes / 8);
        self.kit.unit.launch(&kernels::check(), bytes / 8, arguments)
    }

    fn reset(&self) -> Result<(), Fault> {
        let words = [0, u64::MAX, 0].map(u64::to_le_bytes).concat();
        G::upload(self.kit.stream(), self.result.whole(), &words)
    }

    /// Fills the memory; each launch of the workload checks all of it.
    fn check(&self, pass: Pass, bytes: u64) -> Result<Load<G>, Fault> {
        self.fill(pass, bytes)?;
        self.reset()?;
        let work = Work { traffic: Traffic::new(bytes, 0), window: bytes, ..Work::default() };
        let load = self.kit.load(GRAPH, vec![self.launch(pass, bytes)?], work)?;
        let result = Rc::clone(&self.result);
        Ok(load.with_check(move |stream| read_result::<G>(stream, &result)))
    }

    /// Compares what the fill wrote with the same words from the host.
    fn check_on_host(&self, pass: Pass, words: u64) -> Result<Check, Fault> {
        let bytes = self.kit.download(self.memory.part(0, 8 * words)?)?;
        let is_wrong = |(i, word): (u64, &[u8])| {
            let expected = pattern::random_bits(self.seed, i) ^ pass.flip();
            (word != expected.to_le_bytes()).then_some(i)
        };
        Ok(match (0..).zip(bytes.chunks(8)).find_map(is_wrong) {
            Some(i) => Check::Failed(format!("word {i} is wrong")),
            None => Check::Passed,
        })
    }

    /// Checks that the kernel finds a single inverted bit in the last word.
    fn check_finds(&self, pass: Pass, words: u64) -> Result<Check, Fault> {
        self.fill(pass, 8 * words)?;
        let wrong = pattern::random_bits(self.seed, words - 1) ^ pass.flip() ^ (1 << 17);
        G::upload(self.kit.stream(), self.memory.part(8 * (words - 1), 8)?, &wrong.to_le_bytes())?;
        self.reset()?;
        self.kit.run_once(&self.launch(pass, 8 * words)?)?;
        Ok(match read_result::<G>(self.kit.stream(), &self.result)? {
            Check::Failed(what) if what == describe(1, words - 1, 1 << 17) => Check::Passed,
            _ => Check::Failed("a wrong bit was not found".to_owned()),
        })
    }
}

fn read_result<G: Gpu>(stream: &Arc<G::Stream>, result: &G::Buffer) -> Result<Check, Fault> {
    let mut bytes = [0; 8 * RESULT_WORDS as usize];
    G::download(stream, result.whole(), &mut bytes)?;
    let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[8 * i + byte]));
    Ok(match word(0) {
        0 => Check::Passed,
        wrong => Check::Failed(describe(wrong, word(1), word(2))),
    })
}

/// What is wrong: the number of wrong words over all launches, the first one's address, and the bits.
fn describe(wrong: u64, first: u64, bits: u64) -> String {
    let words = if wrong == 1 { "1 wrong word".to_owned() } else { format!("{wrong} wrong words") };
    format!("{words} read back, the first at byte {:#x}; wrong bits {bits:#018x}", 8 * first)
}
