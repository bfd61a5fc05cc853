//! `cargo xtask fuzz`: readers of what others write, fed with damaged copies of real files. Inputs follow from a seed. They run in a child
//! process with little memory and a watchdog, so that a panic, an abort, a stack that overflows, a hang and memory without bound
//! are all found; what is found is made smaller and kept in `tests/fuzz`, whose files are a test of this crate.

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

/// Address space of the child, KiB: the largest seed needs a hundredth of it.
const MEMORY_KIB: u64 = 3 << 20;
/// The stack of threads that the standard library starts.
const STACK: usize = 2 << 20;
/// One input takes microseconds to milliseconds; a thousand times as long is a find, on a busy machine too.
const MOST_SECONDS: u64 = 20;
/// Inputs that are tried to make a find smaller.
const MOST_TRIES: usize = 200;
const MOST_FINDS: usize = 5;
const USAGE: &str = "cargo xtask fuzz [TARGET] [--seconds S] [--seed N] [--plant]";

/// What was asked for.
#[derive(Clone, Debug)]
struct Ask {
    target: Option<&'static Target>,
    seconds: f64,
    seed: u64,
    /// Every hundredth input panics, to show that finds are found.
    plant: bool,
    /// The child's folder: it runs inputs itself.
    child: Option<PathBuf>,
    /// A file to run once.
    replay: Option<PathBuf>,
}

impl Ask {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut ask = Self { target: None, seconds: 60.0, seed: 1, plant: false, child: None, replay: None };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value: {USAGE}"));
            match word.as_str() {
                "--seconds" => ask.seconds = value()?.parse().context("--seconds takes a number")?,
                "--seed" => ask.seed = value()?.parse().context("--seed takes a number")?,
                "--plant" => ask.plant = true,
                "--child" => ask.child = Some(value()?.into()),
                "--replay" => ask.replay = Some(value()?.into()),
                name => ask.target = Some(target(name)?),
            }
        }
        if !(ask.seconds > 0.0 && ask.seconds <= 86_400.0) {
            bail!("--seconds takes a number up to 86400");
        }
        Ok(ask)
    }
}

fn target(name: &str) -> Result<&'static Target> {
    let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    let found = TARGETS.iter().find(|target| target.name == name);
    found.with_context(|| format!("no target '{name}': there are {}", known.join(", ")))
}

/// `cargo xtask fuzz`. Seconds are shared by the targets.
///
/// # Errors
/// A find; arguments that aren't understood.
pub fn command(arguments: &[String]) -> Result<()> {
    let ask = Ask::parse(arguments)?;
    if let Some((target, path)) = ask.target.zip(ask.replay.as_ref()) {
        let bytes = fs::read(path)?;
        return guarded(move || _ = (target.run)(&bytes));
    }
    if let Some((target, folder)) = ask.target.zip(ask.child.clone()) {
        return guarded(move || child(target, &ask, &folder));
    }
    let targets: Vec<&Target> =
        TARGETS.iter().filter(|one| ask.target.is_none_or(|only| only.name == one.name)).collect();
    let seconds = ask.seconds / targets.len() as f64;
    let mut finds = 0;
    for target in targets {
        finds += fuzz(target, &Ask { seconds, ..ask.clone() })?;
    }
    if finds > 0 {
        bail!("{finds} finds: they are in tests/fuzz, and 'cargo nextest run -p xtask fuzz' runs them again");
    }
    Ok(())
}

/// Ten seconds of the test command.
///
/// # Errors
/// A find.
pub fn step() -> Result<()> {
    command(&["--seconds", "10"].map(str::to_owned))
}

/// Runs on a stack of known size, and ends the process where one input takes too long.
fn guarded(work: impl FnOnce() + Send + 'static) -> Result<()> {
    let worker = std::thread::Builder::new().stack_size(STACK).spawn(work)?;
    let mut seen = (INPUTS.load(Ordering::Relaxed), Instant::now());
    while !worker.is_finished() {
        std::thread::sleep(Duration::from_millis(5));
        let inputs = INPUTS.load(Ordering::Relaxed);
        if inputs != seen.0 {
            seen = (inputs, Instant::now());
        }
        if seen.1.elapsed() > Duration::from_secs(MOST_SECONDS) {
            bail!("one input took longer than {MOST_SECONDS} s");
        }
    }
    worker.join().map_err(|_| anyhow::anyhow!("it panicked"))
}

/// Inputs that were begun.
static INPUTS: AtomicU64 = AtomicU64::new(0);

/// Inputs that ran, and how many of them were accepted.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    inputs: u64,
    accepted: u64,
}

impl Count {
    /// What a child wrote last; nothing where it ended before.
    fn read(folder: &Path) -> Self {
        let text = fs::read_to_string(folder.join("count")).unwrap_or_default();
        let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
        Self { inputs: numbers.next().unwrap_or(0), accepted: numbers.next().unwrap_or(0) }
    }

    fn write(self, folder: &Path) {
        // Only what is told at the end depends on it.
        let _ = fs::write(folder.join("count"), format!("{} {}", self.inputs, self.accepted));
    }
}

/// Inputs between two writes of their count.
const COUNTED: u64 = 256;

