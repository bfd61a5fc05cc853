//! `cargo xtask fuzz`: feeds damaged copies of real files to the parsers of untrusted input. Inputs follow from a seed. They run
//! in a child process with limited memory and a watchdog, so that panics, aborts, stack overflows, hangs and unbounded memory use
//! are all found. Finds are minimized and kept in `tests/fuzz`; a test of this crate replays them.

mod grammar;
mod mutate;
mod targets;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::test::root;
use mutate::Random;
use targets::{TARGETS, Target};

/// Address space of the child, in KiB: the largest seed needs a hundredth of it.
const MEMORY_KIB: u64 = 3 << 20;
/// Stack size, that of threads started by the standard library.
const STACK: usize = 2 << 20;
/// Timeout of one input. Inputs take microseconds to milliseconds; a thousand times as long is a find even on a busy machine.
const MAX_SECONDS: u64 = 20;
/// Maximum inputs tried to minimize a find.
const MAX_TRIES: usize = 200;
const MAX_FINDS: usize = 5;
const USAGE: &str = "cargo xtask fuzz [TARGET] [--seconds S] [--seed N] [--plant]";

/// The parsed arguments.
#[derive(Clone, Debug)]
struct Options {
    target: Option<&'static Target>,
    seconds: f64,
    seed: u64,
    /// The hundredth input panics, to show that panics are found.
    plant: bool,
    /// Run as the child process, in this folder.
    child: Option<PathBuf>,
    /// Run this file once.
    replay: Option<PathBuf>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Self { target: None, seconds: 60.0, seed: 1, plant: false, child: None, replay: None };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value: {USAGE}"));
            match word.as_str() {
                "--seconds" => options.seconds = value()?.parse().context("--seconds takes a number")?,
                "--seed" => options.seed = value()?.parse().context("--seed takes a number")?,
                "--plant" => options.plant = true,
                "--child" => options.child = Some(value()?.into()),
                "--replay" => options.replay = Some(value()?.into()),
                name => options.target = Some(find_target(name)?),
            }
        }
        if !(options.seconds > 0.0 && options.seconds <= 86_400.0) {
            bail!("--seconds takes a number above 0 and up to 86400");
        }
        Ok(options)
    }
}

fn find_target(name: &str) -> Result<&'static Target> {
    let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    let found = TARGETS.iter().find(|target| target.name == name);
    found.with_context(|| format!("unknown target '{name}'; known: {}", known.join(", ")))
}

/// `cargo xtask fuzz`. The targets share the seconds. A find is an error.
pub fn command(arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    if let Some((target, path)) = options.target.zip(options.replay.as_ref()) {
        let bytes = fs::read(path)?;
        return run_guarded(move || _ = (target.run)(&bytes));
    }
    if let Some((target, folder)) = options.target.zip(options.child.clone()) {
        return run_guarded(move || run_inputs(target, &options, &folder));
    }
    let targets: Vec<&Target> =
        TARGETS.iter().filter(|target| options.target.is_none_or(|only| only.name == target.name)).collect();
    let seconds = options.seconds / targets.len() as f64;
    let mut finds = 0;
    for target in targets {
        finds += fuzz(target, &Options { seconds, ..options.clone() })?;
    }
    if finds > 0 {
        bail!("{finds} finds: they are in tests/fuzz, and 'cargo nextest run -p xtask fuzz' replays them");
    }
    Ok(())
}

/// The step of the test command: ten seconds of fuzzing.
pub fn step() -> Result<()> {
    command(&["--seconds", "10"].map(str::to_owned))
}

/// Runs `work` on a stack of known size. Fails if it panics or one input takes too long.
fn run_guarded(work: impl FnOnce() + Send + 'static) -> Result<()> {
    let worker = std::thread::Builder::new().stack_size(STACK).spawn(work)?;
    let mut seen = (INPUTS.load(Ordering::Relaxed), Instant::now());
    while !worker.is_finished() {
        std::thread::sleep(Duration::from_millis(5));
        let inputs = INPUTS.load(Ordering::Relaxed);
        if inputs != seen.0 {
            seen = (inputs, Instant::now());
        }
        if seen.1.elapsed() > Duration::from_secs(MAX_SECONDS) {
            bail!("one input took longer than {MAX_SECONDS} s");
        }
    }
    worker.join().map_err(|_| anyhow::anyhow!("an input panicked"))
}

