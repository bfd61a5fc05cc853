//! What processes know from their launcher: their rank, their number and their host, all from environment variables.

use plimsoll_core::record::Rank;

/// Looks up an environment variable.
pub type Lookup<'l> = &'l dyn Fn(&str) -> Option<String>;

/// What this process knows from its launcher.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launched {
    /// Its rank; `None` without a launcher.
    pub rank: Option<Rank>,
    /// Its number among the processes of this host.
    pub local: Option<u32>,
    /// The number of processes on this host.
    pub local_size: Option<u32>,
    /// The launcher's job.
    pub job: Option<String>,
}

/// The variables of a launcher. The first that is set of several names counts.
struct Launcher {
    rank: &'static str,
    world: &'static [&'static str],
    local: &'static [&'static str],
    local_size: &'static [&'static str],
    /// The number of the first process.
    first: u32,
    /// Whether the rank counts only with a world: a name that other programs may use.
    needs_world: bool,
}

const FLUX: &str = "FLUX_TASK_RANK";

/// The launchers, in this order: `mpirun` in a Slurm batch job gives every process `SLURM_PROCID=0`, so MPI comes before Slurm. A Slurm
/// batch script that is no step has no `SLURM_STEP_NUM_TASKS`.
///
/// Sources: Open MPI FAQ ('environment variables'), MPICH's Hydra wiki, torchrun ('environment variables'), flux-environment(7),
/// srun(1), Kubernetes ('Indexed Job'), GNU parallel(1).
const LAUNCHERS: [Launcher; 7] = [
    Launcher {
        rank: "OMPI_COMM_WORLD_RANK",
        world: &["OMPI_COMM_WORLD_SIZE"],
        local: &["OMPI_COMM_WORLD_LOCAL_RANK"],
        local_size: &["OMPI_COMM_WORLD_LOCAL_SIZE"],
        first: 0,
        needs_world: false,
    },
    Launcher {
        rank: "PMI_RANK",
        world: &["PMI_SIZE"],
        local: &["PMI_LOCAL_RANK", "MPI_LOCALRANKID"],
        local_size: &["PMI_LOCAL_SIZE", "MPI_LOCALNRANKS"],
        first: 0,
        needs_world: false,
    },
    Launcher {
        rank: "RANK",
        world: &["WORLD_SIZE"],
        local: &["LOCAL_RANK"],
        local_size: &["LOCAL_WORLD_SIZE"],
        first: 0,
        needs_world: true,
    },
    Launcher {
        rank: FLUX,
        world: &["FLUX_JOB_SIZE"],
        local: &["FLUX_TASK_LOCAL_ID"],
        local_size: &[],
        first: 0,
        needs_world: false,
    },
    Launcher {
        rank: "SLURM_PROCID",
        world: &["SLURM_STEP_NUM_TASKS"],
        local: &[],
        local_size: &[],
        first: 0,
        needs_world: false,
    },
    Launcher { rank: "JOB_COMPLETION_INDEX", world: &[], local: &[], local_size: &[], first: 0, needs_world: false },
    Launcher { rank: "PARALLEL_SEQ", world: &[], local: &[], local_size: &[], first: 1, needs_world: false },
];
/// Variables with the name of a job.
const JOBS: [&str; 5] = ["SLURM_JOB_ID", "FLUX_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_NAME"];
/// Most processes: a larger number is no rank.
pub(super) const MOST: u32 = 1 << 24;

/// Reads the environment of this process. `given` is a rank that the user named, which comes first.
#[must_use]
pub fn find(lookup: Lookup<'_>, given: Option<u32>) -> Launched {
    let job = JOBS.iter().find_map(|name| lookup(name)).map(|job| sanitise(&job)).filter(|job| !job.is_empty());
    let mut found = LAUNCHERS.iter().find_map(|launcher| launcher.read(lookup)).unwrap_or_default();
    found.job = job;
    if let Some(number) = given {
        let world = found.rank.as_ref().and_then(|rank| rank.world);
        found.rank = Some(Rank { number, world, source: "--rank".to_owned() });
    }
    found
}

