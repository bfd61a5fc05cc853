//! Snapshots of what the command prints, on the simulated device and on what is the same everywhere.

#[test]
fn the_command_prints_what_it_printed() {
    trycmd::TestCases::new().env("COLUMNS", "80").env("LANG", "C.UTF-8").case("tests/cmd/*.trycmd");
}
