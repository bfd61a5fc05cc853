//! Snapshots of the output of commands that print the same on every machine, mostly on the simulated device.

#[test]
fn the_command_prints_its_snapshots() {
    trycmd::TestCases::new().env("COLUMNS", "80").env("LANG", "C.UTF-8").case("tests/cmd/*.trycmd");
}