/// The number of inputs started.
static INPUTS: AtomicU64 = AtomicU64::new(0);

/// The number of inputs run, and how many of them were accepted.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    inputs: u64,
    accepted: u64,
}

impl Count {
    /// The count that a child wrote last; zero if it wrote none.
    fn read(folder: &Path) -> Self {
        let text = fs::read_to_string(folder.join("count")).unwrap_or_default();
        let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
        Self { inputs: numbers.next().unwrap_or(0), accepted: numbers.next().unwrap_or(0) }
    }

    fn write(self, folder: &Path) {
        // A lost count only affects the printed summary.
        let _ = fs::write(folder.join("count"), format!("{} {}", self.inputs, self.accepted));
    }
}

/// Inputs between two writes of the count.
const COUNT_INTERVAL: u64 = 256;

/// Runs inputs until the time is over, in the child process. Writes each to the folder before it runs, and regularly the count.
fn run_inputs(target: &Target, options: &Options, folder: &Path) {
    let (seeds, sources) = ((target.seeds)(), target.sources());
    let (mut random, end) = (Random(options.seed), Instant::now() + Duration::from_secs_f64(options.seconds));
    let mut count = Count::default();
    while Instant::now() < end {
        // The seeds themselves come first.
        let seed = seeds.get(count.inputs as usize).cloned();
        let input = seed.unwrap_or_else(|| target.input(&sources, &mut random));
        fs::write(folder.join("input"), &input).expect("the input can be written");
        INPUTS.fetch_add(1, Ordering::Relaxed);
        count.inputs += 1;
        assert!(!options.plant || count.inputs < 100, "planted");
        count.accepted += u64::from((target.run)(&input));
        if count.inputs.is_multiple_of(COUNT_INTERVAL) {
            count.write(folder);
        }
    }
    count.write(folder);
}

/// Fuzzes one target for the given time; returns the number of finds.
fn fuzz(target: &Target, options: &Options) -> Result<usize> {
    let folder = root().join("target/fuzz").join(target.name);
    fs::create_dir_all(&folder)?;
    let end = Instant::now() + Duration::from_secs_f64(options.seconds);
    let (mut finds, mut total) = (0, Count::default());
    for round in 0.. {
        let left = end.saturating_duration_since(Instant::now()).as_secs_f64();
        if left <= 0.0 || finds >= MAX_FINDS {
            break;
        }
        let seed = options.seed.wrapping_add(round << 32).to_string();
        let (seconds, place) = (left.to_string(), folder.display().to_string());
        let mut arguments = vec!["--child", &place, "--seconds", &seconds, "--seed", &seed];
        arguments.extend(options.plant.then_some("--plant"));
        let _ = fs::remove_file(folder.join("count"));
        let succeeded = run_child(target, &arguments, &folder)?;
        let count = Count::read(&folder);
        total = Count { inputs: total.inputs + count.inputs, accepted: total.accepted + count.accepted };
        if succeeded {
            break;
        }
        finds += 1;
        let (input, words) = (fs::read(folder.join("input"))?, fs::read_to_string(folder.join("words"))?);
        let words: String =
            words.lines().filter(|line| !line.starts_with("note:")).take(4).collect::<Vec<_>>().join(" ");
        eprintln!("{}: seed {seed}, a find: {words}", target.name);
        if options.plant {
            break;
        }
        keep(target, &minimize(target, input, &folder)?)?;
    }
    let share = 100.0 * total.accepted as f64 / total.inputs.max(1) as f64;
    eprintln!("{}: {} inputs, {share:.0} % accepted, {finds} finds (seed {})", target.name, total.inputs, options.seed);
    Ok(finds)
}

