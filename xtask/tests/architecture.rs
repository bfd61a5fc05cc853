//! Checks the dependencies between crates against docs/architecture.md.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use cargo_metadata::{DependencyKind, MetadataCommand};

/// Each crate with the workspace crates that it may use.
const ALLOWED: &[(&str, &[&str])] = &[
    ("plimsoll-core", &[]),
    ("plimsoll-suite", &["plimsoll-core"]),
    ("plimsoll-expr", &["plimsoll-core"]),
    ("plimsoll-ir", &["plimsoll-expr"]),
    ("plimsoll-gen", &["plimsoll-core", "plimsoll-suite", "plimsoll-expr", "plimsoll-ir"]),
    ("plimsoll-cpu", &["plimsoll-core", "plimsoll-suite", "plimsoll-expr"]),
    ("plimsoll-gpu", &["plimsoll-core", "plimsoll-suite", "plimsoll-expr", "plimsoll-gen"]),
    (
        "plimsoll-probes",
        &["plimsoll-core", "plimsoll-suite", "plimsoll-gen", "plimsoll-gpu", "plimsoll-cpu", "plimsoll-cuda"],
    ),
    ("plimsoll-cuda", &["plimsoll-core", "plimsoll-suite", "plimsoll-gen", "plimsoll-expr", "plimsoll-gpu"]),
    ("plimsoll-vulkan", &["plimsoll-core", "plimsoll-suite", "plimsoll-gen", "plimsoll-gpu"]),
    ("plimsoll-sim", &["plimsoll-core", "plimsoll-suite", "plimsoll-probes"]),
    ("plimsoll-report", &["plimsoll-core", "plimsoll-suite", "plimsoll-probes"]),
    (
        "plimsoll",
        &[
            "plimsoll-core",
            "plimsoll-suite",
            "plimsoll-expr",
            "plimsoll-probes",
            "plimsoll-cpu",
            "plimsoll-sim",
            "plimsoll-gen",
            "plimsoll-cuda",
            "plimsoll-vulkan",
            "plimsoll-report",
        ],
    ),
    ("plimsoll-cli", &["plimsoll", "plimsoll-report"]),
    ("plimsoll-python", &["plimsoll", "plimsoll-cli"]),
    ("fakecuda", &[]),
    ("fakecupti", &[]),
    ("fakecublas", &[]),
    ("fakenccl", &[]),
    ("plimsoll-soundness", &[]),
    (
        "xtask",
        &[
            "plimsoll",
            "plimsoll-core",
            "plimsoll-suite",
            "plimsoll-expr",
            "plimsoll-gen",
            "plimsoll-cpu",
            "plimsoll-cuda",
            "plimsoll-probes",
        ],
    ),
];

/// Each workspace crate with the workspace crates that it uses outside tests.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = MetadataCommand::new().no_deps().exec().expect("cargo metadata");
    let members: BTreeSet<String> = metadata.packages.iter().map(|package| package.name.to_string()).collect();
    let uses = |package: &cargo_metadata::Package| {
        let normal = package.dependencies.iter().filter(|dependency| dependency.kind == DependencyKind::Normal);
        normal.map(|dependency| dependency.name.clone()).filter(|name| members.contains(name)).collect()
    };
    metadata.packages.iter().map(|package| (package.name.to_string(), uses(package))).collect()
}

#[test]
fn crates_use_only_what_the_architecture_allows() {
    for (name, uses) in dependencies() {
        let allowed = ALLOWED.iter().find(|(known, _)| *known == name);
        let allowed = allowed.unwrap_or_else(|| panic!("{name} has no row here and in docs/architecture.md")).1;
        for used in uses {
            assert!(allowed.contains(&used.as_str()), "{name} must not use {used}: see docs/architecture.md");
        }
    }
}

/// A report needs no backend to say what a figure means. The features of plimsoll-probes that add backends must be off there.
#[test]
fn report_and_sim_use_probes_without_features() {
    let metadata = MetadataCommand::new().no_deps().exec().expect("cargo metadata");
    let package = |name: &str| metadata.packages.iter().find(|package| *package.name == name).expect("a crate");
    let probes = package("plimsoll-probes");
    assert!(probes.features.get("default").is_none_or(Vec::is_empty), "plimsoll-probes must have no default features");
    for dependency in probes.dependencies.iter().filter(|dependency| dependency.kind == DependencyKind::Normal) {
        let meaning = ["plimsoll-core", "plimsoll-suite"].contains(&dependency.name.as_str());
        assert!(meaning || dependency.optional, "plimsoll-probes must use {} under a feature only", dependency.name);
    }
    for name in ["plimsoll-report", "plimsoll-sim"] {
        let uses = package(name).dependencies.iter().find(|dependency| dependency.name == "plimsoll-probes");
        assert_eq!(uses.expect("a dependency on plimsoll-probes").features, Vec::<String>::new(), "{name}");
    }
}

