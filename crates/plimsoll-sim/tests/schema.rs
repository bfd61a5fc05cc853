//! The published schema describes the written lines; checked with the subset of JSON Schema that it uses.

mod common;

use common::{header, measure, probes};
use plimsoll_core::probe::Request;
use plimsoll_core::record::{Record, schema};
use serde_json::{Value, json};

/// Why `value` violates `rule`, or `None` if it doesn't.
fn violation(root: &Value, rule: &Value, value: &Value) -> Option<String> {
    if let Some(target) = rule["$ref"].as_str() {
        let target = root.pointer(target.trim_start_matches('#'))?;
        return violation(root, target, value).or_else(|| violation_without_ref(root, rule, value));
    }
    violation_without_ref(root, rule, value)
}

fn violation_without_ref(root: &Value, rule: &Value, value: &Value) -> Option<String> {
    let why = |what: &str| Some(format!("{what}: {value} against {rule}"));
    let fits = |rule| violation(root, rule, value).is_none();
    let list = |key: &str| rule[key].as_array().map(Vec::as_slice).unwrap_or_default();
    if !rule["const"].is_null() && rule["const"] != *value {
        return why("not the constant");
    }
    let types: Vec<&str> = match &rule["type"] {
        Value::String(single) => vec![single],
        several => several.as_array().into_iter().flatten().filter_map(Value::as_str).collect(),
    };
    if !types.is_empty() && !types.iter().any(|name| has_type(name, value)) {
        return why("not of the type");
    }
    if !list("oneOf").is_empty() && list("oneOf").iter().filter(|rule| fits(rule)).count() != 1 {
        return why("not one of");
    }
    if !list("anyOf").is_empty() && !list("anyOf").iter().any(fits) {
        return why("not any of");
    }
    if let Some(failed) = list("allOf").iter().find_map(|rule| violation(root, rule, value)) {
        return Some(failed);
    }
    if let Some(missing) = list("required").iter().find(|key| key.as_str().is_some_and(|key| value[key].is_null())) {
        return why(&format!("lacks {missing}"));
    }
    if value.as_f64().is_some_and(|number| rule["minimum"].as_f64().is_some_and(|least| number < least)) {
        return why("below the minimum");
    }
    let properties = rule["properties"].as_object().into_iter().flatten();
    let mut properties = properties.filter_map(|(key, rule)| Some((rule, value.get(key)?)));
    let items = value.as_array().filter(|_| rule.get("items").is_some()).into_iter().flatten();
    let mut items = items.map(|item| (&rule["items"], item));
    let nested = properties.find_map(|(rule, value)| violation(root, rule, value));
    nested.or_else(|| items.find_map(|(rule, value)| violation(root, rule, value)))
}

fn has_type(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

#[test]
fn every_written_line_conforms_to_the_schema() {
    let schema = schema();
    let kinds: Vec<&str> = schema["oneOf"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|kind| kind["properties"]["kind"]["const"].as_str())
        .collect();
    for kind in ["run", "member", "series", "point", "finding", "fault", "end"] {
        assert!(kinds.contains(&kind), "{kind} is not in {kinds:?}");
    }
    let mut records = vec![header("seed=3"), Record::End { complete: true }];
    for probe in probes() {
        let (_, probe_records) = measure("seed=3,oom-above=16MiB,wrong=sync,steal=0.1", probe, &Request::default());
        records.extend(probe_records);
    }
    for record in &records {
        let line = serde_json::to_value(record).unwrap();
        assert_eq!(violation(&schema, &schema, &line), None);
    }
}

#[test]
fn lines_with_missing_fields_or_wrong_types_violate_the_schema() {
    let schema = schema();
    let (_, records) = measure("", "sync", &Request::default());
    let point =
        serde_json::to_value(records.iter().find(|record| matches!(record, Record::Point(_))).unwrap()).unwrap();
    assert_eq!(violation(&schema, &schema, &point), None);
    for (field, wrong) in [("k", json!("8")), ("samples", json!([1, "2"])), ("at", json!(3)), ("work", json!(null))] {
        let mut spoiled = point.clone();
        spoiled[field] = wrong;
        assert!(violation(&schema, &schema, &spoiled).is_some(), "{field} spoiled");
        spoiled.as_object_mut().unwrap().remove(field);
        assert!(violation(&schema, &schema, &spoiled).is_some(), "{field} missing");
    }
}
