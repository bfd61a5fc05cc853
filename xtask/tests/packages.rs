//! Checks what `cargo publish` needs of each crate in `crates/`, and that nothing else is published. `cargo xtask test package` packs
//! them; this finds what only a build of the packed crate would, in an instant.

use std::path::{Component, Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

fn metadata() -> Metadata {
    MetadataCommand::new().no_deps().exec().expect("cargo metadata")
}

/// What keeps a package from being published, or would make its page poor.
fn faults(package: &Package, members: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut check = |good: bool, what: &str| {
        if !good {
            faults.push(format!("{}: {what}", package.name));
        }
    };
    check(package.publish.is_none(), "isn't published");
    check(package.description.as_ref().is_some_and(|text| text.len() > 20), "no description");
    check((1..=5).contains(&package.keywords.len()), "not one to five keywords");
    check(package.keywords.iter().all(|word| word.len() <= 20), "a keyword over 20 characters");
    check((1..=5).contains(&package.categories.len()), "not one to five categories");
    check(package.license.as_deref() == Some("MIT OR Apache-2.0"), "another licence");
    let folder = package.manifest_path.parent().expect("a folder").as_std_path();
    let start = format!("# {}\n", package.name);
    let readme = package.readme.as_ref().and_then(|name| std::fs::read_to_string(folder.join(name)).ok());
    check(readme.as_ref().is_some_and(|text| text.starts_with(&start)), "no README.md of its own");
    // Where the page is shown, relative links lead nowhere.
    check(readme.is_some_and(|text| !text.contains("](")), "a link in README.md");
    check(["LICENSE-MIT", "LICENSE-APACHE"].iter().all(|name| folder.join(name).is_file()), "no text of its licences");
    for dependency in package.dependencies.iter().filter(|dependency| members.contains(&dependency.name)) {
        let version = dependency.req.to_string();
        let wanted = if dependency.kind == DependencyKind::Development {
            "*".to_owned()
        } else {
            format!("={}", package.version)
        };
        check(version == wanted, &format!("needs {} {version} rather than {wanted}", dependency.name));
    }
    faults
}

#[test]
fn crates_are_ready_to_be_published_and_nothing_else_is() {
    let metadata = metadata();
    let members: Vec<String> = metadata.packages.iter().map(|package| package.name.to_string()).collect();
    let mut published = 0;
    for package in &metadata.packages {
        // Published as a wheel, not as a crate.
        let is_wheel = *package.name == "plimsoll-python";
        if package.manifest_path.as_str().contains("/crates/") && !is_wheel {
            published += 1;
            assert_eq!(faults(package, &members), Vec::<String>::new());
        } else {
            assert_eq!(package.publish, Some(Vec::new()), "{} needs publish = false", package.name);
        }
    }
    assert!(published > 10, "{published}");
    // A fault is found.
    let mut bad = metadata.packages.iter().find(|package| *package.name == "plimsoll-gen").unwrap().clone();
    bad.keywords.clear();
    bad.dependencies[0].req = "0.2".parse().unwrap();
    assert_eq!(faults(&bad, &members).len(), 2, "{:?}", faults(&bad, &members));
}

/// Every Rust file below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    below.filter(|path| path.extension().is_some_and(|ending| ending == "rs")).collect()
}

/// Files that a source includes from outside its crate, apart from those for its tests. `depth` counts the folders between the file
/// and the crate's root.
fn outside(source: &str, depth: usize) -> Vec<&str> {
    let shipped = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or(source);
    let places = shipped.match_indices("include_str!(\"").chain(shipped.match_indices("include_bytes!(\""));
    let included = places.filter_map(|(start, found)| {
        let before = shipped[..start].trim_end_matches("#[doc = ").trim_end();
        let path = shipped[start + found.len()..].split('"').next()?;
        (!before.ends_with("#[cfg(doctest)]")).then_some(path)
    });
    let ups = |path: &&str| Path::new(*path).components().filter(|part| *part == Component::ParentDir).count();
    included.filter(|path| ups(path) > depth).collect()
}

#[test]
fn crates_include_no_file_from_outside() {
    let mut wrong = Vec::new();
    for package in metadata().packages.iter().filter(|package| package.publish.is_none()) {
        let root = package.manifest_path.parent().unwrap().as_std_path();
        for path in sources(&root.join("src")) {
            let depth = path.strip_prefix(root).unwrap().components().count() - 1;
            let source = std::fs::read_to_string(&path).unwrap();
            wrong.extend(outside(&source, depth).into_iter().map(|file| format!("{}: {file}", path.display())));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let source = "include_str!(\"../../a\"); include_bytes!(\"../b\");\n#[cfg(doctest)]\n#[doc = include_str!(\"../../c\")]\n\
                  #[cfg(test)]\nmod tests {\ninclude_str!(\"../../d\");";
    assert_eq!(outside(source, 1), ["../../a"]);
    assert_eq!(outside(source, 2), Vec::<&str>::new());
}
