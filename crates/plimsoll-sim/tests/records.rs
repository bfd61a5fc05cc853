//! Records: whatever happens to the file, the reader loses only the damaged lines and never panics.

mod common;

use common::{header, lines, measure, measure_until, points, probes};
use plimsoll_core::FaultClass;
use plimsoll_core::probe::Request;
use plimsoll_core::record::{Limits, ReadError, Record, Run, read};
use plimsoll_core::sample::Effort;
use proptest::prelude::*;

/// A record with every kind of line, as lines.
fn every_kind() -> Vec<Record> {
    let mut records = vec![header("")];
    records.extend(measure_until(6, "outliers=0.1", "sync").1);
    records.push(a_finding());
    records.push(Record::End { complete: false });
    records
}

fn a_finding() -> Record {
    let text = r#"{"kind":"finding","device":0,"probe":"sync","name":"spin barrier","value":1.1e-7,
        "interval":[1e-7,1.2e-7],"unit":"s","flags":["DRIFT"],"metric":"latency","says":"of two threads"}"#;
    serde_json::from_str(text).unwrap()
}

/// Reads a record and derives everything that a report would.
fn derive(file: &[u8]) -> Result<Run, ReadError> {
    let run = read(file, Limits::default())?;
    for series in &run.series {
        for row in &series.rows {
            for metric in &series.spec.metrics {
                if let Some(estimate) = series.estimate(row, &metric.name) {
                    let _ = metric.unit.format(estimate.value);
                }
            }
            let _ = series.best("latency", |_| true);
        }
    }
    for spec in plimsoll_probes::ALL {
        let of_probe: Vec<_> = run.series.iter().filter(|series| series.spec.probe == spec.name).cloned().collect();
        for device in &run.header.devices {
            let _ = (spec.findings)(device, &of_probe);
        }
    }
    Ok(run)
}

fn rows(run: &Run) -> usize {
    run.series.iter().map(|series| series.rows.len()).sum()
}

#[test]
fn a_record_cut_at_any_byte_loses_at_most_one_line() {
    let records = every_kind();
    let file = lines(&records);
    for cut in 0..=file.len() {
        let head = &file[..cut];
        // The last line may be whole even without its line feed.
        let mut whole = head.iter().filter(|byte| **byte == b'\n').count();
        whole += usize::from(file.get(cut) == Some(&b'\n'));
        match derive(head) {
            Ok(run) => {
                assert!(whole > 0 && run.damaged_lines <= 1, "cut at {cut}");
                assert_eq!(rows(&run), points(&records[..whole]).len(), "cut at {cut}");
                assert_eq!(run.end.is_some(), whole == records.len());
            }
            Err(error) => assert!(whole == 0 && matches!(error, ReadError::NotARecord(_)), "cut at {cut}: {error}"),
        }
    }
}

#[test]
fn every_line_of_every_probe_round_trips_through_json() {
    let check = |record: &Record| {
        let text = serde_json::to_string(record).unwrap();
        let back: Record = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
        assert_eq!(&back, record);
    };
    for probe in probes() {
        let scenario = "noise=0.02,preempt=0.3,steal=0.1,ecc=2,throttle-after=1s,oom-above=64MiB,wrong=incore";
        measure(scenario, probe, &Request::default()).1.iter().for_each(check);
    }
    every_kind().iter().for_each(check);
}

