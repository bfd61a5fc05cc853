//! Checks a launch against its kernel's description: the number and kinds of arguments, the ranges of numbers, the alignment and
//! size of memory, and that no array that is written overlaps another.

use plimsoll_core::Fault;
use plimsoll_gen::kernel::{Access, Array, Extent, KernelDesc, Number, Parameter, Setting};

use crate::Span;
use crate::launch::{Arguments, Form, Geometry, Kind};

/// What a launch does with an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The array's name in the kernel's source.
    pub name: &'static str,
    /// What the kernel does with it.
    pub access: Access,
    /// The part that it may touch: the whole argument if the kernel doesn't state an extent.
    pub span: Span,
    /// Whether the kernel states an extent.
    pub stated: bool,
    same_as: Option<&'static str>,
}

impl Touched {
    fn overlaps(&self, other: &Self) -> bool {
        let end = |span: Span| span.pointer().saturating_add(span.bytes());
        let apart = end(self.span) <= other.span.pointer() || end(other.span) <= self.span.pointer();
        self.span.bytes() > 0 && other.span.bytes() > 0 && !apart
    }

    fn may_alias(&self, other: &Self) -> bool {
        let named = self.same_as == Some(other.name) || other.same_as == Some(self.name);
        named && self.span.pointer() == other.span.pointer()
    }
}

/// Checks the arguments of a launch against the kernel's description, and returns what the launch touches.
///
/// # Errors
/// [`Fault::Invalid`], which names the kernel, the parameter and the argument.
pub fn accept(
    stated: &KernelDesc,
    geometry: Geometry,
    form: Form,
    arguments: &Arguments,
) -> Result<Vec<Touched>, Fault> {
    geometry.check()?;
    let wrong = |why: String| Fault::Invalid(format!("{}: {why}", stated.name));
    if form.cooperative != stated.cooperative {
        let how = |cooperative| if cooperative { "cooperatively" } else { "plainly" };
        return Err(wrong(format!("must be launched {}, not {}", how(stated.cooperative), how(form.cooperative))));
    }
    if form.dependent && !stated.dependent {
        return Err(wrong(
            "doesn't wait for the kernel before it, so it can't be launched as a dependent kernel".to_owned(),
        ));
    }
    let (count, takes) = (arguments.count(), stated.parameters.len());
    if count != takes {
        return Err(wrong(format!("takes {takes} arguments and was given {count}")));
    }
    let product = |all: u64, side: &u32| all.checked_mul(u64::from(*side));
    let threads = geometry.block.iter().try_fold(1, product).unwrap_or(u64::MAX);
    if stated.threads_fixed && threads > u64::from(stated.threads) {
        return Err(wrong(format!("is compiled for blocks of {} threads, not {threads}", stated.threads)));
    }
    let pairs = || stated.parameters.iter().zip(arguments.kinds());
    if let Some((parameter, kind)) = pairs().find(|(parameter, kind)| !fits(parameter, **kind, stated)) {
        let expected = parameter.number(stated).map_or("memory".to_owned(), |number| format!("{number:?}"));
        return Err(wrong(format!("{} is {expected} and was given as {kind:?}", parameter.name)));
    }
    let number = |name: &str| {
        let place = stated.parameters.iter().position(|parameter| parameter.name == name)?;
        let whole = stated.parameters[place].number(stated).is_some_and(Number::is_whole);
        whole.then_some(arguments.slots()[place][0])
    };
    let setting = Setting {
        kernel: stated,
        grid: geometry.grid,
        block: geometry.block,
        shared: geometry.shared,
        cluster: form.cluster,
        number: &number,
    };
    for parameter in stated.parameters {
        let Some(value) = number(parameter.name) else { continue };
        if let Some(bound) = parameter.range.iter().find(|bound| !bound.holds(value, &setting)) {
            return Err(wrong(format!("{} is {value}, and must be {}", parameter.name, bound.words(&setting))));
        }
    }
    let mut all: Vec<Touched> = Vec::new();
    for (parameter, kind) in pairs() {
        let (Some(array), Kind::Memory(span)) = (parameter.array(), *kind) else { continue };
        let touched = check_array(parameter.name, array, span, &setting).map_err(wrong)?;
        let writes = |one: &Touched| one.access.writes();
        let clash = |other: &&Touched| {
            (writes(other) || writes(&touched)) && touched.overlaps(other) && !touched.may_alias(other)
        };
        if let Some(other) = all.iter().find(clash) {
            let (first, second) = if writes(&touched) { (&touched, other) } else { (other, &touched) };
            return Err(wrong(format!(
                "{} is written and is in part the same memory as {}: {:?} and {:?}",
                first.name, second.name, first.span, second.span
            )));
        }
        all.push(touched);
    }
    Ok(all)
}