impl Launcher {
    fn read(&self, lookup: Lookup<'_>) -> Option<Launched> {
        let first = |names: &[&str]| names.iter().find_map(|name| parse(&lookup(name)?));
        let number = parse(&lookup(self.rank)?)?.checked_sub(self.first)?;
        let world = first(self.world);
        let is_rank = world.map_or(!self.needs_world, |world| number < world);
        let (local, local_size) = match (first(self.local), find_in_step(lookup, number, world)) {
            (None, Some((local, size))) => (Some(local), size),
            (local, _) => (local, first(self.local_size)),
        };
        let local_size = if self.rank == FLUX { tasks_of_flux(lookup) } else { local_size };
        is_rank.then(|| Launched {
            rank: Some(Rank { number, world, source: self.rank.to_owned() }),
            local,
            local_size,
            job: None,
        })
    }
}

/// The number, and the size if it is known, of a Slurm step on this node, where this process is its task `number` of `world`. `srun --mpi=pmi2` sets
/// `PMI_RANK` too, but no local rank of PMI.
fn find_in_step(lookup: Lookup<'_>, number: u32, world: Option<u32>) -> Option<(u32, Option<u32>)> {
    let variable = |name: &str| lookup(name).and_then(|value| parse(&value));
    let is_task = variable("SLURM_PROCID") == Some(number)
        && variable("SLURM_STEP_NUM_TASKS").is_none_or(|tasks| world == Some(tasks));
    if !is_task {
        return None;
    }
    let node = variable("SLURM_NODEID").unwrap_or(0);
    let size = lookup("SLURM_STEP_TASKS_PER_NODE").and_then(|tasks| tasks_of_node(&tasks, node));
    // A batch script is no step, and alone on its node.
    variable("SLURM_LOCALID").filter(|local| *local > 0 || size.is_some()).map(|local| (local, size))
}

/// The tasks of a node, by Slurm's list: `2,1(x3)` has two on the first node and one on each of three others.
fn tasks_of_node(list: &str, node: u32) -> Option<u32> {
    let mut before = 0_u32;
    for part in list.split(',') {
        let (tasks, nodes) = match part.split_once("(x") {
            Some((tasks, nodes)) => (parse(tasks)?, parse(nodes.trim().strip_suffix(')')?)?),
            None => (parse(part)?, 1),
        };
        before = before.saturating_add(nodes);
        if node < before {
            return Some(tasks);
        }
    }
    None
}

/// The tasks of a Flux job on each of its nodes, if they are spread evenly: it states no others.
fn tasks_of_flux(lookup: Lookup<'_>) -> Option<u32> {
    let variable = |name: &str| lookup(name).and_then(|value| parse(&value));
    let nodes = variable("FLUX_JOB_NNODES").filter(|nodes| *nodes > 0)?;
    Some(variable("FLUX_JOB_SIZE")?.div_ceil(nodes))
}

/// The number that a variable holds.
fn parse(text: &str) -> Option<u32> {
    let is_number = !text.trim().is_empty() && text.trim().chars().all(|c| c.is_ascii_digit());
    text.trim().parse().ok().filter(|number| is_number && *number <= MOST)
}

/// The GPUs that a process measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// All that it sees: it is alone on its host.
    All,
    /// The one of this number: each process of the host takes one.
    One(u32),
}

impl Launched {
    /// Which of the `visible` GPUs this process measures. Where the launcher shows each process only its own GPU, that is the one.
    ///
    /// # Errors
    /// There are more processes on this host than GPUs.
    pub fn share(&self, visible: u32) -> Result<Share, String> {
        let is_alone = self.local_size.is_some_and(|size| size < 2) || self.local.is_none();
        match self.local {
            _ if visible < 2 || (is_alone && self.local.unwrap_or(0) == 0) => Ok(Share::All),
            Some(local) if local < visible => Ok(Share::One(local)),
            _ => {
                let local = self.local.unwrap_or(0);
                Err(format!("process {local} of this host (counted from 0) has no GPU: it sees {visible}"))
            }
        }
    }
}

/// Most characters of a name in a file's name.
const LONGEST: usize = 63;

