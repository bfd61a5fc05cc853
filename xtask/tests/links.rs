//! Checks that the targets of Markdown links exist in the repository, and every path below `records/` that a page or a comment
//! names.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Files that git tracks or doesn't ignore, and their folders.
fn paths() -> BTreeSet<String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root());
    let output = git.output().expect("git");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut paths = BTreeSet::from([String::new()]);
    for file in String::from_utf8(output.stdout).unwrap().split('\0').filter(|file| root().join(file).is_file()) {
        paths.extend(Path::new(file).ancestors().map(|path| path.display().to_string()));
    }
    paths
}

fn text(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The lines of a page outside code blocks.
fn prose(page: &str) -> String {
    let mut code = false;
    let outside = page.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    });
    outside.collect::<Vec<_>>().join("\n")
}

/// Targets of `[…](target)`, without titles.
fn targets(page: &str) -> impl Iterator<Item = &str> {
    page.split("](").skip(1).filter_map(|rest| rest.split(')').next()?.split_whitespace().next())
}

/// The anchor that GitHub gives a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
}

fn has_anchor(page: &str, fragment: &str) -> bool {
    let headings = prose(page);
    headings.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line.trim_start_matches('#')) == fragment)
}

/// Turns a path relative to a file's folder into one relative to the root; `None` if it leads out of the repository.
fn resolve(file: &str, target: &str) -> Option<String> {
    let mut path = Path::new(file).parent()?.to_owned();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir if !path.pop() => return None,
            Component::ParentDir | Component::CurDir => {}
            Component::Normal(name) => path.push(name),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path.display().to_string())
}

/// The broken links of a page.
fn broken_links(file: &str, paths: &BTreeSet<String>) -> Vec<String> {
    let page = text(file);
    let prose = prose(&page);
    let local = targets(&prose).filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
    let wrong = local.filter(|target| {
        let (path, fragment) =
            target.split_once('#').map_or((*target, None), |(path, fragment)| (path, Some(fragment)));
        let found = if path.is_empty() { Some(file.to_owned()) } else { resolve(file, path) };
        let found = found.filter(|path| paths.contains(path));
        let holds =
            |anchor: &str| found.as_ref().is_some_and(|path| path.ends_with(".md") && has_anchor(&text(path), anchor));
        found.is_none() || fragment.is_some_and(|anchor| !holds(anchor))
    });
    wrong.map(|target| format!("{file}: {target}")).collect()
}

/// Paths below `records/` that a text names, without those with placeholders (`DATE`, `{folder}`) and those in other folders.
fn records(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("records/").filter_map(|(start, _)| {
        let before = &text[..start];
        let inside = before.ends_with("../") || !before.ends_with(|c: char| c.is_alphanumeric() || "_-/}".contains(c));
        let rest = &text[start..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "_./*-{}".contains(c))).unwrap_or(rest.len());
        let path = rest[..end].trim_end_matches(['.', '/']);
        let template = path.contains('{') || path.split(['/', '-']).any(|word| matches!(word, "DATE" | "MODEL"));
        (inside && !template).then_some(path)
    })
}

/// True if a path exists; a `*` stands for anything within a name.
fn exists(path: &str, paths: &BTreeSet<String>) -> bool {
    let matches_name = |name: &str, pattern: &str| match pattern.split_once('*') {
        None => name == pattern,
        Some((first, last)) => name.len() + 1 >= pattern.len() && name.starts_with(first) && name.ends_with(last),
    };
    let matches_path = |known: &String| {
        let (names, patterns) = (known.split('/'), path.split('/'));
        names.clone().count() == patterns.clone().count()
            && names.zip(patterns).all(|(name, pattern)| matches_name(name, pattern))
    };
    paths.contains(path) || path.contains('*') && paths.iter().any(matches_path)
}

#[test]
fn every_relative_link_leads_to_a_file_and_its_heading() {
    let paths = paths();
    let pages: Vec<&String> = paths.iter().filter(|path| path.ends_with(".md")).collect();
    assert!(pages.len() > 40, "{}", pages.len());
    let wrong: Vec<String> = pages.into_iter().flat_map(|page| broken_links(page, &paths)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_named_record_exists() {
    let paths = paths();
    let named = |path: &&String| {
        let ending = Path::new(path).extension().unwrap_or_default().to_string_lossy().into_owned();
        matches!(&*ending, "md" | "rs" | "h" | "cu" | "py" | "sh" | "toml") && !path.ends_with("tests/links.rs")
    };
    let mut wrong = Vec::new();
    for file in paths.iter().filter(|path| root().join(path).is_file()).filter(named) {
        let text = text(file);
        wrong.extend(records(&text).filter(|path| !exists(path, &paths)).map(|path| format!("{file}: {path}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn broken_links_and_missing_records_are_found() {
    let paths = BTreeSet::from(["docs".to_owned(), "docs/a.md".to_owned(), "records/h200/x-1".to_owned()]);
    assert_eq!(resolve("docs/method/b.md", "../a.md").as_deref(), Some("docs/a.md"));
    assert_eq!(resolve("b.md", "../a.md"), None);
    let page = "[a](x.md#y) and ![b](z.png \"title\")\n```\n[not](this)\n```\n";
    assert_eq!(targets(&prose(page)).collect::<Vec<_>>(), ["x.md#y", "z.png"]);
    assert!(has_anchor("## What is here, `now`?\n", "what-is-here-now") && !has_anchor("## Other\n", "what"));
    let text = "`records/h200/x-1`, ../records/h200/gone/, records/h200/DATE-x, $out/records/{name}, records/h200/x-*.";
    let named: Vec<&str> = records(text).collect();
    assert_eq!(named, ["records/h200/x-1", "records/h200/gone", "records/h200/x-*"]);
    let there: Vec<bool> = named.iter().map(|path| exists(path, &paths)).collect();
    assert_eq!(there, [true, false, true]);
}
