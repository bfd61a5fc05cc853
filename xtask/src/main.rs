//! Developer commands: `cargo xtask test` is what continuous integration runs.

mod bodies;
mod differential;
mod fmt;
mod forms;
mod fuzz;
mod hip;
mod licences;
mod model;
mod profiles;
mod python;
mod sass;
mod seen;
mod spirv;
mod stages;
mod test;
mod tools;

use std::process::ExitCode;

const USAGE: &str = "cargo xtask COMMAND

commands:
  test [STEP…]     format, lints, documentation, every test; with names, only those steps
  fmt [--check]    formats every Rust file; --check only says which are not formatted
  sass [--bless]   compiles every kernel for every target, reads the machine code and checks it; needs no GPU
                   what didn't change since its facts were blessed isn't compiled again, unless with --all;
                   --bless writes the facts that it finds as those to hold; after 'sass', 'bodies' does only those of
                   elementwise expressions, and the name of a probe only its kernels
  spirv [--bless]  builds the kernels for Vulkan with glslangValidator and compares them with the committed SPIR-V, which
                   --bless writes
  differential [--device D] [--cases N] [--sets M] [--seed S] [--jobs J] [--anew]
                   holds elementwise expressions to an oracle in Python, on 'cpu' or 'cuda:0'; goes on where it was
                   interrupted
  fuzz [TARGET] [--seconds S] [--seed N] [--plant]
                   feeds the readers of records, expressions, operands, cubins, listings, profiles, plans and references with
                   damaged copies of real inputs; finds are kept in tests/fuzz; --plant shows that a panic is found
  stages [-o FILE] the executable and a script that runs everything on a GPU machine without cargo, in stages;
                   carry/stages.sh by default
  model [--bless]  errors of the model of a launch's cost against what was measured; --bless writes them into docs/model.md
  profiles [--check]
                   the shipped profiles of machines, from records/; --check only says whether they are up to date
  headlines RUN FILE
                   a small record of a run's findings: what records/ keeps of a further card of a known model";

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
