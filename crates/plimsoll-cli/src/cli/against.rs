//! Figures of another program compared with ours: the shared CSV form, the ratio for each cell, the geometric mean and the
//! worst cell. Pure functions; `bench` measures and prints.

use std::collections::BTreeMap;

use plimsoll::bench::{DEPENDENT, Line, PLANNED};
use plimsoll::core::sample::CachePolicy;

/// The form's first line.
pub(crate) const HEADER: &str = "peer,op,dtype,bytes_moved,median_us,GBps";
/// Our name in the form; a suffix marks dependent launches, hot data and forced plans.
const OURS: &str = "plimsoll";
/// A peer name that stands for the memory ceiling, not for a program.
const CEILING: &str = "ceiling";

/// A cell of the form: operation, type and bytes moved.
pub(crate) type Key = (String, String, u64);

/// The fastest program in a file for one cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Peer {
    /// The program's name.
    pub name: String,
    /// B/s.
    pub bandwidth: f64,
}

/// The key of a line.
pub(crate) fn key(line: &Line) -> Key {
    let cell = &line.cell;
    (cell.expression.clone(), cell.types.clone(), cell.traffic.total())
}

/// A line in the form: `plimsoll,copy,f32,2097152,1.819,1153.1`.
pub(crate) fn row(line: &Line) -> String {
    let mut peer = OURS.to_owned();
    if line.cell.launch == DEPENDENT {
        peer.push_str("_dependent");
    }
    if line.cell.cache == CachePolicy::Hot {
        peer.push_str("_hot");
    }
    if line.cell.plan != PLANNED {
        peer = format!("{peer} {}", line.cell.plan);
    }
    let (op, dtype, bytes) = key(line);
    let (us, rate) = (line.time.value * 1e6, line.bandwidth.value / 1e9);
    let cells = [peer, op, dtype].map(|text| plimsoll_report::csv::escape(&text));
    format!("{},{bytes},{us:.3},{rate:.1}\n", cells.join(","))
}

/// Parses a file in the form: each cell with its fastest program. Lines that begin with `#` are comments; our own lines and
/// ceilings are skipped. An error names the line.
pub(crate) fn parse_peers(text: &str) -> Result<BTreeMap<Key, Peer>, String> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let columns: Vec<&str> = lines.next().map_or(vec![], |(_, line)| line.trim_end().split(',').collect());
    let column = |name: &str| columns.iter().position(|column| *column == name);
    let missing = || format!("the first line must be {HEADER}");
    let places = ["peer", "op", "dtype", "bytes_moved", "GBps"].map(column);
    let [Some(peer), Some(op), Some(dtype), Some(bytes), Some(rate)] = places else { return Err(missing()) };
    let mut best: BTreeMap<Key, Peer> = BTreeMap::new();
    for (number, line) in lines {
        let cells: Vec<&str> = line.trim_end().split(',').collect();
        let cell = |place: usize| cells.get(place).copied().unwrap_or_default();
        let moved: u64 =
            cell(bytes).parse().map_err(|_| format!("line {number}: bytes_moved is not a whole number"))?;
        let rate: f64 = cell(rate).parse().map_err(|_| format!("line {number}: GBps is not a number"))?;
        if !(rate.is_finite() && rate > 0.0) {
            return Err(format!("line {number}: GBps must be finite and above 0"));
        }
        if cell(peer).starts_with(OURS) || cell(peer) == CEILING {
            continue;
        }
        let key = (cell(op).to_owned(), cell(dtype).to_owned(), moved);
        let peer = Peer { name: cell(peer).to_owned(), bandwidth: rate * 1e9 };
        if best.get(&key).is_none_or(|known| known.bandwidth < peer.bandwidth) {
            best.insert(key, peer);
        }
    }
    Ok(best)
}

/// Our bandwidth over the peer's.
pub(crate) fn ratio(line: &Line, peers: &BTreeMap<Key, Peer>) -> Option<f64> {
    let known = |dtype: &str| {
        let (op, _, bytes) = key(line);
        peers.get(&(op, dtype.to_owned(), bytes))
    };
    // A copy doesn't depend on the type, so some programs give `bytes` as its type.
    let peer = known(&line.cell.types).or_else(|| known("bytes"))?;
    Some(line.bandwidth.value / peer.bandwidth)
}

