//! Files that the command line names: an input is never overwritten, an existing file only with `--force`, input sizes are
//! limited, and no command waits for a pipe unless it may read one.

#[allow(dead_code, reason = "each test file uses a part")]
mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use support::{Place, Ran};

/// Makes a pipe in the folder; `None` if that fails.
fn make_pipe(place: &Place, name: &str) -> Option<()> {
    let made = std::process::Command::new("mkfifo").arg(place.path(name)).status();
    let made = made.is_ok_and(|made| made.success());
    if !made {
        eprintln!("skipped: no mkfifo");
    }
    made.then_some(())
}

/// A folder with a run in `run`.
fn place_with_run() -> Place {
    let place = Place::new();
    place.run("measure sync latency --device sim --out run").ends(0);
    place
}

/// Names in a folder, sorted.
fn names(place: &Place, folder: &str) -> Vec<String> {
    let entries = fs::read_dir(place.path(folder)).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[test]
fn report_never_overwrites_its_input_under_any_name() {
    let place = place_with_run();
    let record = fs::read(place.path("run/run.jsonl")).unwrap();
    fs::hard_link(place.path("run/run.jsonl"), place.path("hard.csv")).unwrap();
    symlink("run/run.jsonl", place.path("soft.csv")).unwrap();
    symlink("run", place.path("other")).unwrap();
    for output in ["run/run.jsonl", "./run/../run/run.jsonl", "hard.csv", "soft.csv", "other/run.jsonl"] {
        for input in ["run", "run/run.jsonl", "other", "hard.csv", "soft.csv"] {
            for format in ["csv", "json", "html --force", "table --force"] {
                let args = format!("report {input} -o {output} --format {format}");
                place.run(&args).ends(2).says("can't write").says("an input");
            }
        }
    }
    // The plain record would be read before the compressed one.
    fs::create_dir(place.path("packed")).unwrap();
    fs::copy(place.path("run/run.jsonl"), place.path("packed/run.jsonl.gz")).unwrap();
    for output in ["packed/run.jsonl", "packed/run.jsonl.gz"] {
        place.run(&format!("report packed -o {output} --format csv --force")).ends(2).says("an input");
    }
    assert_eq!(names(&place, "packed"), ["run.jsonl.gz"]);
    // Each of several inputs counts.
    place.run("measure sync --device sim --out second").ends(0);
    place.run("report second run -o run/run.jsonl --format csv --force").ends(2).says("an input");
    assert_eq!(fs::read(place.path("run/run.jsonl")).unwrap(), record);
    assert_eq!(names(&place, "run"), ["report.html", "run.jsonl"]);
}

#[test]
fn an_existing_file_is_replaced_only_with_force() {
    let place = place_with_run();
    place.write("mine.csv", "mine");
    let ran = place.run("report run -o mine.csv").ends(2).says("it already exists").says("hint: --force replaces it");
    assert!(ran.stdout.is_empty(), "{}", ran.stdout);
    assert_eq!(fs::read_to_string(place.path("mine.csv")).unwrap(), "mine");
    place.run("report run -o mine.csv --force").ends(0);
    assert!(fs::read_to_string(place.path("mine.csv")).unwrap().starts_with("run,"));
    assert_eq!(names(&place, "."), ["mine.csv", "run"], "a temporary file was left behind");
    place.run("report run --force").ends(2).says("--output");
}

#[test]
fn either_all_pictures_are_written_or_none() {
    let place = place_with_run();
    place.run("report run -o pictures/").ends(0);
    let all = names(&place, "pictures");
    assert!(all.len() > 1, "{all:?}");
    place.run("report run -o pictures/").ends(2).says("it already exists");
    let last = all.last().unwrap();
    for name in &all[..all.len() - 1] {
        fs::remove_file(place.path(&format!("pictures/{name}"))).unwrap();
    }
    place.write(&format!("pictures/{last}"), "mine");
    place.run("report run -o pictures/").ends(2).says("it already exists");
    assert_eq!(names(&place, "pictures"), [last.as_str()]);
    // A record with the name of a picture is still an input.
    fs::copy(place.path("run/run.jsonl"), place.path(&format!("pictures/{last}"))).unwrap();
    let args = format!("report pictures/{last} -o pictures/ --force");
    place.run(&args).ends(2).says("an input");
    place.run("report run -o pictures/ --force").ends(0);
    assert_eq!(names(&place, "pictures"), all);
}

#[test]
fn streams_are_written_to_without_force() {
    let place = place_with_run();
    let csv = place.run("report run --format csv").ends(0).stdout;
    for output in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        assert_eq!(place.run(&format!("report run --format csv -o {output}")).ends(0).stdout, csv, "{output}");
    }
    assert!(place.run("report run --format csv -o /dev/stderr").ends(0).stderr.starts_with(&csv));
    place.run("report run --format csv -o /dev/null").ends(0);
    place.run("report run --format csv -o /dev/full").ends(2).says("can't write /dev/full");
    // A shell's redirection is appended to, not replaced.
    place.write("log", "before\n");
    let append = fs::OpenOptions::new().append(true).open(place.path("log")).unwrap();
    let ran = place.command("report run --format csv -o /dev/stdout").stdout(append).output().unwrap();
    Ran::from_output(ran).ends(0);
    assert_eq!(fs::read_to_string(place.path("log")).unwrap(), format!("before\n{csv}"));
    // A redirection to the input is refused.
    let record = fs::read(place.path("run/run.jsonl")).unwrap();
    let append = fs::OpenOptions::new().append(true).open(place.path("run/run.jsonl")).unwrap();
    let ran = place.command("report run --format csv -o /dev/stdout").stdout(append).output().unwrap();
    Ran::from_output(ran).ends(2).says("an input");
    assert_eq!(fs::read(place.path("run/run.jsonl")).unwrap(), record);
}

