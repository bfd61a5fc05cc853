use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use super::*;
use crate::memory::{Buffer, Pages};

/// A team of `size` on the allowed CPUs; on a small machine members share them.
fn team(size: usize) -> Team {
    let allowed = affinity::allowed_cpus();
    let cpus: Vec<usize> = (0..size).map(|i| allowed.get(i % allowed.len().max(1)).copied().unwrap_or(0)).collect();
    Team::new(&cpus, Timer::Os).unwrap()
}

/// A task whose members share `shared` with the test.
fn task_with<T: Send + Sync + 'static>(shared: &Arc<T>, run: impl Fn(&T, Rank<'_>) + Send + Sync + 'static) -> Task {
    let shared = Arc::clone(shared);
    Task::new(move |rank: Rank<'_>| run(&shared, rank))
}

#[test]
fn every_member_runs_every_repetition_of_every_launch() {
    let mut team = team(3);
    let counts: Arc<[AtomicU64; 3]> = Arc::default();
    let task = task_with(&counts, |counts: &[AtomicU64; 3], rank| {
        assert_eq!(rank.members, 3);
        counts[rank.index].fetch_add(1, Ordering::Relaxed);
    });
    for _ in 0..20 {
        team.run(&task).unwrap();
    }
    team.run_timed(100, &task).unwrap();
    assert_eq!([0, 1, 2].map(|i| counts[i].load(Ordering::Relaxed)), [120; 3]);
}

#[test]
fn parked_workers_wake_up_for_a_launch() {
    let mut team = team(2);
    let count = Arc::new(AtomicU64::new(0));
    let task = task_with(&count, |count: &AtomicU64, _| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    for _ in 0..3 {
        team.run(&task).unwrap();
        std::thread::sleep(Duration::from_millis(120));
    }
    assert_eq!(count.load(Ordering::Relaxed), 6);
}

#[test]
fn the_time_of_a_launch_includes_its_slowest_member() {
    let mut team = team(2);
    let pause = Duration::from_millis(5);
    let task = Task::new(move |rank| {
        if rank.index == 1 {
            std::thread::sleep(pause);
        }
    });
    let ticks = team.run_timed(2, &task).unwrap();
    assert!(team.timer().seconds(ticks) >= 2.0 * pause.as_secs_f64());
    assert!(team.lap_of(1) >= team.lap_of(0));
    assert_eq!(team.lap_of(9), 0);
}

#[test]
fn a_load_generator_works_until_rank_0_has_finished() {
    let mut team = team(2);
    let iterations = Arc::new(AtomicU64::new(0));
    let task = task_with(&iterations, |iterations: &AtomicU64, rank| match rank.index {
        // Waits until the other member has run, however late it gets a CPU.
        0 => {
            let seen = iterations.load(Ordering::Relaxed);
            while iterations.load(Ordering::Relaxed) == seen {
                std::thread::yield_now();
            }
        }
        _ => {
            while !rank.is_stopping() {
                iterations.fetch_add(1, Ordering::Relaxed);
                std::thread::yield_now();
            }
        }
    });
    for _ in 0..2 {
        let before = iterations.load(Ordering::Relaxed);
        team.run_timed(3, &task).unwrap();
        assert!(iterations.load(Ordering::Relaxed) > before);
    }
}

#[test]
fn a_panic_is_returned_with_its_message_stops_the_others_and_leaves_the_team_usable() {
    let mut team = team(2);
    for panicking in [0, 1] {
        let task = Task::new(move |rank: Rank<'_>| {
            if rank.index == panicking {
                std::panic::panic_any(format!("rank {panicking} failed"));
            }
            while rank.index == 1 && !rank.is_stopping() {
                std::thread::yield_now();
            }
        });
        match team.run(&task) {
            Err(Fault::Panicked(message)) => assert_eq!(message, format!("rank {panicking} failed")),
            other => panic!("{other:?}"),
        }
        team.run(&Task::new(|_| ())).unwrap();
    }
}

#[test]
fn neither_the_launch_nor_the_drop_waits_for_a_hung_worker() {
    let mut team = team(2);
    team.set_deadline(Duration::from_millis(50));
    let release = Arc::new(AtomicBool::new(false));
    let kept = Arc::new(());
    let task = Task::new({
        let (release, kept) = (Arc::clone(&release), Arc::clone(&kept));
        move |rank: Rank<'_>| {
            let _kept = &kept;
            while rank.index == 1 && !release.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    assert!(matches!(team.run(&task), Err(Fault::Hung { .. })));
    assert!(matches!(team.run(&Task::new(|_| ())), Err(Fault::Hung { .. })));
    drop(team);
    drop(task);
    assert_eq!(Arc::strong_count(&kept), 2, "the hung worker still uses the task");
    release.store(true, Ordering::Relaxed);
}

#[test]
fn a_missing_cpu_is_reported_and_not_fatal() {
    let mut team = Team::new(&[1 << 20, 1 << 20], Timer::Os).unwrap();
    assert!(team.placements().iter().all(|p| p.pinned.is_err()));
    team.run(&Task::new(|_| ())).unwrap();
    assert!(matches!(Team::new(&[], Timer::Os), Err(Fault::Invalid(_))));
}

#[test]
fn the_caller_gets_its_affinity_back() {
    std::thread::spawn(|| {
        let before = affinity::allowed_cpus();
        let first = team(1);
        let second = team(2);
        drop(first);
        drop(second);
        assert_eq!(affinity::allowed_cpus(), before);
    })
    .join()
    .unwrap();
}

#[test]
fn members_write_disjoint_parts_of_one_buffer() {
    let mut team = team(2);
    let split = Arc::new(Buffer::<u64>::new(100_000, Pages::Small).unwrap().split(2, 4096));
    let cpus = Arc::new(Mutex::new(Vec::new()));
    let task = Task::new({
        let (split, cpus) = (Arc::clone(&split), Arc::clone(&cpus));
        move |rank: Rank<'_>| {
            split.part(rank.index).fill(rank.index as u64 + 1);
            cpus.lock().unwrap().push(rank.index);
        }
    });
    team.run(&task).unwrap();
    drop(task);
    let whole = Arc::into_inner(split).unwrap().join();
    assert_eq!(whole.iter().filter(|&&x| x == 1).count() + whole.iter().filter(|&&x| x == 2).count(), 100_000);
    assert_eq!(cpus.lock().unwrap().len(), 2);
}