/// The name of this host: Slurm's name of the node, else `hostname`. Several nodes of Slurm may share one machine's hostname.
#[must_use]
pub fn host_name(lookup: Lookup<'_>, hostname: &str) -> String {
    let name = lookup("SLURMD_NODENAME").map(|name| sanitise(&name)).filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| sanitise(hostname));
    if name.is_empty() { "host".to_owned() } else { name }
}

/// The rack of this host, as Slurm's tree of switches tells it: the switch next to the node.
#[must_use]
pub fn rack(lookup: Lookup<'_>) -> Option<String> {
    let path = lookup("SLURM_TOPOLOGY_ADDR")?;
    let rack = sanitise(path.rsplit('.').nth(1)?);
    (!rack.is_empty()).then_some(rack)
}

/// A name for files and reports: letters, digits, `.`, `_` and `-`, not beginning with a dot or a hyphen, at most 63 characters.
#[must_use]
pub fn sanitise(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = name.trim().chars().map(plain).collect();
    name.trim_start_matches(['.', '-']).chars().take(LONGEST).collect::<String>().trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launched(variables: &[(&str, &str)], given: Option<u32>) -> Launched {
        let variables: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let lookup = |name: &str| variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        find(&lookup, given)
    }

    fn rank(variables: &[(&str, &str)]) -> Option<(u32, Option<u32>, String)> {
        launched(variables, None).rank.map(|rank| (rank.number, rank.world, rank.source))
    }

    #[test]
    fn mpi_comes_before_slurm_and_the_option_before_all() {
        let slurm = [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "2"), ("SLURM_JOB_ID", "7")];
        let mpi = [("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "2")];
        assert_eq!(rank(&slurm), Some((0, Some(2), "SLURM_PROCID".to_owned())));
        let both: Vec<_> = slurm.iter().chain(&mpi).copied().collect();
        assert_eq!(rank(&both), Some((1, Some(2), "OMPI_COMM_WORLD_RANK".to_owned())));
        let found = launched(&both, Some(5));
        assert_eq!(found.rank.unwrap(), Rank { number: 5, world: Some(2), source: "--rank".to_owned() });
        assert_eq!(found.job.as_deref(), Some("7"));
        assert_eq!(rank(&[]), None);
    }

    #[test]
    fn every_launcher_is_read_and_parallel_counts_from_one() {
        assert_eq!(rank(&[("PMI_RANK", "3"), ("PMI_SIZE", "8")]), Some((3, Some(8), "PMI_RANK".to_owned())));
        assert_eq!(rank(&[("RANK", "3"), ("WORLD_SIZE", "8")]), Some((3, Some(8), "RANK".to_owned())));
        assert_eq!(rank(&[("FLUX_TASK_RANK", "3")]), Some((3, None, "FLUX_TASK_RANK".to_owned())));
        assert_eq!(rank(&[("JOB_COMPLETION_INDEX", "3")]), Some((3, None, "JOB_COMPLETION_INDEX".to_owned())));
        assert_eq!(rank(&[("PARALLEL_SEQ", "1")]), Some((0, None, "PARALLEL_SEQ".to_owned())));
    }

    #[test]
    fn variables_that_cannot_be_ranks_are_passed_over() {
        let completion = ("JOB_COMPLETION_INDEX", "2");
        for wrong in
            [("RANK", "1"), ("RANK", "captain"), ("PMI_RANK", "-1"), ("PARALLEL_SEQ", "0"), ("PMI_RANK", "99999999999")]
        {
            assert_eq!(rank(&[wrong, completion]).unwrap().2, "JOB_COMPLETION_INDEX", "{wrong:?}");
        }
        assert_eq!(rank(&[("RANK", "8"), ("WORLD_SIZE", "8")]), None);
    }

    #[test]
    fn a_process_alone_on_its_host_takes_all_gpus_and_else_its_own() {
        let slurm = |local: &str, size: &str| {
            let size = ("SLURM_STEP_TASKS_PER_NODE", size);
            launched(&[("SLURM_PROCID", "0"), ("SLURM_LOCALID", local), size], None)
        };
        assert_eq!(slurm("0", "1(x4)").share(8), Ok(Share::All));
        assert_eq!(slurm("0", "8(x4)").share(8), Ok(Share::One(0)));
        assert_eq!(slurm("3", "8(x4)").share(8), Ok(Share::One(3)));
        assert_eq!(slurm("3", "8(x4)").share(1), Ok(Share::All));
        assert!(slurm("8", "9").share(8).unwrap_err().contains("sees 8"));
        assert_eq!(launched(&[("PARALLEL_SEQ", "4")], None).share(8), Ok(Share::All));
        assert_eq!(launched(&[], None).share(8), Ok(Share::All));
    }

    #[test]
    fn local_ranks_of_uneven_slurm_steps_of_pmi2_and_of_flux_are_found() {
        let step = |node: &str, tasks: &str| {
            let step = [("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "5"), ("SLURM_LOCALID", "0")];
            launched(&[&step[..], &[("SLURM_NODEID", node), ("SLURM_STEP_TASKS_PER_NODE", tasks)]].concat(), None)
        };
        for (node, size) in [("0", Some(2)), ("1", Some(1)), ("3", Some(1)), ("4", None)] {
            assert_eq!(step(node, "2,1(x3)").local_size, size, "{node}");
        }
        assert_eq!(step("2", "2,1(x3)").share(8), Ok(Share::All));
        for wrong in ["", "x", "2(x", "2(3)", "-1", "2,,1"] {
            assert_eq!(step("1", wrong).local_size, None, "{wrong}");
        }
        // `srun --mpi=pmi2` sets PMI_RANK as well; Hydra under Slurm has ranks of its own.
        let slurm = [("SLURM_PROCID", "5"), ("SLURM_STEP_NUM_TASKS", "8"), ("SLURM_LOCALID", "1")];
        let pmi2 =
            [&slurm[..], &[("SLURM_STEP_TASKS_PER_NODE", "4(x2)"), ("PMI_RANK", "5"), ("PMI_SIZE", "8")]].concat();
        let found = launched(&pmi2, None);
        assert_eq!((found.rank.as_ref().unwrap().source.as_str(), found.share(4)), ("PMI_RANK", Ok(Share::One(1))));
        let hydra =
            [&pmi2[..4], &[("PMI_RANK", "3"), ("PMI_SIZE", "8"), ("MPI_LOCALRANKID", "3"), ("MPI_LOCALNRANKS", "4")]];
        assert_eq!(launched(&hydra.concat(), None).share(4), Ok(Share::One(3)));
        let flux = |size: &str, local: &str| {
            let job = [("FLUX_TASK_RANK", "1"), ("FLUX_JOB_SIZE", size), ("FLUX_JOB_NNODES", "2")];
            launched(&[&job[..], &[("FLUX_TASK_LOCAL_ID", local)]].concat(), None).share(8)
        };
        assert_eq!((flux("2", "0"), flux("16", "7")), (Ok(Share::All), Ok(Share::One(7))));
        // Without the list of tasks, a number above 0 still tells one GPU from the next.
        assert_eq!(launched(&[("SLURM_PROCID", "3"), ("SLURM_LOCALID", "3")], None).share(8), Ok(Share::One(3)));
        // A batch script is no step: it is alone on its node.
        assert_eq!(launched(&[("SLURM_PROCID", "0"), ("SLURM_LOCALID", "0")], None).share(8), Ok(Share::All));
    }

    #[test]
    fn names_of_hosts_are_safe_in_files_names() {
        let none: Lookup<'_> = &|_| None;
        for (name, safe) in [
            ("n1", "n1"),
            ("../etc/passwd", "etc-passwd"),
            (".hidden", "hidden"),
            ("a b\n", "a-b"),
            ("é", "host"),
            ("", "host"),
        ] {
            assert_eq!(host_name(none, name), safe, "{name:?}");
        }
        assert_eq!(host_name(none, &"x".repeat(300)).len(), LONGEST);
        assert_eq!(host_name(&|name| (name == "SLURMD_NODENAME").then(|| "n7".to_owned()), "toy"), "n7");
        assert_eq!(rack(&|name| (name == "SLURM_TOPOLOGY_ADDR").then(|| "core.leaf3.n7".to_owned())).unwrap(), "leaf3");
    }
}