#[test]
fn hostile_lines_do_not_affect_other_lines() {
    let good = every_kind();
    let valid = lines(&good);
    let point = String::from_utf8(lines(good.iter().filter(|record| matches!(record, Record::Point(_))).take(1)));
    let series = String::from_utf8(lines(good.iter().filter(|record| matches!(record, Record::Series(_))).take(1)));
    let (point, series, run) = (point.unwrap(), series.unwrap(), String::from_utf8(lines([&good[0]])).unwrap());
    let samples = serde_json::to_string(&vec![7; 5000]).unwrap();
    let point_with = |from: &str, to: &str| {
        let start = point.find(from).expect("the field is there");
        let value = start + from.len();
        let end = value + point[value..].find([',', '}', ']']).expect("it ends");
        format!("{}{from}{to}{}", &point[..start], &point[end..])
    };
    let hostile: Vec<String> = vec![
        "[".repeat(100_000),
        "{\"kind\":\"point\",\"at\":".to_owned() + &"[".repeat(10_000),
        r#"{"a":"#.repeat(5_000),
        point_with("\"tick\":", "1e400"),
        point_with("\"tick\":", "NaN"),
        point_with("\"tick\":", "0"),
        point_with("\"tick\":", "-1e-9"),
        point_with("\"k\":", "0"),
        point_with("\"k\":", "4294967296"),
        point_with("\"k\":", "1e3"),
        point_with("\"k\":", &"9".repeat(1000)),
        point_with("\"series\":", "77"),
        point_with("\"series\":", "\"0\""),
        point_with("\"round\":", "-1"),
        point_with("\"at\":[", "1e999"),
        point_with("\"at\":[", "1,2,3,4,5"),
        point_with("\"at\":[", "null"),
        point_with("\"samples\":[", "-5"),
        point_with("\"samples\":[", "18446744073709551616"),
        point_with("\"samples\":[", &samples[1..samples.len() - 1]),
        point_with("\"operations\":", "Infinity"),
        point_with("\"wall\":", "\"long\""),
        point_with("\"flags\":[", "17"),
        series.clone(),
        series.replace("\"device\":0", "\"device\":9"),
        series.replace("\"axes\":[", "\"axes\":[7,"),
        "\0\u{1}\u{7f}".into(),
        "\u{feff}{}".into(),
        "{}".into(),
        "null".into(),
        "7".into(),
        r#"{"kind":null}"#.into(),
        r#"{"kind":"end"}"#.into(),
        r#"{"kind":"finding","device":5,"name":"x","value":1,"interval":[0,2],"unit":"s"}"#.into(),
        r#"{"kind":"finding","name":"x","value":1e999,"interval":[0,2],"unit":"s"}"#.into(),
        // Last, because nothing after a second header is read.
        run,
    ];
    let clean = derive(&valid).unwrap();
    for line in &hostile {
        let shown: String = line.chars().take(200).collect();
        let mut file = valid.clone();
        file.extend_from_slice(line.trim_end().as_bytes());
        let run = derive(&file).unwrap();
        assert_eq!((run.damaged_lines, rows(&run)), (1, rows(&clean)), "{shown}");
        assert_eq!((run.findings.len(), run.faults.len()), (clean.findings.len(), clean.faults.len()), "{shown}");
    }
    let all =
        [valid, hostile.iter().flat_map(|line| [line.trim_end(), "\n"]).collect::<String>().into_bytes()].concat();
    assert_eq!(derive(&all).unwrap().damaged_lines, hostile.len());
}

#[test]
fn a_point_with_the_largest_numbers_is_read_without_panic() {
    let mut records = every_kind();
    for record in &mut records {
        if let Record::Point(point) = record {
            point.k = u32::MAX;
            point.tick = f64::MAX;
            point.samples = vec![u64::MAX, 0, 1];
            point.work.traffic = plimsoll_core::Traffic::new(u64::MAX, u64::MAX);
            point.work.operations = f64::MAX;
            point.work.write_allocate = u64::MAX;
            point.evidence.clock_hz = Some(f64::MIN_POSITIVE);
            point.at = vec![f64::MAX.into(), "\u{202e}\u{1b}[2J=1+1".into()];
        }
    }
    let run = derive(&lines(&records)).unwrap();
    assert_eq!(run.damaged_lines, 0);
}

#[test]
fn two_runs_in_one_file_are_not_merged() {
    let first = lines(&every_kind());
    let clean = derive(&first).unwrap();
    let mut slower = every_kind();
    for record in &mut slower {
        if let Record::Point(point) = record {
            point.samples.iter_mut().for_each(|ticks| *ticks *= 2);
        }
    }
    let later = String::from_utf8(lines([&slower[0]])).unwrap().replacen("\"effort\":\"quick\"", "\"effort\":7", 1);
    for second in [lines(&slower), [later.into_bytes(), lines(&slower[1..])].concat()] {
        let run = derive(&[first.clone(), second].concat()).unwrap();
        assert_eq!((&run.series, &run.findings, &run.faults), (&clean.series, &clean.findings, &clean.faults));
        assert_eq!((run.end, run.damaged_lines), (clean.end, 1));
        assert!(run.damage[0].what.contains("a second run begins here"), "{:?}", run.damage);
    }
    let in_memory = Run::from_records(every_kind().into_iter().chain(slower)).unwrap();
    assert_eq!((in_memory.series, in_memory.damaged_lines), (clean.series, 1));
}