/// Runs inputs until the time is over. Each is in the folder before it runs, and their count is now and then.
fn child(target: &Target, ask: &Ask, folder: &Path) {
    let (seeds, sources) = ((target.seeds)(), target.sources());
    let (mut random, end) = (Random(ask.seed), Instant::now() + Duration::from_secs_f64(ask.seconds));
    let mut count = Count::default();
    while Instant::now() < end {
        // The first are the seeds themselves.
        let seed = seeds.get(count.inputs as usize).cloned();
        let input = seed.unwrap_or_else(|| target.input(&sources, &mut random));
        fs::write(folder.join("input"), &input).expect("the input can be written");
        INPUTS.fetch_add(1, Ordering::Relaxed);
        count.inputs += 1;
        assert!(!ask.plant || count.inputs < 100, "planted");
        count.accepted += u64::from((target.run)(&input));
        if count.inputs.is_multiple_of(COUNTED) {
            count.write(folder);
        }
    }
    count.write(folder);
}

/// One target for its time; the number of finds.
fn fuzz(target: &Target, ask: &Ask) -> Result<usize> {
    let folder = root().join("target/fuzz").join(target.name);
    fs::create_dir_all(&folder)?;
    let end = Instant::now() + Duration::from_secs_f64(ask.seconds);
    let (mut finds, mut total) = (0, Count::default());
    for round in 0.. {
        let left = end.saturating_duration_since(Instant::now()).as_secs_f64();
        if left <= 0.0 || finds >= MOST_FINDS {
            break;
        }
        let seed = ask.seed.wrapping_add(round << 32).to_string();
        let (seconds, place) = (left.to_string(), folder.display().to_string());
        let mut arguments = vec!["--child", &place, "--seconds", &seconds, "--seed", &seed];
        arguments.extend(ask.plant.then_some("--plant"));
        let _ = fs::remove_file(folder.join("count"));
        let ended_well = run(target, &arguments, &folder)?;
        let count = Count::read(&folder);
        total = Count { inputs: total.inputs + count.inputs, accepted: total.accepted + count.accepted };
        if ended_well {
            break;
        }
        finds += 1;
        let (input, words) = (fs::read(folder.join("input"))?, fs::read_to_string(folder.join("words"))?);
        let words: String =
            words.lines().filter(|line| !line.starts_with("note:")).take(4).collect::<Vec<_>>().join(" ");
        eprintln!("{}: seed {seed}, a find: {words}", target.name);
        if ask.plant {
            break;
        }
        keep(target, &smaller(target, input, &folder)?)?;
    }
    let share = 100.0 * total.accepted as f64 / total.inputs.max(1) as f64;
    eprintln!("{}: {} inputs, {share:.0} % accepted, {finds} finds (seed {})", target.name, total.inputs, ask.seed);
    Ok(finds)
}

/// True where the child ended well.
fn run(target: &Target, arguments: &[&str], folder: &Path) -> Result<bool> {
    let mut command = Command::new("sh");
    let limited = format!("ulimit -v {MEMORY_KIB}; ulimit -c 0; exec \"$0\" \"$@\"");
    // The very program that runs, though its file may have been built anew meanwhile.
    let own = match std::env::consts::OS {
        "linux" => PathBuf::from(format!("/proc/{}/exe", std::process::id())),
        _ => std::env::current_exe()?,
    };
    command.args(["-c", &limited]).arg(own).args(["fuzz", target.name]).args(arguments);
    let words = File::create(folder.join("words"))?;
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(words).status();
    let status = status.context("can't start sh")?;
    // What a shell says of a program that it can't start: no input is at fault.
    if matches!(status.code(), Some(126 | 127)) {
        bail!("{}", fs::read_to_string(folder.join("words"))?);
    }
    Ok(status.success())
}

/// Takes away what isn't needed to fail, in ever smaller pieces.
fn smaller(target: &Target, mut input: Vec<u8>, folder: &Path) -> Result<Vec<u8>> {
    let path = folder.join("smaller");
    let place = path.display().to_string();
    let (mut piece, mut tries) = (input.len() / 2, 0);
    while piece > 0 && tries < MOST_TRIES {
        let mut from = 0;
        while from < input.len() && tries < MOST_TRIES {
            let mut less = input.clone();
            less.drain(from..(from + piece).min(input.len()));
            fs::write(&path, &less)?;
            tries += 1;
            if run(target, &["--replay", &place], folder)? { from += piece } else { input = less }
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
    fn every_target_accepts_its_seeds_and_both_accepts_and_refuses_what_is_made_of_them() {
        for target in TARGETS {
            let (seeds, sources) = ((target.seeds)(), target.sources());
            assert!(!seeds.is_empty(), "{} has no inputs", target.name);
            for seed in &seeds {
                let shown: String = String::from_utf8_lossy(seed).chars().take(80).collect();
                assert!((target.run)(seed), "{} refuses {shown}", target.name);
            }
            let mut random = Random(7);
            let mut outcomes = (0..2000).map(|_| (target.run)(&target.input(&sources, &mut random)));
            let first = outcomes.next().unwrap();
            assert!(outcomes.any(|outcome| outcome != first), "{} answers all with {first}", target.name);
        }
    }

    #[test]
    fn a_source_of_records_has_points() {
        let target = target("records").unwrap();
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