/// Runs this program as a child process with limited memory; true if it succeeded.
fn run_child(target: &Target, arguments: &[&str], folder: &Path) -> Result<bool> {
    let mut command = Command::new("sh");
    let limited = format!("ulimit -v {MEMORY_KIB}; ulimit -c 0; exec \"$0\" \"$@\"");
    // The program that is running, even if its file has been rebuilt in the meantime.
    let program = match std::env::consts::OS {
        "linux" => PathBuf::from(format!("/proc/{}/exe", std::process::id())),
        _ => std::env::current_exe()?,
    };
    command.args(["-c", &limited]).arg(program).args(["fuzz", target.name]).args(arguments);
    let words = File::create(folder.join("words"))?;
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(words).status();
    let status = status.context("can't start sh")?;
    // The shell's codes for a program that it can't start: no input is at fault.
    if matches!(status.code(), Some(126 | 127)) {
        bail!("{}", fs::read_to_string(folder.join("words"))?);
    }
    Ok(status.success())
}

/// Removes ever smaller pieces of the input as long as it still fails.
fn minimize(target: &Target, mut input: Vec<u8>, folder: &Path) -> Result<Vec<u8>> {
    let path = folder.join("smaller");
    let place = path.display().to_string();
    let (mut piece, mut tries) = (input.len() / 2, 0);
    while piece > 0 && tries < MAX_TRIES {
        let mut from = 0;
        while from < input.len() && tries < MAX_TRIES {
            let mut less = input.clone();
            less.drain(from..(from + piece).min(input.len()));
            fs::write(&path, &less)?;
            tries += 1;
            if run_child(target, &["--replay", &place], folder)? { from += piece } else { input = less }
        }
        piece /= 2;
    }
    Ok(input)
}

fn keep(target: &Target, input: &[u8]) -> Result<()> {
    let folder = target.folder();
    fs::create_dir_all(&folder)?;
    let name = input.iter().fold(Random(input.len() as u64), |hash, byte| Random(hash.0 ^ u64::from(*byte)).next());
    let path = folder.join(format!("{:016x}", name.0));
    fs::write(&path, input)?;
    eprintln!("  {} bytes in {}", input.len(), path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_inputs_of_every_target_end_without_a_panic() {
        for target in TARGETS {
            let kept = target.kept();
            assert!(!kept.is_empty(), "{} holds no input", target.folder().display());
            for input in kept {
                (target.run)(&input);
            }
        }
    }

    #[test]
    fn every_target_accepts_its_seeds_and_accepts_some_but_not_all_generated_inputs() {
        for target in TARGETS {
            let (seeds, sources) = ((target.seeds)(), target.sources());
            assert!(!seeds.is_empty(), "{} has no inputs", target.name);
            for seed in &seeds {
                let shown: String = String::from_utf8_lossy(seed).chars().take(80).collect();
                assert!((target.run)(seed), "{} rejects {shown}", target.name);
            }
            let mut random = Random(7);
            let mut outcomes = (0..2000).map(|_| (target.run)(&target.input(&sources, &mut random)));
            let first = outcomes.next().unwrap();
            assert!(outcomes.any(|outcome| outcome != first), "{} returns {first} for every input", target.name);
        }
    }

    #[test]
    fn a_source_of_records_has_points() {
        let target = find_target("records").unwrap();
        let points = |input: &[u8]| input.windows(14).any(|window| window == b"\"kind\":\"point\"");
        assert!(target.sources().iter().any(|input| points(input) && (target.run)(input)));
    }

    #[test]
    fn the_same_seed_makes_the_same_inputs() {
        for target in TARGETS {
            let sources = target.sources();
            let inputs = |seed| {
                let mut random = Random(seed);
                (0..50).map(|_| target.input(&sources, &mut random)).collect::<Vec<_>>()
            };
            assert_eq!(inputs(3), inputs(3), "{}", target.name);
            assert_ne!(inputs(3), inputs(4), "{}", target.name);
        }
    }
}