#[test]
fn points_after_a_repeated_series_are_damage() {
    let records = every_kind();
    let clean = derive(&lines(&records)).unwrap();
    // Repeats a series and its points with the same ids.
    let series = records.iter().filter(|record| matches!(record, Record::Series(_)));
    let points = records.iter().filter(|record| matches!(record, Record::Point(_)));
    let again: Vec<&Record> = series.chain(points).collect();
    let run = derive(&[lines(&records), lines(again.iter().copied())].concat()).unwrap();
    assert_eq!((run.damaged_lines, run.series), (again.len(), clean.series));
}

#[test]
fn a_byte_order_mark_and_empty_lines_may_precede_the_header() {
    let records = every_kind();
    let clean = derive(&lines(&records)).unwrap();
    for before in ["\u{feff}", "\n", "\r\n \n", "\n\u{feff}"] {
        assert_eq!(derive(&[before.as_bytes(), &lines(&records)].concat()).unwrap(), clean, "{before:?}");
    }
}

#[test]
fn efforts_and_faults_from_later_versions_are_read() {
    let file = String::from_utf8(lines(&every_kind())).unwrap();
    let file = file.replacen("\"effort\":\"quick\"", "\"effort\":\"heroic\"", 1)
        + r#"{"kind":"fault","probe":"sync","class":"bewitched","what":"who knows"}"#;
    let run = derive(file.as_bytes()).unwrap();
    assert_eq!(run.header.effort, Effort::Unknown);
    assert_eq!(run.faults.last().map(|fault| fault.class), Some(FaultClass::Unknown));
    assert_eq!(run.damaged_lines, 0);
}

#[test]
fn a_finding_outside_its_interval_or_with_impossible_numbers_is_damage() {
    let read_finding_with = |interval: &str| {
        let finding = format!(
            r#"{{"kind":"finding","device":0,"probe":"sync","name":"x","value":1.1e-7,"interval":{interval},"unit":"s"}}"#
        );
        derive(&[lines(&[header("")]), finding.into_bytes()].concat()).unwrap()
    };
    assert_eq!(read_finding_with("[1e-7,1.2e-7]").findings.len(), 1);
    for interval in ["[1e-7,1e308]", "[-1e300,1]", "[2e-7,3e-7]", "[1.2e-7,1e-7]"] {
        let run = read_finding_with(interval);
        assert_eq!((run.findings.len(), run.damaged_lines), (0, 1), "{interval}");
    }
}

#[test]
fn lines_beyond_the_line_count_limit_are_damage() {
    let records = every_kind();
    let limits = Limits { lines: records.len() - 1, ..Limits::default() };
    let run = read(&*lines(&records), limits).unwrap();
    assert_eq!((run.damaged_lines, run.end), (1, None));
    assert_eq!(rows(&run), rows(&derive(&lines(&records)).unwrap()));
}

#[test]
fn unknown_kinds_of_lines_are_skipped_silently() {
    let mut file = lines(&every_kind());
    file.extend_from_slice(b"{\"kind\":\"hologram\",\"depth\":{\"z\":[1,2]}}\n");
    let run = derive(&file).unwrap();
    assert_eq!((run.damaged_lines, run.end), (0, Some(false)));
}

#[test]
fn files_that_are_not_records_are_refused() {
    for text in ["", "\n", "{}", "not json", "{\"kind\":\"end\",\"complete\":true}\n", "\u{0}", "{\"kind\":\"run\"}"] {
        assert!(matches!(derive(text.as_bytes()), Err(ReadError::NotARecord(_))), "{text:?}");
    }
    let newer = String::from_utf8(lines([&header("")])).unwrap().replacen("\"schema\":1", "\"schema\":99", 1);
    assert!(matches!(derive(newer.as_bytes()), Err(ReadError::Newer { found: 99 })));
}

#[test]
fn a_line_beyond_the_length_limit_does_not_affect_others() {
    let valid = lines(&every_kind());
    let clean = derive(&valid).unwrap().findings.len();
    let limits = Limits { line: 1 << 20, ..Limits::default() };
    for length in [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20] {
        let file = [valid.as_slice(), &vec![b'x'; length], b"\n", &lines([&a_finding()])].concat();
        let run = read(&*file, limits).unwrap();
        assert_eq!((run.damaged_lines, run.findings.len()), (1, clean + 1), "{length}");
    }
}