/// `geometric mean 1.052 over 14 cells; worst: copy f32 2097152 bytes moved, plain, 0.991`; `None` where no cell is in both.
pub(crate) fn verdict(lines: &[Line], peers: &BTreeMap<Key, Peer>) -> Option<String> {
    let ratios: Vec<(f64, &Line)> = lines.iter().filter_map(|line| Some((ratio(line, peers)?, line))).collect();
    let (least, worst) = ratios.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let mean = (ratios.iter().map(|(ratio, _)| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    let cell = &worst.cell;
    let where_ = format!("{} {} {} bytes moved, {}", cell.expression, cell.types, cell.traffic.total(), cell.launch);
    let cells = if ratios.len() == 1 { "1 cell".to_owned() } else { format!("{} cells", ratios.len()) };
    Some(format!("geometric mean {mean:.3} over {cells}; worst: {where_}, {least:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll::bench::Cell;
    use plimsoll::core::Traffic;
    use plimsoll::core::series::Estimate;
    use plimsoll::core::stats::Interval;

    fn line(expression: &str, bytes: u64, bandwidth: f64) -> Line {
        let estimate = |value| Estimate { value, interval: Interval { lo: value, hi: value } };
        let cell = Cell::flat(expression, "f32", bytes, Traffic::new(bytes, bytes));
        let time = estimate(2.0 * bytes as f64 / bandwidth);
        let flags = Default::default();
        Line { cell, time, bandwidth: estimate(bandwidth), of_ceiling: None, of_peak: None, host: None, flags }
    }

    #[test]
    fn a_row_of_the_shared_form_is_parsed_back() {
        let line = line("copy", 1 << 20, 1153.1e9);
        assert_eq!(row(&line), "plimsoll,copy,f32,2097152,1.819,1153.1\n");
        let peers = parse_peers(&format!("{HEADER}\n{}", row(&line).replace("plimsoll", "triton"))).unwrap();
        assert_eq!(peers[&key(&line)].name, "triton");
        let dependent = Line { cell: Cell { launch: DEPENDENT, ..line.cell.clone() }, ..line };
        assert!(row(&dependent).starts_with("plimsoll_dependent,"));
    }

    #[test]
    fn the_fastest_program_of_each_cell_counts_and_our_own_lines_are_skipped() {
        let text = format!(
            "# a note\n{HEADER}\ncub,copy,f32,2097152,2,1000.0\ncupy,copy,f32,2097152,3,700\n\
                            plimsoll,copy,f32,2097152,1,9000\nceiling,copy,f32,2097152,1,9000\n"
        );
        let peers = parse_peers(&text).unwrap();
        assert_eq!(peers.len(), 1);
        let ours = [line("copy", 1 << 20, 1.1e12), line("copy", 4 << 20, 1e12)];
        assert!((ratio(&ours[0], &peers).unwrap() - 1.1).abs() < 1e-9);
        assert_eq!(ratio(&ours[1], &peers), None);
        let text = verdict(&ours, &peers).unwrap();
        assert!(text.contains("mean 1.100 over 1 cell;") && text.contains("worst: copy f32"), "{text}");
        assert_eq!(verdict(&ours[1..], &peers), None);
    }

    #[test]
    fn a_malformed_file_is_rejected_with_the_line_number() {
        assert!(parse_peers("").unwrap_err().contains(HEADER));
        assert!(parse_peers("a,b\n1,2\n").unwrap_err().contains(HEADER));
        for bad in ["cub,copy,f32,many,1,1", "cub,copy,f32,1,1,fast", "cub,copy,f32,1,1,NaN", "cub,copy"] {
            let error = parse_peers(&format!("{HEADER}\n{bad}\n")).unwrap_err();
            assert!(error.starts_with("line 2"), "{error}");
        }
    }
}