/// Crates that only tests need.
const TEST_TOOLS: &[&str] = &[
    "proptest",
    "insta",
    "trycmd",
    "libtest-mimic",
    "allocation-counter",
    "fakecuda",
    "fakecupti",
    "fakecublas",
    "fakenccl",
    "plimsoll-soundness",
];

/// Checks what cargo links with default features; a test tool behind a feature that is off is not linked.
#[test]
fn nothing_outside_tests_links_test_tools() {
    let metadata = MetadataCommand::new().no_deps().exec().expect("cargo metadata");
    let crates = metadata.packages.iter().filter(|package| package.manifest_path.as_str().contains("/crates/"));
    let crates: Vec<String> = crates.map(|package| package.name.to_string()).collect();
    assert!(crates.len() > 10, "{crates:?}");
    let mut tree = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    tree.args(["tree", "--edges", "normal,build", "--prefix", "none", "--format", "{p}"]);
    tree.args(crates.iter().flat_map(|name| ["--package", name.as_str()]));
    let output = tree.output().expect("cargo tree");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("names of crates");
    let linked: BTreeSet<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(crates.iter().all(|name| linked.contains(name.as_str())), "{linked:?}");
    for tool in TEST_TOOLS {
        assert!(
            !linked.contains(tool),
            "{tool} is linked outside tests: see cargo tree --edges normal --invert {tool}"
        );
    }
}

#[test]
fn the_architecture_page_names_every_crate() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/architecture.md");
    let page = std::fs::read_to_string(page).expect("docs/architecture.md");
    for name in dependencies().keys() {
        assert!(page.contains(&format!("`{name}`")), "docs/architecture.md does not name {name}");
    }
}

#[test]
fn core_and_suite_use_no_unsafe_code() {
    let safe = ["plimsoll-core", "plimsoll-suite", "plimsoll-expr", "plimsoll-gen", "plimsoll-report", "plimsoll-sim"];
    for name in safe {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/");
        let lib =
            ["lib.rs", "main.rs"].iter().find_map(|f| std::fs::read_to_string(format!("{root}{name}/src/{f}")).ok());
        let lib = lib.unwrap_or_else(|| panic!("{name} has no root module"));
        assert!(lib.contains("#![forbid(unsafe_code)]"), "{name} must forbid unsafe code");
    }
}

/// The library passes on what callers promise about other libraries' tensors.
#[test]
fn the_library_has_one_unsafe_module() {
    let source = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/plimsoll/src"));
    assert!(std::fs::read_to_string(source.join("lib.rs")).unwrap().contains("#![deny(unsafe_code)]"));
    let (mut folders, mut allowing) = (vec![source.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let Ok(text) = std::fs::read_to_string(&path) else {
                folders.push(path);
                continue;
            };
            let lines = text.lines().zip(text.lines().skip(1));
            let allowed = lines.filter(|(line, _)| line.contains("allow(unsafe_code)"));
            allowing.extend(allowed.map(|(_, item)| (path.strip_prefix(source).unwrap().to_owned(), item.to_owned())));
        }
    }
    assert_eq!(allowing, [("elementwise/mod.rs".into(), "mod foreign;".to_owned())]);
}

/// The command promises for its user, who names a kernel's file, that this kernel may run.
#[test]
fn the_command_has_one_unsafe_place() {
    let source = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/plimsoll-cli/src"));
    assert!(std::fs::read_to_string(source.join("lib.rs")).unwrap().contains("#![deny(unsafe_code)]"));
    let files = std::fs::read_dir(source.join("cli")).unwrap().map(|entry| entry.unwrap().path());
    let allowing = files.filter(|file| std::fs::read_to_string(file).is_ok_and(|text| text.contains("unsafe {")));
    let names: Vec<_> = allowing.filter_map(|file| file.file_name().map(std::ffi::OsStr::to_owned)).collect();
    assert_eq!(names, ["consent.rs"]);
}