fn fits(parameter: &Parameter, given: Kind, stated: &KernelDesc) -> bool {
    match parameter.number(stated) {
        Some(number) => given.is_number(number),
        None => matches!(given, Kind::Memory(_)),
    }
}

/// Checks one array argument, and returns the part that the kernel touches.
fn check_array(name: &'static str, array: Array, span: Span, setting: &Setting<'_>) -> Result<Touched, String> {
    let needed = array.extent.bytes(setting);
    let Some(needed) = needed.filter(|needed| *needed <= span.bytes()) else {
        let needed = needed.map_or("more than any memory".to_owned(), |bytes| format!("{bytes} bytes"));
        return Err(format!("{name} needs {needed} and was given {} bytes", span.bytes()));
    };
    let stated = array.extent != Extent::Unstated;
    let part = if stated { Span::new(span.region(), span.pointer(), needed) } else { span };
    let align = array.align(setting.kernel);
    if part.bytes() > 0 && !part.pointer().is_multiple_of(align) {
        return Err(format!("{name} begins at {:#x}, which is not a multiple of {align} bytes", part.pointer()));
    }
    Ok(Touched { name, access: array.access, span: part, stated, same_as: array.same_as })
}

#[cfg(test)]
mod tests {
    use plimsoll_gen::Target;
    use plimsoll_gen::kernel::Op;
    use plimsoll_gen::kernel::{Index, check};
    use plimsoll_probes::cluster::kernels as cluster;
    use plimsoll_probes::copy::kernels as copy;
    use plimsoll_probes::lab::block_order::kernels as block_order;
    use plimsoll_probes::lab::residency::kernels as residency;
    use plimsoll_probes::latency::kernels as latency;
    use plimsoll_probes::stream::kernels::Parameters;

    use super::*;

    const BASE: u64 = 1 << 20;

    fn refused(kernel: &KernelDesc, geometry: Geometry, form: Form, arguments: Arguments) -> String {
        accept(kernel, geometry, form, &arguments).map(|touched| panic!("{touched:?}")).unwrap_err().to_string()
    }

    fn span(offset: u64, bytes: u64) -> Span {
        Span::new(1, BASE + offset, bytes)
    }