#[test]
fn a_gzipped_record_reads_the_same_and_a_truncated_one_gives_its_beginning() {
    let file = lines(&every_kind());
    let clean = derive(&file).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut encoder, &file).unwrap();
    let packed = encoder.finish().unwrap();
    assert_eq!(derive(&packed).unwrap(), clean);
    let mut readable = 0;
    for end in (0..packed.len()).rev().step_by(97) {
        match derive(&packed[..end]) {
            Ok(run) => {
                assert!(run.damage.last().is_some_and(|damage| damage.what.contains("gzip")), "{end}");
                assert!(run.series.len() <= clean.series.len() && run.findings.len() <= clean.findings.len(), "{end}");
                readable += 1;
            }
            // Without its header it is not a run.
            Err(error) => assert!(matches!(error, ReadError::Io(_) | ReadError::NotARecord(_)), "{end}: {error}"),
        }
    }
    assert!(readable > 0);
    let limits = Limits { file: file.len() as u64 - 1, ..Limits::default() };
    assert!(matches!(read(&*packed, limits), Err(ReadError::TooLarge(_))));
    assert!(matches!(read(&*file, limits), Err(ReadError::TooLarge(_))));
}

#[test]
fn a_run_from_memory_equals_the_run_read_from_its_file() {
    let records = every_kind();
    let from_file = read(&*lines(&records), Limits::default()).unwrap();
    let again = lines(&records);
    let parsed = again.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let from_memory = Run::from_records(parsed.map(|line| serde_json::from_slice(line).unwrap())).unwrap();
    assert_eq!(from_memory, from_file);
    assert!(Run::from_records(records.into_iter().skip(1)).is_none());
}

#[test]
fn traces_are_recognized_by_their_field_or_by_an_older_record_s_command_line() {
    let is_traced = |header: Record, older: bool, mark: bool| {
        let series = measure("", "sync", &Request::default()).1.into_iter().map(|record| match record {
            Record::Series(spec) => Record::Series(plimsoll_core::series::SeriesSpec { trace: mark, ..spec }),
            other => other,
        });
        let mut header = serde_json::to_value(header).unwrap();
        if older {
            header.as_object_mut().unwrap().remove("conditions").unwrap();
        }
        let mut file = format!("{header}\n").into_bytes();
        file.extend(lines(&series.collect::<Vec<Record>>()));
        let run = read(&*file, Limits::default()).unwrap();
        assert!(!run.series.is_empty());
        run.series.iter().all(|series| series.spec.trace)
    };
    let Record::Run(mut header) = header("") else { panic!("no header") };
    let plain = Record::Run(header.clone());
    assert!(!is_traced(plain.clone(), false, false) && is_traced(plain, false, true));
    header.argv.push("--trace".into());
    let with_option = Record::Run(header);
    assert!(is_traced(with_option.clone(), true, false));
    // If the header has the conditions, the command line is ignored.
    assert!(!is_traced(with_option, false, false));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn corrupted_bytes_never_panic_and_only_lose_their_own_lines(
        flips in proptest::collection::vec((0.0..1.0_f64, any::<u8>()), 1..6),
    ) {
        let records = every_kind();
        let mut file = lines(&records);
        let first = lines(&records[..1]).len();
        let length = file.len() - first;
        let mut touched = std::collections::BTreeSet::new();
        for (place, byte) in flips {
            let at = first + (place * length as f64) as usize;
            touched.insert(file[..at].iter().filter(|byte| **byte == b'\n').count());
            // A line feed would split a line in two, which the test of cut files covers.
            file[at] = if byte == b'\n' || file[at] == b'\n' { file[at] } else { byte };
        }
        let run = derive(&file).unwrap();
        // A damaged series line also makes its points unreadable.
        if !touched.contains(&1) {
            let intact = records.iter().enumerate().skip(1);
            let intact = intact.filter(|(i, record)| matches!(record, Record::Point(_)) && !touched.contains(i));
            prop_assert!(run.series.iter().flat_map(|s| &s.rows).map(|r| r.points.len()).sum::<usize>() >= intact.count());
        }
    }
}
