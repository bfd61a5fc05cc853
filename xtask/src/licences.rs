//! Checks licences and sources of every package that the workspace or the candle example may build, on any system and with any
//! feature, as listed by `cargo metadata`. Security advisories are not checked: their database isn't part of cargo.

use anyhow::{Context, Result, bail};
use cargo_metadata::{CargoOpt, Metadata, MetadataCommand, Package};
use spdx::{Expression, ParseMode};

use crate::test::root;

/// Licences that may be linked with a program under MIT or Apache-2.0 and distributed. This is the only such list.
const ALLOWED: [&str; 8] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
];
/// The name of crates.io in `cargo metadata`.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// Workspaces, each with its own lock file.
const WORKSPACES: [&str; 2] = [".", "examples/candle"];

/// Checks both workspaces. Fails on a package with another licence or source, a dependency without a version, or an outdated lock
/// file.
pub fn run() -> Result<()> {
    let mut wrong = Vec::new();
    for folder in WORKSPACES {
        let mut command = MetadataCommand::new();
        command.manifest_path(root().join(folder).join("Cargo.toml")).features(CargoOpt::AllFeatures);
        let metadata = command.other_options(["--locked".to_owned()]).exec().context(folder)?;
        eprintln!("{folder}: {} packages", metadata.packages.len());
        wrong.extend(faults(&metadata).into_iter().map(|fault| format!("{folder}: {fault}")));
    }
    if !wrong.is_empty() {
        bail!("{}\nallowed: {}, from crates.io or this repository", wrong.join("\n"), ALLOWED.join(", "));
    }
    Ok(())
}

fn faults(metadata: &Metadata) -> Vec<String> {
    let mut faults = Vec::new();
    for package in &metadata.packages {
        let inside = package.manifest_path.as_std_path().starts_with(root());
        let source = package.source.as_ref().map(|source| source.repr.as_str());
        let found = [licence_fault(package.license.as_deref()), source_fault(source, inside)];
        faults
            .extend(found.into_iter().flatten().map(|fault| format!("{} {}: {fault}", package.name, package.version)));
        if metadata.workspace_members.contains(&package.id) {
            faults.extend(wildcards(package));
        }
    }
    faults
}

/// The fault of a licence given in a manifest, if any.
fn licence_fault(stated: Option<&str>) -> Option<String> {
    let Some(stated) = stated else { return Some("its manifest states no licence".to_owned()) };
    // Older manifests write / for OR.
    let expression = match Expression::parse_mode(stated, ParseMode::LAX) {
        Ok(expression) => expression,
        Err(error) => return Some(format!("its licence '{stated}' is not an SPDX expression: {}", error.reason)),
    };
    let allowed = expression.evaluate(|licence| ALLOWED.contains(&&*licence.to_string()));
    (!allowed).then(|| format!("its licence is {stated}"))
}

/// The fault of a package's source, if any. A package without a source is a folder, `inside` this repository or not.
fn source_fault(source: Option<&str>, inside: bool) -> Option<String> {
    match source {
        None if inside => None,
        None => Some("it is a folder outside this repository".to_owned()),
        Some(CRATES_IO) => None,
        Some(other) => Some(format!("it comes from {other}")),
    }
}

/// Faults for dependencies of our package that accept any version.
fn wildcards(package: &Package) -> Vec<String> {
    let any = package
        .dependencies
        .iter()
        .filter(|dependency| dependency.path.is_none() && dependency.req == cargo_metadata::semver::VersionReq::STAR);
    any.map(|dependency| format!("{}: {} has no version requirement", package.name, dependency.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_allowed_if_one_of_its_alternatives_is() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "Apache-2.0 / MIT",
            "GPL-3.0-only OR MIT",
            "(MIT OR GPL-2.0-or-later) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
            "GPL-3.0-only WITH GCC-exception-3.1 OR Apache-2.0",
            "MIT OR Apache-2.0 AND GPL-3.0-only",
        ] {
            assert_eq!(licence_fault(Some(good)), None, "{good}");
        }
        for bad in [
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "(MIT OR Apache-2.0) AND MPL-2.0",
            // Not on the list, even if similar to an entry.
            "MIT WITH LLVM-exception",
            "LGPL-2.1-or-later",
            "MIT-0",
            "mine",
            "",
            "MIT OR",
        ] {
            assert!(licence_fault(Some(bad)).is_some(), "{bad}");
        }
        assert!(licence_fault(None).is_some_and(|fault| fault.contains("no licence")));
    }

    #[test]
    fn packages_come_from_crates_io_or_from_this_repository() {
        assert_eq!(source_fault(Some(CRATES_IO), false), None);
        assert_eq!(source_fault(None, true), None);
        assert!(source_fault(None, false).is_some());
        for other in
            ["git+https://github.com/a/b#0", "registry+https://example.com/index", "sparse+https://example.com/"]
        {
            assert!(source_fault(Some(other), true).is_some(), "{other}");
        }
    }

    #[test]
    fn faults_of_this_workspace_s_packages_are_found() {
        let metadata = MetadataCommand::new().no_deps().manifest_path(root().join("Cargo.toml")).exec().unwrap();
        assert_eq!(faults(&metadata), Vec::<String>::new());
        let mut other = metadata.clone();
        other.packages[0].license = Some("GPL-3.0-only".to_owned());
        other.packages[1].manifest_path = "/elsewhere/Cargo.toml".into();
        let dependency =
            other.packages[2].dependencies.iter_mut().find(|dependency| dependency.path.is_none()).unwrap();
        dependency.req = cargo_metadata::semver::VersionReq::STAR;
        assert_eq!(faults(&other).len(), 3, "{:?}", faults(&other));
    }
}