    #[test]
    fn touched_spans_are_the_stated_extents() {
        let dot = Parameters { threads: 128, ..Parameters::new(Op::Dot) }.kernel();
        let list = Arguments::new().span(span(0, 4096)).span(span(4096, 4096)).span(span(4096, 4096));
        let list = list.span(span(0, 4096)).f32(1.0).u64(1000);
        let touched = accept(&dot, Geometry::linear(2, 128), Form::default(), &list).unwrap();
        let found: Vec<_> = touched.iter().map(|one| (one.name, one.access, one.span)).collect();
        let expected = [
            ("out", Access::Fill, span(0, 32)),
            ("a", Access::Read, span(4096, 4000)),
            ("b", Access::Read, span(4096, 4000)),
            ("c", Access::Read, span(0, 0)),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn number_outside_its_range_is_named_with_the_range() {
        let chase = latency::chase(latency::Nearest::L1);
        let list = |warm, hops| Arguments::new().span(span(0, 32)).span(span(64, 8)).u64(warm).u64(hops);
        let one = Geometry::linear(1, 32);
        assert!(accept(&chase, one, Form::default(), &list(0, 64)).is_ok());
        let message = refused(&chase, one, Form::default(), list(0, 33));
        assert!(message.contains("latency_chase: hops is 33, and must be a multiple of 32"), "{message}");
        assert!(refused(&chase, one, Form::default(), list(7, 32)).contains("warm is 7"));
        let build = latency::build();
        let list = |pages, visits, pitch| {
            Arguments::new().span(span(0, 1 << 20)).u32(pages).u32(visits).u32(pitch).u32(1).u64(8)
        };
        let grid = Geometry::linear(1, 256);
        assert!(accept(&build, grid, Form::default(), &list(2, 4, 4)).is_ok());
        assert!(refused(&build, grid, Form::default(), list(0, 4, 4)).contains("pages is 0, and must be at least 1"));
        assert!(refused(&build, grid, Form::default(), list(2, 0, 4)).contains("visits is 0"));
        assert!(
            refused(&build, grid, Form::default(), list(2, 4, 3))
                .contains("pitch is 3, and must be at least 4 (visits)")
        );
        assert!(refused(&build, grid, Form::default(), list(1 << 16, 4, 4)).contains("base needs 33554432 bytes"));
        let chase = cluster::chase(false);
        let list = |distance| Arguments::new().span(span(0, 32)).u32(distance).u32(8);
        let of = |cluster| Form { cluster, ..Form::default() };
        assert!(accept(&chase, Geometry::linear(4, 32), of(4), &list(3)).is_ok());
        assert!(
            refused(&chase, Geometry::linear(4, 32), of(4), list(4)).contains("distance is 4, and must be at most 3")
        );
        assert!(refused(&chase, one, Form::default(), list(1)).contains("distance is 1"));
    }

    #[test]
    fn number_of_tiles_must_match_the_number_of_blocks() {
        let launch = |blocks, rows, columns| {
            let list =
                Arguments::new().span(span(0, 1 << 16)).span(span(1 << 17, 1 << 20)).span(span(1 << 17, 1 << 20));
            let list = list.u32(rows).u32(columns).u32(2).u32(2048);
            accept(&block_order::product(blocks), Geometry::linear(blocks, 1024), Form::default(), &list).map(drop)
        };
        assert!(launch(6, 2, 3).is_ok() && launch(6, 6, 1).is_ok());
        for (blocks, rows, columns) in [(7, 2, 3), (5, 2, 3), (6, 3, 3), (6, 0, 3), (6, 2, 0), (6, 1, 3)] {
            assert!(launch(blocks, rows, columns).is_err(), "{blocks} blocks, {rows} by {columns}");
        }
    }

    #[test]
    fn grid_must_cover_the_elements_and_indices_must_count_them() {
        let wide = Arguments::new().span(span(0, 1 << 40)).span(span(1 << 40, 1 << 40));
        let naive = copy::naive(Index::U32);
        let launch = |kernel: &KernelDesc, blocks, list: Arguments| {
            accept(kernel, Geometry::linear(blocks, kernel.threads), Form::default(), &list).map(drop)
        };
        assert!(launch(&naive, 4, wide.u32(4 * naive.threads)).is_ok());
        let message = launch(&naive, 4, wide.u32(4 * naive.threads + 1)).unwrap_err().to_string();
        assert!(message.contains("must be at most") && message.contains("within reach of the grid"), "{message}");
        let (narrow, long) = (copy::vector(1, Index::U32), copy::vector(1, Index::U64));
        assert!(launch(&narrow, 4, wide.u32(u32::MAX - 4 * narrow.threads)).is_ok());
        assert!(launch(&narrow, 4, wide.u32(u32::MAX - 4 * narrow.threads + 1)).is_err());
        assert!(launch(&long, 4, wide.u64(1 << 33)).is_ok());
        let stream = Parameters::new(Op::Copy).kernel();
        let list = wide.span(span(0, 0)).span(span(0, 0)).f32(0.0);
        assert!(launch(&stream, 1, list.u64(1024)).is_ok() && launch(&stream, 1, list.u64(1025)).is_err());
    }

    #[test]
    fn arrays_must_be_aligned_for_their_accesses() {
        for (vector_bytes, bulk, least) in
            [(4, false, 4_u64), (16, false, 16), (32, false, 32), (4, true, 16), (8, true, 16)]
        {
            let kernel = Parameters { vector_bytes, bulk, ..Parameters::new(Op::Copy) }.kernel();
            let list = |offset| {
                let list = Arguments::new().span(span(0, 4096)).span(span(4096 + offset, 4000));
                list.span(span(1, 0)).span(span(1, 0)).f32(1.0).u64(256)
            };
            let grid = Geometry::linear(8, 256);
            assert!(accept(&kernel, grid, Form::default(), &list(least)).is_ok());
            let message = refused(&kernel, grid, Form::default(), list(least / 2));
            assert!(
                message.contains("a begins at") && message.contains(&format!("not a multiple of {least} bytes")),
                "{message}"
            );
        }
        // The output of a fold needs only the alignment of its own values, and empty arrays need none.
        let fold = Parameters::new(Op::Read).kernel();
        let list = |n| {
            Arguments::new()
                .span(span(4, 4096))
                .span(span(8192, 4096))
                .span(span(1, 0))
                .span(span(1, 0))
                .f32(0.0)
                .u64(n)
        };
        assert!(accept(&fold, Geometry::linear(1, 256), Form::default(), &list(1000)).is_ok());
    }

    #[test]
    fn written_array_must_not_overlap_another_unless_stated() {
        let kernel = Parameters::new(Op::Copy).kernel();
        let grid = Geometry::linear(4, 256);
        let list = |out, a| {
            let list = Arguments::new().span(span(out, 4096)).span(span(a, 4096));
            list.span(span(0, 4096)).span(span(0, 4096)).f32(1.0).u64(1000)
        };
        assert!(accept(&kernel, grid, Form::default(), &list(0, 4096)).is_ok());
        // The kernel touches only 4000 bytes, so the rest may overlap.
        assert!(accept(&kernel, grid, Form::default(), &list(0, 4000)).is_ok());
        for (out, a) in [(0, 0), (0, 3984), (3984, 0), (16, 0)] {
            let message = refused(&kernel, grid, Form::default(), list(out, a));
            assert!(message.contains("out is written and is in part the same memory as a"), "{message}");
        }
        // Arrays that are only read may be the same; the result of a check must not overlap the checked array.
        let check = check::map(Op::Add, plimsoll_gen::kernel::Element::F32).unwrap();
        let list = |result| {
            let same = span(0, 4096);
            Arguments::new().span(same).span(same).span(same).span(same).f32(0.0).u64(1024).span(span(result, 16))
        };
        assert!(accept(&check, grid, Form::default(), &list(4096)).is_ok());
        assert!(refused(&check, grid, Form::default(), list(4080)).contains("result is written"));
        // The description allows these two to be the same array if they begin at the same address.
        let sliding = residency::sliding();
        let grid = Geometry::linear(1, 1024);
        let list = |stream| Arguments::new().span(span(0, 64)).span(span(stream, 128)).u64(4).u32(2);
        assert!(accept(&sliding, grid, Form::default(), &list(0)).is_ok());
        assert!(accept(&sliding, grid, Form::default(), &list(64)).is_ok());
        assert!(refused(&sliding, grid, Form::default(), list(16)).contains("stream is written"));
    }

    #[test]
    fn wrong_kinds_and_sizes_are_named() {
        let kernel = Parameters::new(Op::Triad).kernel();
        let arrays = || (0..4).fold(Arguments::new(), |list, place| list.span(span(4096 * place, 4000)));
        let of = |list| refused(&kernel, Geometry::linear(4, 256), Form::default(), list);
        assert!(of(arrays().f32(1.0)).contains("takes 6 arguments and was given 5"));
        assert!(of(arrays().f64(1.0).u64(1)).contains("s is F32 and was given as F64"));
        assert!(of(arrays().f32(1.0).u32(1)).contains("n is U64 and was given as U32"));
        let numbers = (0..4).fold(Arguments::new(), |list, _| list.u64(0)).f32(1.0).u64(1);
        assert!(of(numbers).contains("out is memory and was given as U64"));
        assert!(of(arrays().f32(1.0).u64(1001)).contains("out needs 4004 bytes and was given 4000 bytes"));
        let words = refused(
            &check::words(),
            Geometry::linear(4, 256),
            Form::default(),
            Arguments::new().span(span(0, 64)).u32(0).u64(u64::MAX),
        );
        assert!(words.contains("out needs more than any memory and was given 64 bytes"), "{words}");
        let block = Geometry::linear(1, 512);
        assert!(
            refused(&kernel, block, Form::default(), arrays().f32(1.0).u64(1))
                .contains("blocks of 256 threads, not 512")
        );
        assert!(accept(&kernel, Geometry::linear(0, 256), Form::default(), &arrays()).is_err());
    }

    #[test]
    fn only_listed_kernels_leave_an_extent_unstated() {
        let target = Target { capability: 120, specific: false };
        let unstated: std::collections::BTreeSet<(&str, &str)> = plimsoll_probes::sources()
            .iter()
            .flat_map(|source| source.kernels(target).into_iter().map(|kernel| (source.name(), kernel)))
            .flat_map(|(source, kernel)| kernel.parameters.iter().map(move |parameter| (source, parameter)))
            .filter(|(_, parameter)| parameter.array().is_some_and(|array| array.extent == Extent::Unstated))
            .map(|(source, parameter)| (source, parameter.name))
            .collect();
        // Both read at addresses from a table in memory.
        assert_eq!(unstated.into_iter().collect::<Vec<_>>(), [("sectors", "in"), ("topology", "base")]);
    }
}
