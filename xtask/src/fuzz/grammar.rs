//! Random expressions by the grammar of `docs/expressions.md`, from all operations. Nearly all are valid; some combinations that
//! types forbid (a literal that doesn't fit, for example) are left for the parser to reject.

use plimsoll::expr::DType;
use plimsoll::expr::dtype::Category;
use plimsoll::expr::op::{Binary, Comparison, Domain, Unary};

use super::mutate::Random;

/// Maximum depth of nested operations.
const MAX_DEPTH: usize = 5;

/// An expression with its declarations.
pub(super) fn make_expression(random: &mut Random) -> Vec<u8> {
    let mut maker = Maker { random, names: Vec::new() };
    let mut text = String::new();
    for number in 0..1 + maker.random.below(3) {
        text += &maker.declare("in", &format!("x{number}"));
    }
    for number in 0..maker.random.below(2) {
        text += &maker.declare("scalar", &format!("a{number}"));
    }
    for number in 0..maker.random.below(3) {
        let kind = maker.pick(&KINDS);
        text += &format!("let t{number} = {}\n", maker.value(kind, MAX_DEPTH));
        maker.names.push((kind, format!("t{number}")));
    }
    for number in 0..1 + maker.random.below(2) {
        let kind = maker.pick(&KINDS);
        let value = maker.value(kind, MAX_DEPTH);
        text += &match maker.random.below(4) {
            0 => format!("x{number} = {value}\n"),
            1 => format!("y{number}: {} = {value}\n", maker.dtype(kind)),
            _ => format!("y{number} = {value}\n"),
        };
    }
    text.into_bytes()
}

const KINDS: [Category; 4] = [Category::Float, Category::Float, Category::Int, Category::Bool];

struct Maker<'r> {
    random: &'r mut Random,
    /// The names declared so far.
    names: Vec<(Category, String)>,
}

impl Maker<'_> {
    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.random.below(list.len())]
    }

    fn dtype(&mut self, kind: Category) -> DType {
        let all: Vec<DType> = DType::ALL.into_iter().filter(|dtype| dtype.category() == kind).collect();
        self.pick(&all)
    }

    fn declare(&mut self, what: &str, name: &str) -> String {
        let dtype = self.pick(&DType::ALL);
        self.names.push((dtype.category(), name.to_owned()));
        format!("{what} {name}: {dtype}\n")
    }

    /// A value of a kind, with up to `depth` nested operations.
    fn value(&mut self, kind: Category, depth: usize) -> String {
        if depth == 0 {
            return self.leaf(kind);
        }
        match self.random.below(10) {
            0..=1 => self.leaf(kind),
            2 => {
                let from = self.pick(&KINDS);
                format!("{}({})", self.dtype(kind), self.value(from, depth - 1))
            }
            3 => {
                let condition = self.value(Category::Bool, depth - 1);
                format!("select({condition}, {}, {})", self.value(kind, depth - 1), self.value(kind, depth - 1))
            }
            4 if kind != Category::Bool => {
                let name = self.pick(&["fma", "clamp"]);
                let [a, b, c] = [(); 3].map(|()| self.value(kind, depth - 1));
                format!("{name}({a}, {b}, {c})")
            }
            5 if kind == Category::Bool => {
                let (op, compared) = (self.pick(Comparison::ALL), self.pick(&[Category::Float, Category::Int]));
                format!("({} {} {})", self.value(compared, depth - 1), op.name(), self.value(compared, depth - 1))
            }
            4..=6 => self.unary(kind, depth),
            _ => self.binary(kind, depth),
        }
    }

    fn leaf(&mut self, kind: Category) -> String {
        let names: Vec<String> =
            self.names.iter().filter(|(known, _)| *known == kind).map(|(_, name)| name.clone()).collect();
        if !names.is_empty() && self.random.below(4) > 0 {
            return names[self.random.below(names.len())].clone();
        }
        let literals = match kind {
            Category::Float => ["0.5", "1e-3", "2.0f32", "inf", "-0.0", "pi"],
            Category::Int => ["0", "3", "7u8", "0x7f", "index()", "index(1)"],
            Category::Bool => ["true", "false", "(index() < 5)", "true", "false", "true"],
        };
        self.pick(&literals).to_owned()
    }

    fn unary(&mut self, kind: Category, depth: usize) -> String {
        let suits = |op: &&Unary| match kind {
            Category::Float => op.domain() != Domain::Bits,
            Category::Int => op.domain() != Domain::Float,
            Category::Bool => op.domain() == Domain::Bits,
        };
        let all: Vec<Unary> = Unary::ALL.iter().filter(suits).copied().collect();
        format!("{}({})", self.pick(&all).name(), self.value(kind, depth - 1))
    }

    fn binary(&mut self, kind: Category, depth: usize) -> String {
        let suits = |op: &&Binary| match kind {
            Category::Float => matches!(op.domain(), Domain::Number | Domain::Float),
            Category::Int => op.domain() != Domain::Float,
            Category::Bool => op.domain() == Domain::Bits,
        };
        let all: Vec<Binary> = Binary::ALL.iter().filter(suits).copied().collect();
        let op = self.pick(&all);
        let (a, b) = (self.value(kind, depth - 1), self.value(kind, depth - 1));
        if op.is_infix() { format!("({a} {} {b})", op.name()) } else { format!("{}({a}, {b})", op.name()) }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll::expr::{Names, parse};

    use super::*;

    #[test]
    fn most_generated_expressions_are_accepted() {
        let mut random = Random(5);
        let texts: Vec<String> = (0..1000).map(|_| String::from_utf8(make_expression(&mut random)).unwrap()).collect();
        let accepted = texts.iter().filter(|text| parse(text, &Names::default()).is_ok()).count();
        let rejected = texts.iter().find_map(|text| Some((text, parse(text, &Names::default()).err()?)));
        assert!(accepted > 700, "{accepted} of 1000; rejected: {rejected:?}");
    }
}