#[test]
fn unwritable_outputs_are_reported_before_a_device_is_opened() {
    let place = Place::new();
    place.write("mine", "mine");
    symlink("/dev/zero", place.path("zero")).unwrap();
    let results = "bench exp(x) --dtype i8 --device cuda:99 --all-inputs";
    place.run(&format!("{results} mine")).ends(2).says("it already exists").says("--force");
    place.run(&format!("{results} none/all.bin")).ends(2).says("can't write");
    place.run(&format!("{results} .")).ends(2).says("it is a folder");
    place.run("bench exp(x) --device cpu --force").ends(2).says("--all-inputs");
    let plans = "tune --device cuda:99 --out";
    place.run(&format!("{plans} mine")).ends(2).says("holds something other than plans").says("--force");
    place.run(&format!("{plans} mine/below")).ends(2).says("can't create the folder");
    place.run(&format!("{plans} .")).ends(2).says("it is a folder");
    // With --force only the device is missing.
    for args in [format!("{results} mine --force"), format!("{results} zero"), format!("{plans} mine --force")] {
        place.run(&args).ends(3).says("CUDA");
    }
    place.write("plans.json", r#"{"source":"measured","rows":[]}"#);
    place.write("empty", "");
    for file in ["plans.json", "empty", "new", "zero"] {
        place.run(&format!("{plans} {file}")).ends(3).says("CUDA");
    }
    assert_eq!(fs::read_to_string(place.path("mine")).unwrap(), "mine");
    assert_eq!(names(&place, "."), ["empty", "mine", "plans.json", "zero"]);
}

#[test]
fn the_size_of_an_against_file_is_limited() {
    let place = Place::new();
    let bench = |against: &str| place.run(&format!("bench x+1 --bytes 1MiB --device sim --against {against}"));
    bench("/dev/zero").ends(2).says("can't read /dev/zero: it is larger than 16 MiB");
    bench(".").ends(2).says("it is a folder");
    bench("none.csv").ends(2).says("No such file");
    place.write("binary.csv", [0xffu8; 100]);
    bench("binary.csv").ends(2).says("it is not text");
    bench("/dev/null").ends(2).says("the first line must be");
    assert!(!place.path("plimsoll-runs").exists(), "a run was started before the file was rejected");
    // A pipe with a writer works like a file.
    if make_pipe(&place, "pipe").is_none() {
        return;
    }
    let mut command = place.command("bench x+1 --bytes 1MiB --device sim --name inc --against pipe --out run");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    fs::write(place.path("pipe"), "peer,op,dtype,bytes_moved,median_us,GBps\ncub,inc,f32,2097152,2,1000.0\n").unwrap();
    Ran::from_output(child.wait_with_output().unwrap()).ends(0).says("against: geometric mean");
}

#[test]
fn unusable_files_of_plans_cost_a_warning_and_are_ignored() {
    let place = Place::new();
    fs::create_dir(place.path("profiles")).unwrap();
    let bench = |out: &str| {
        place.run(&format!("bench x+1 --bytes 1MiB --device sim:seed=3 --profile profiles --out {out}")).ends(0)
    };
    let plans = place.path("profiles/sim-3.plans.json");
    fs::File::create(&plans).unwrap().set_len(1 << 40).unwrap();
    bench("large").says("the plans of sim are not used: it is larger than 4 MiB");
    fs::write(&plans, [0xff; 10]).unwrap();
    bench("binary").says("the plans of sim are not used: it is not text");
    fs::remove_file(&plans).unwrap();
    symlink("/dev/zero", &plans).unwrap();
    bench("zero").says("the plans of sim are not used: it is a device");
    fs::remove_file(&plans).unwrap();
    if make_pipe(&place, "profiles/sim-3.plans.json").is_some() {
        bench("pipe").says("the plans of sim are not used: it is a pipe");
    }
}

#[test]
fn the_sizes_of_machine_files_and_cubins_are_limited() {
    let place = Place::new();
    let predict =
        |machine: &str| place.run(&format!("predict x+1 --estimate --bytes 1MiB --machine {machine}")).ends(2);
    symlink("/dev/zero", place.path("zero.json")).unwrap();
    fs::create_dir(place.path("folder.json")).unwrap();
    fs::File::create(place.path("large.json")).unwrap().set_len(1 << 40).unwrap();
    place.write("binary.json", [0xff; 10]);
    place.write("empty.json", "");
    predict("zero.json").says("it is a device");
    predict("folder.json").says("it is a folder");
    predict("large.json").says("larger than 4 MiB");
    predict("binary.json").says("binary.json is damaged");
    predict("empty.json").says("there is no profile");
    predict("none.json").says("can't read none.json: there is no profile");
    place.run("sass --cubin /dev/zero").ends(2).says("larger than 256 MiB");
    place.run("sass --cubin folder.json").ends(2).says("it is a folder");
    if make_pipe(&place, "pipe.json").is_some() {
        predict("pipe.json").says("it is a pipe");
    }
}

#[test]
fn a_missing_profile_folder_is_created() {
    let place = Place::new();
    place.run("measure incore --device sim:seed=3 --out a --profile new/folder/").ends(0).says("profile: new/folder/");
    assert!(place.path("new/folder/sim-3.json").is_file());
    let mut command = place.command("measure incore --device sim:seed=4 --out b");
    Ran::from_output(command.env("PLIMSOLL_PROFILE", "of/environment/").output().unwrap()).ends(0);
    assert!(place.path("of/environment/sim-4.json").is_file());
    place.run("measure incore --device sim:seed=3 --out c --profile below/p.json").ends(0);
    assert!(place.path("below/p.json").is_file());
    place.run("measure incore --device sim --out d --profile a/run.jsonl/").ends(2).says("the profile can't be stored");
    assert!(!place.path("d").exists());
}

#[test]
fn an_unusable_profile_lock_is_reported_before_anything_is_measured() {
    let place = Place::new();
    symlink("nowhere/at/all", place.path(".link.json.lock")).unwrap();
    fs::create_dir(place.path(".folder.json.lock")).unwrap();
    let mut profiles = vec!["link.json", "folder.json"];
    if make_pipe(&place, ".pipe.json.lock").is_some() {
        profiles.push("pipe.json");
    }
    let long = format!("{}.json", "n".repeat(248));
    profiles.push(&long);
    for profile in profiles {
        let args = format!("measure incore --device sim --out out --profile {profile}");
        place.run(&args).ends(2).says("the profile can't be stored").says(".json.lock");
        assert!(!place.path("out").exists());
    }
}
