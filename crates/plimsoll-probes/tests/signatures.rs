//! Compares kernel descriptions with the signatures in the sources: parameter names and order, memory or number, and that exactly
//! the read-only arrays are `const`.

use plimsoll_gen::Target;
use plimsoll_gen::kernel::{Access, Index, KernelDesc, Kind, Parameter, Source};
use plimsoll_probes::copy::kernels as copy;
use plimsoll_probes::sources;

/// Read-only arrays that a source takes as untyped addresses, because it only follows them.
const FOLLOWED: [(&str, &str); 1] = [("loaded-latency", "at")];

/// The texts of a source and its headers.
fn texts(source: &Source) -> impl Iterator<Item = &'static str> {
    std::iter::once(source.text()).chain(source.headers().into_iter().map(|(_, text)| text))
}

/// The text after the first `start` that begins at a word boundary.
fn text_after<'t>(text: &'t str, start: &str) -> Option<&'t str> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let own = |at: &usize| *at == 0 || !is_word(text.as_bytes()[at - 1]);
    text.match_indices(start).map(|(at, _)| at).find(own).map(|at| &text[at + start.len()..])
}

/// A definition with its continuation lines joined.
fn join_lines(text: &str) -> String {
    let mut all = String::new();
    for line in text.lines() {
        let (part, more) = line.strip_suffix('\\').map_or((line, false), |part| (part, true));
        all.push_str(part);
        if !more {
            break;
        }
    }
    all
}

/// The parameters of a kernel in its source: type and name.
fn signature(kernel: &KernelDesc) -> Vec<(String, String)> {
    let (body, name) = match kernel.entry.split_once('(') {
        Some((used, _)) => {
            let define = format!("#define {used}(name");
            let found = texts(kernel.source)
                .flat_map(|text| text.match_indices(&define).map(|(at, _)| join_lines(&text[at..])));
            (found.into_iter().find(|body| body.contains("__global__")).unwrap(), "name(".to_owned())
        }
        None => (kernel.source.text().to_owned(), format!("{}(", kernel.name)),
    };
    let after = if kernel.entry.is_empty() { body.as_str() } else { body.split_once("__global__").unwrap().1 };
    let list = text_after(after, &name).unwrap_or_else(|| panic!("{}: {body}", kernel.name));
    let list = list.split_once(')').unwrap().0;
    // A macro without parameters may stand for a list.
    let expanded = list.split(',').map(str::trim).flat_map(|one| {
        let define = format!("#define {one} ");
        let plain = !one.is_empty() && !one.contains(' ');
        let found = plain.then(|| texts(kernel.source).find_map(|text| text.split_once(&define))).flatten();
        found
            .map_or(one.to_owned(), |(_, text)| join_lines(text))
            .split(',')
            .map(|one| one.trim().to_owned())
            .collect::<Vec<_>>()
    });
    let split = |one: String| {
        let at = one.rfind([' ', '*']).unwrap_or_else(|| panic!("{}: {one}", kernel.name));
        (one[..=at].trim().to_owned(), one[at + 1..].to_owned())
    };
    expanded.filter(|one| !one.is_empty()).map(split).collect()
}

fn all_kernels() -> impl Iterator<Item = KernelDesc> {
    let targets = [Target::plain(80), Target { capability: 90, specific: true }, Target::plain(120)];
    targets.into_iter().flat_map(|target| sources().iter().flat_map(move |source| source.kernels(target)))
}

/// Differences between a description and its source.
fn differences(kernel: &KernelDesc) -> Vec<String> {
    let found = signature(kernel);
    let names: Vec<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
    let stated: Vec<&str> = kernel.parameters.iter().map(|parameter| parameter.name).collect();
    if names != stated {
        return vec![format!("{} takes {names:?} and states {stated:?}", kernel.name)];
    }
    let of_one = |(parameter, (kind, _)): (&Parameter, &(String, String))| {
        let (pointer, constant) = (kind.ends_with('*'), kind.starts_with("const "));
        let wrong = match parameter.array() {
            None => pointer.then(|| format!("is {kind}, and no number")),
            Some(array) if pointer => (constant != (array.access == Access::Read))
                .then(|| format!("is {kind}, and stated as {:?}", array.access)),
            Some(array) => {
                let followed = FOLLOWED.contains(&(kernel.source.name(), parameter.name));
                let wrong = kind != "u64" || (array.access == Access::Read) != followed;
                wrong.then(|| format!("is an address, {kind}, and stated as {:?}", array.access))
            }
        };
        wrong.map(|wrong| format!("{}: {} {wrong}", kernel.name, parameter.name))
    };
    kernel.parameters.iter().zip(&found).filter_map(of_one).collect()
}

#[test]
fn descriptions_match_the_signatures_in_the_sources() {
    let wrong: Vec<String> = all_kernels().flat_map(|kernel| differences(&kernel)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(all_kernels().map(|kernel| kernel.parameters.len()).sum::<usize>() > 5000);
}

#[test]
fn differences_in_a_description_are_detected() {
    let kernel = copy::naive(Index::U64);
    let differences_after = |place: usize, change: fn(&mut Parameter)| {
        let mut parameters = kernel.parameters.to_vec();
        change(&mut parameters[place]);
        differences(&KernelDesc { parameters: parameters.leak(), ..kernel.clone() })
    };
    assert!(differences_after(0, |_| ()).is_empty());
    assert!(differences_after(0, |parameter| parameter.name = "to")[0].contains("states"));
    let as_stated = |place: usize, access| {
        let mut parameters = kernel.parameters.to_vec();
        let Kind::Array(array) = &mut parameters[place].kind else { panic!("{place}") };
        array.access = access;
        differences(&KernelDesc { parameters: parameters.leak(), ..kernel.clone() })
    };
    assert!(as_stated(0, Access::Read)[0].contains("is u32*, and stated as Read"));
    assert!(as_stated(1, Access::Update)[0].contains("is const u32*, and stated as Update"));
    assert!(differences_after(1, |parameter| parameter.kind = Kind::Index)[0].contains("no number"));
    let array = kernel.parameters[0].kind;
    let mut parameters = kernel.parameters.to_vec();
    parameters[2].kind = array;
    let number = KernelDesc { parameters: parameters.leak(), ..kernel.clone() };
    assert!(differences(&number)[0].contains("is an address, index"));
}
