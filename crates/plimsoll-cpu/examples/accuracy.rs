//! The largest error of every function of f32: `accuracy [STRIDE] [ISA] [FUNCTION…]`. A stride of 1 tries all 2³² arguments.

use plimsoll_cpu::arch::{available, best};
use plimsoll_cpu::elementwise::verify::{Arguments, functions, worst};
use plimsoll_cpu::threads::{Team, affinity};
use plimsoll_cpu::timer::Timer;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let stride: u32 = args.next().map_or(Ok(4099), |text| text.parse())?;
    let name = args.next();
    let isa = available().into_iter().find(|isa| Some(isa.name()) == name.as_deref()).unwrap_or_else(best);
    let chosen: Vec<String> = args.collect();
    let arguments = if stride <= 1 { Arguments::All } else { Arguments::Every(stride) };
    let mut team = Team::new(&affinity::allowed_cpus()[..1], Timer::best())?;
    for function in functions() {
        if chosen.is_empty() || chosen.iter().any(|name| name == function.name()) {
            let worst = worst(&mut team, function, isa, arguments)?;
            #[allow(clippy::print_stdout, reason = "an example's result")]
            {
                println!("{worst}");
            }
        }
    }
    Ok(())
}
