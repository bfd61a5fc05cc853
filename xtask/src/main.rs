//! Developer commands: `cargo xtask test` is what continuous integration runs.

mod bodies;
mod differential;
mod dist;
mod expected;
mod fmt;
mod forms;
mod fuzz;
mod hip;
mod licences;
mod model;
mod package;
mod profiles;
mod python;
mod sass;
mod seen;
mod spirv;
mod stages;
mod test;
mod tools;
mod wheel;

use std::process::ExitCode;

const USAGE: &str = "cargo xtask COMMAND

commands:
  test [STEP…]     run formatting, lints, documentation and all tests, or only the named steps
  fmt [--check]    format every Rust file; --check only reports files that are not formatted
  sass [bodies|PROBE] [--bless] [--all]
                   compile every kernel for every target and check the machine code; needs no GPU. 'bodies' checks only
                   elementwise bodies, PROBE only the kernels of a probe. Units that are unchanged since they were blessed
                   are skipped unless --all is given; --bless writes the found facts as the expected ones
  spirv [--bless]  build the Vulkan kernels with glslangValidator and compare them with the committed SPIR-V; --bless
                   writes it
  differential [--device D] [--cases N] [--sets M] [--seed S] [--jobs J] [--anew]
                   compare elementwise expressions with an oracle in Python, on 'cpu' or 'cuda:0'; continues an
                   interrupted run unless --anew is given
  fuzz [TARGET] [--seconds S] [--seed N] [--plant]
                   feed damaged copies of real inputs to the parsers of records, expressions, operands, cubins, listings,
                   profiles, plans and references; finds are kept in tests/fuzz; --plant makes an input panic, to show
                   that panics are found
  dist [--check FILE]
                   build one executable for every Linux with glibc 2.28 or later into target/dist, check what it needs, and
                   run it with a fake driver; --check only checks a file. Installs Zig, the linker, below target/
  wheel            build the Python package's wheel and source distribution into target/wheel, and try the wheel
  stages [-o FILE] write the executable and a script that runs everything in stages on a GPU machine without cargo;
                   default: carry/stages.sh
  model [--bless]  compare the launch model's predictions with measurements; --bless writes the errors into docs/model.md
  profiles [--check]
                   write the shipped machine profiles from records/; --check only reports whether they are up to date
  headlines RUN FILE
                   write a small record of a run's findings, as records/ keeps for a further card of a known model";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let outcome = match arguments.next().as_deref() {
        Some("test") => test::run(&arguments.collect::<Vec<_>>()),
        Some("fmt") => fmt::command(&arguments.collect::<Vec<_>>()),
        Some("spirv") => spirv::command(&arguments.collect::<Vec<_>>()),
        Some("sass") => sass::command(&arguments.collect::<Vec<_>>()),
        Some("model") => model::command(&arguments.collect::<Vec<_>>()),
        Some("profiles") => profiles::command(&arguments.collect::<Vec<_>>()),
        Some("headlines") => profiles::headlines(&arguments.collect::<Vec<_>>()),
        Some("differential") => differential::command(&arguments.collect::<Vec<_>>()),
        Some("fuzz") => fuzz::command(&arguments.collect::<Vec<_>>()),
        Some("dist") => dist::command(&arguments.collect::<Vec<_>>()),
        Some("wheel") => wheel::command(&arguments.collect::<Vec<_>>()),
        Some("stages") => stages::command(&arguments.collect::<Vec<_>>()),
        Some("help" | "--help" | "-h") => {
            eprintln!("{USAGE}");
            Ok(())
        }
        other => {
            let what = other.map_or("no command".to_owned(), |name| format!("unknown command '{name}'"));
            eprintln!("error: {what}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
