//! Selection of a probe's kernels by axis values.

use plimsoll_gen::Target;
use plimsoll_gen::kernel::Source;
use plimsoll_gen::kernel::choice::{Choice, ChoiceError, choose};
use plimsoll_probes::{copy, mix, stream};

fn names(source: &Source, choices: &[&str]) -> Result<Vec<String>, ChoiceError> {
    let choices = choices.iter().map(|choice| choice.parse()).collect::<Result<Vec<Choice>, _>>()?;
    let chosen = choose(source.kernels(Target::plain(80)), &choices)?;
    Ok(chosen.into_iter().map(|kernel| kernel.name).collect())
}

#[test]
fn choose_filters_by_every_axis_and_keeps_the_requested_order() {
    let chosen = names(&copy::kernels::SOURCE, &["index=64,32", "vector=1,4", "op=vector"]).unwrap();
    assert_eq!(chosen, ["copy_vector1_u64", "copy_vector4_u64", "copy_vector1_u32", "copy_vector4_u32"]);
    let chosen = names(&mix::kernels::SOURCE, &["reads=4", "writes=3", "unroll=2"]).unwrap();
    assert_eq!(chosen, ["mix_r4_w3_burst2"]);
    let chosen = names(&stream::kernels::SOURCE, &["op=3pt", "element=f64"]).unwrap();
    assert!(!chosen.is_empty() && chosen.iter().all(|name| name.starts_with("stream_3pt_f64")));
}

#[test]
fn errors_list_the_available_values() {
    let message = |choices: &[&str]| names(&copy::kernels::SOURCE, choices).unwrap_err().to_string();
    assert!(message(&["index=16"]).contains("the values are 32, 64"));
    assert!(message(&["vector=3"]).contains("the values are 1, 2, 4, 8"));
    assert!(message(&["width=4"]).contains("the axes are op, index, vector"));
    assert!(message(&["op=naive", "vector=4"]).contains("all of these"));
    for text in ["index", "index=", "index=32,", "=32"] {
        assert!(names(&copy::kernels::SOURCE, &[text]).is_err(), "{text}");
    }
}
