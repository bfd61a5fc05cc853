//! The largest error of every function of f32, f16 and bf16: `accuracy [STRIDE] [ISA] [FUNCTION…]`. A stride of 1 tries all 2³²
//! arguments of f32, and 0 none; all arguments of the other types are tried.

use plimsoll_cpu::arch::{available, best};
use plimsoll_cpu::elementwise::verify::{Arguments, TYPES, worst};
use plimsoll_cpu::threads::{Team, affinity};
use plimsoll_cpu::timer::Timer;
use plimsoll_expr::DType;
use plimsoll_expr::function::Function;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let stride: u32 = args.next().map_or(Ok(4099), |text| text.parse())?;
    let name = args.next();
    let isa = available().into_iter().find(|isa| Some(isa.name()) == name.as_deref()).unwrap_or_else(best);
    let chosen: Vec<String> = args.collect();
    let mut team = Team::new(&affinity::allowed_cpus()[..1], Timer::best())?;
    let wanted = |function: &Function| chosen.is_empty() || chosen.iter().any(|name| name == function.name());
    for (dtype, function) in
        TYPES.into_iter().flat_map(|dtype| Function::list().into_iter().map(move |function| (dtype, function)))
    {
        let arguments = match (dtype, stride) {
            (DType::F32, 0) => continue,
            (DType::F32, 2..) => Arguments::Every(stride),
            _ => Arguments::All,
        };
        if wanted(&function) {
            let worst = worst(&mut team, (function, dtype), isa, arguments)?;
            #[allow(clippy::print_stdout, reason = "an example's result")]
            {
                println!("{worst}");
            }
        }
    }
    Ok(())
}
