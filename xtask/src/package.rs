//! Packs every crate that is published, as `cargo publish` would, without building it from the package. Needs no registry: what the
//! packages depend on was fetched for the build.

use anyhow::{Context, Result};
use cargo_metadata::MetadataCommand;

use crate::test::{cargo, root};

/// Packs all crates into `target/package`.
pub fn run() -> Result<()> {
    let metadata =
        MetadataCommand::new().no_deps().manifest_path(root().join("Cargo.toml")).exec().context("cargo metadata")?;
    let published = metadata.packages.iter().filter(|package| package.publish.is_none());
    let names: Vec<&str> = published.flat_map(|package| ["--package", package.name.as_str()]).collect();
    cargo(&[&["package", "--quiet", "--no-verify", "--allow-dirty", "--offline"][..], &names].concat())
}
