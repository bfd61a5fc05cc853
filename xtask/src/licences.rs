//! Licences and sources of every package that the workspace or the example for candle may build, on any system and with any feature, as
//! `cargo metadata` states them. Security advisories are not checked: their database isn't part of cargo.

use anyhow::{Context, Result, bail};
use cargo_metadata::{CargoOpt, Metadata, MetadataCommand, Package};
use spdx::{Expression, ParseMode};

use crate::test::root;

/// What may be linked with a program under MIT or Apache-2.0 and given away: the only list there is.
const ALLOWED: [&str; 7] = ["MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Zlib", "Unicode-3.0"];
/// How `cargo metadata` names crates.io.
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// Each with a lock file of its own.
const WORKSPACES: [&str; 2] = [".", "examples/candle"];

/// Checks both workspaces.
///
/// # Errors
/// A package of another licence or from elsewhere, a dependency of any version, or a lock file that is out of date.
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
        bail!("{}\nallowed are {}, from crates.io or this repository", wrong.join("\n"), ALLOWED.join(", "));
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

/// What is wrong with a licence as a manifest states it; `None` where nothing.
fn licence_fault(stated: Option<&str>) -> Option<String> {
    let Some(stated) = stated else { return Some("its manifest states no licence".to_owned()) };
    // Older manifests write / for OR.
    let expression = match Expression::parse_mode(stated, ParseMode::LAX) {
        Ok(expression) => expression,
        Err(error) => return Some(format!("its licence '{stated}' is no SPDX expression: {}", error.reason)),
    };
    let allowed = expression.evaluate(|licence| ALLOWED.contains(&&*licence.to_string()));
    (!allowed).then(|| format!("its licence is {stated}"))
}

/// What is wrong with where a package comes from. One without a source is a folder: `inside` of this repository or not.
fn source_fault(source: Option<&str>, inside: bool) -> Option<String> {
    match source {
        None if inside => None,
        None => Some("it is a folder outside of this repository".to_owned()),
        Some(CRATES_IO) => None,
        Some(other) => Some(format!("it comes from {other}")),
    }
}

/// Dependencies of a package of ours that would take any version.
fn wildcards(package: &Package) -> Vec<String> {
    let any = package
        .dependencies
        .iter()
        .filter(|of| of.path.is_none() && of.req == cargo_metadata::semver::VersionReq::STAR);
    any.map(|of| format!("{}: any version of {} would do", package.name, of.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_allowed_where_one_choice_of_it_is() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "Apache-2.0 / MIT",
            "GPL-3.0-only OR MIT",
            "(MIT OR GPL-2.0-or-later) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0",
            "MIT OR Apache-2.0 AND GPL-3.0-only",
        ] {
            assert_eq!(licence_fault(Some(good)), None, "{good}");
        }
        for bad in [
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "(MIT OR Apache-2.0) AND MPL-2.0",
            // Neither more freedom nor another version is what the list has.
            "Apache-2.0 WITH LLVM-exception",
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
    fn the_packages_of_this_workspace_are_seen() {
        let metadata = MetadataCommand::new().no_deps().manifest_path(root().join("Cargo.toml")).exec().unwrap();
        assert_eq!(faults(&metadata), Vec::<String>::new());
        let mut other = metadata.clone();
        other.packages[0].license = Some("GPL-3.0-only".to_owned());
        other.packages[1].manifest_path = "/elsewhere/Cargo.toml".into();
        let dependency = other.packages[2].dependencies.iter_mut().find(|of| of.path.is_none()).unwrap();
        dependency.req = cargo_metadata::semver::VersionReq::STAR;
        assert_eq!(faults(&other).len(), 3, "{:?}", faults(&other));
    }
}
