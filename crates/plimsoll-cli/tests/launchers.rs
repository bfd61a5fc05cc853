//! `check --fleet` under real launchers: every process writes its own file, and `collect` finds all of them. A launcher that isn't
//! installed is skipped, with the reason.

#[allow(dead_code, reason = "each test file uses a part")]
mod support;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use support::Place;

/// Whether a program is installed; says so if not.
fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status();
    let is_here = found.is_ok_and(|status| status.success());
    if !is_here {
        eprintln!("skipped: {program} isn't installed");
    }
    is_here
}

/// What a process runs: a card whose seed and slot are its rank, which a shell variable holds.
fn check(rank: &str, slot: &str) -> String {
    let program = env!("CARGO_BIN_EXE_plimsoll");
    format!("{program} check --device sim:seed=${rank},slot=${slot},spread=0.003 --fleet fleet --quiet")
}

/// Runs a launcher in the test's folder; it must succeed.
fn launch(place: &Place, program: &str, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command
        .args(args)
        .current_dir(place.path(""))
        .env("SLURM_CONF", place.path("slurm/slurm.conf"))
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{program}: {output:?}");
    output
}

/// Collects the fleet: all devices are healthy, and each has the rank of its file. Returns the hosts.
fn collect(place: &Place, devices: usize, variable: &str, world: Option<usize>) -> Vec<String> {
    let ran = place.run(&format!("collect fleet --expect {devices} --format json")).ends(0);
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (found["verdict"].as_str(), found["problems"].as_array().unwrap().len()),
        (Some("healthy"), 0),
        "{found}"
    );
    let all = found["devices"].as_array().unwrap();
    let mut ranks: Vec<u64> = all.iter().map(|device| device["rank"]["number"].as_u64().unwrap()).collect();
    ranks.sort_unstable();
    assert_eq!(ranks, (0..devices as u64).collect::<Vec<_>>());
    for device in all {
        assert_eq!(device["rank"]["source"], variable, "{device}");
        assert_eq!(device["rank"]["world"].as_u64(), world.map(|world| world as u64), "{device}");
        assert_eq!(device["id"], format!("sim-{}", device["rank"]["number"]), "{device}");
    }
    let mut hosts: Vec<String> = all.iter().map(|device| device["host"].as_str().unwrap().to_owned()).collect();
    hosts.dedup();
    hosts
}

#[test]
fn open_mpi_starts_ranks() {
    if has("mpirun.openmpi") {
        let place = Place::new();
        let command = check("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK");
        launch(&place, "mpirun.openmpi", &["--allow-run-as-root", "--oversubscribe", "-np", "4", "sh", "-c", &command]);
        assert_eq!(collect(&place, 4, "OMPI_COMM_WORLD_RANK", Some(4)).len(), 1);
    }
}

#[test]
fn mpich_starts_ranks() {
    if has("mpiexec.hydra") {
        let place = Place::new();
        launch(&place, "mpiexec.hydra", &["-n", "4", "sh", "-c", &check("PMI_RANK", "PMI_RANK")]);
        assert_eq!(collect(&place, 4, "PMI_RANK", Some(4)).len(), 1);
    }
}

#[test]
fn gnu_parallel_starts_jobs() {
    if has("parallel") && parallel_is_gnus() {
        let place = Place::new();
        // Its ranks count from 1, and the seeds here as well.
        let command = check("{1}", "{1}").replace('$', "");
        launch(&place, "parallel", &["-j2", &command, ":::", "0", "1", "2", "3"]);
        assert_eq!(collect(&place, 4, "PARALLEL_SEQ", None).len(), 1);
    }
}

fn parallel_is_gnus() -> bool {
    let version = Command::new("parallel").arg("--version").output();
    let is_gnu = version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("GNU parallel"));
    if !is_gnu {
        eprintln!("skipped: this parallel isn't GNU's");
    }
    is_gnu
}

/// Ends Slurm's processes when dropped.
struct Slurm<'p>(&'p Place);

impl Drop for Slurm<'_> {
    fn drop(&mut self) {
        let pids = std::fs::read_to_string(self.0.path("slurm/pids")).unwrap_or_default();
        // Nothing of it has to be kept.
        let _ = Command::new("kill").arg("-KILL").args(pids.split_whitespace()).status();
    }
}

#[test]
fn slurm_starts_32_ranks_on_four_nodes() {
    if !["srun", "slurmctld", "slurmd", "munged"].into_iter().all(has) {
        return;
    }
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped: a Slurm on one machine needs root");
        return;
    }
    let place = Place::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slurm/start.sh");
    let slurm = Slurm(&place);
    // Below the ports that the system gives to connections, and apart from those of another test run.
    let port = 20_000 + std::process::id() % 1000 * 5;
    launch(&place, "sh", &[script.to_str().unwrap(), place.path("slurm").to_str().unwrap(), &port.to_string()]);
    launch(&place, "srun", &["-n32", "sh", "-c", &check("SLURM_PROCID", "SLURM_LOCALID")]);
    drop(slurm);
    assert_eq!(collect(&place, 32, "SLURM_PROCID", Some(32)), ["n1", "n2", "n3", "n4"]);
}
