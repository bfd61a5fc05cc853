//! Statements: declarations, `let`, `iterate` and assignments.

use std::ops::Range;

use super::lex::{Symbol, Token};
use super::{Fault, MAX_STEPS, MAX_TOKENS_ITERATED, Meaning, Parsed, Parser, suggestion};
use crate::dtype::DType;
use crate::graph::{ExprError, Graph, NodeId};

impl<'a> Parser<'a> {
    pub(super) fn program(mut self) -> Parsed<Graph> {
        loop {
            while self.token() == Token::Line || self.token() == Token::Symbol(Symbol::Semicolon) {
                self.advance();
            }
            if self.token() == Token::End {
                break;
            }
            self.statement()?;
            match self.token() {
                Token::End | Token::Line | Token::Symbol(Symbol::Semicolon) => {}
                _ => return Err(self.unexpected("an operator or the end of the statement")),
            }
        }
        let end = self.place();
        Self::locate(&end, self.builder.finish())
    }

    fn statement(&mut self) -> Parsed<()> {
        match (self.token(), self.token_after()) {
            (Token::Name("in"), _) => self.declarations(true),
            (Token::Name("scalar"), _) => self.declarations(false),
            (Token::Name("let"), _) => self.let_binding(),
            (Token::Name("iterate"), Token::Number(_)) => self.iteration(),
            (Token::Name(name), Token::Symbol(Symbol::Equal | Symbol::Colon)) => self.assignment(name),
            _ => self.unnamed_value(),
        }
    }

    /// `in x: bf16, y: f32` or `scalar a: f32`.
    fn declarations(&mut self, tensors: bool) -> Parsed<()> {
        self.advance();
        loop {
            let place = self.place();
            let name = self.name()?;
            self.expect(Symbol::Colon, "and a type")?;
            let dtype = self.dtype()?;
            self.refuse_defined(name, &place)?;
            self.declare(name, dtype, tensors, &place)?;
            if !self.take(Symbol::Comma) {
                return Ok(());
            }
            self.skip_lines();
        }
    }

    pub(super) fn declare(
        &mut self,
        name: &'a str,
        dtype: DType,
        tensor: bool,
        place: &Range<usize>,
    ) -> Parsed<NodeId> {
        let declared = if tensor { self.builder.input(name, dtype) } else { self.builder.scalar(name, dtype) };
        let id = Self::locate(place, declared)?;
        let meaning = if tensor { Meaning::Tensor(id, self.inputs) } else { Meaning::Scalar(id) };
        self.inputs += u32::from(tensor);
        self.scope.insert(name, meaning);
        Ok(id)
    }

    /// `let t = …`: names a value without storing it.
    fn let_binding(&mut self) -> Parsed<()> {
        self.advance();
        let place = self.place();
        let name = self.name()?;
        self.refuse_defined(name, &place)?;
        if !crate::graph::is_name(name) {
            return Self::locate(&place, Err(ExprError::Name(name.to_owned())));
        }
        self.expect(Symbol::Equal, "and a value")?;
        let value = self.expression()?;
        self.scope.insert(name, Meaning::Value(value));
        Ok(())
    }

    /// `iterate 50: a, b = a*a - b*b + x, 2*a*b + y`: computes values named by `let` that many times, each step from the values
    /// of the step before. The steps are unrolled.
    fn iteration(&mut self) -> Parsed<()> {
        self.advance();
        let place = self.place();
        let Token::Number(word) = self.token() else { return Err(self.unexpected("the number of times")) };
        let steps = word.parse::<usize>().ok().filter(|steps| (1..=MAX_STEPS).contains(steps)).ok_or_else(|| {
            let message = format!("'{word}' is not a valid number of times: it must be from 1 to {MAX_STEPS}");
            Fault { place, message }
        })?;
        self.advance();
        self.expect(Symbol::Colon, "and the values to compute each time")?;
        let names = self.iterated_names()?;
        let begin = self.next;
        for _ in 0..steps {
            self.next = begin;
            let mut values = Vec::with_capacity(names.len());
            for (number, _) in names.iter().enumerate() {
                if number > 0 {
                    self.expect(Symbol::Comma, "and as many values as names")?;
                    self.skip_lines();
                }
                values.push(self.expression()?);
            }
            for (name, value) in names.iter().zip(values) {
                self.scope.insert(name, Meaning::Value(value));
            }
            // Text is untrusted: steps on only constants fold into no operations but still take time.
            self.tokens_iterated += self.next - begin;
            if self.tokens_iterated > MAX_TOKENS_ITERATED {
                let message = "too many steps for so long a text: iterate fewer times".to_owned();
                return Err(Fault { place: self.place(), message });
            }
        }
        Ok(())
    }

    /// `a, b =`: the names of the iterated values.
    fn iterated_names(&mut self) -> Parsed<Vec<&'a str>> {
        let mut names = Vec::new();
        loop {
            let place = self.place();
            let name = self.name()?;
            if !matches!(self.scope.get(name), Some(Meaning::Value(_))) {
                let message = format!("'{name}' has no value yet: write 'let {name} = …' first");
                return Err(Fault { place, message });
            }
            if names.contains(&name) {
                return Err(Fault { place, message: format!("'{name}' is named twice") });
            }
            names.push(name);
            if !self.take(Symbol::Comma) {
                break;
            }
        }
        self.expect(Symbol::Equal, "and a value for each name")?;
        Ok(names)
    }

    /// `y = …` or `y: bf16 = …`: stores a value, in place if `y` is an input.
    fn assignment(&mut self, name: &'a str) -> Parsed<()> {
        let place = self.place();
        self.advance();
        let dtype = if self.take(Symbol::Colon) { Some(self.dtype()?) } else { None };
        self.expect(Symbol::Equal, "and a value")?;
        self.refuse_second(&place)?;
        let value = self.expression()?;
        if !self.scope.contains_key(name)
            && let Some(&declared) = self.names.tensors.get(name)
        {
            self.declare(name, declared, true, &place)?;
        }
        match self.scope.get(name).copied() {
            Some(Meaning::Tensor(id, slot)) => {
                let (holds, _) = Self::locate(&place, self.builder.type_of(id))?;
                if let Some(stores) = dtype.filter(|&stores| stores != holds) {
                    return Self::locate(&place, Err(ExprError::InPlace { name: name.to_owned(), holds, stores }));
                }
                Self::locate(&place, self.builder.output_in_place(slot, value))?;
            }
            Some(_) => return Err(taken(name, place)),
            None if self.names.scalars.contains_key(name) => return Err(taken(name, place)),
            None => Self::locate(&place, self.builder.output(name, value, dtype))?,
        }
        self.stored = true;
        self.scope.insert(name, Meaning::Stored(value));
        Ok(())
    }

    /// A value without a name: stored as `out`, the only output.
    fn unnamed_value(&mut self) -> Parsed<()> {
        let place = self.place();
        self.refuse_second(&place)?;
        if self.stored {
            return Err(Fault {
                place, message: "this value has no name: write 'let t = …' or 'out = …'".to_owned()
            });
        }
        let value = self.expression()?;
        Self::locate(&place, self.builder.output("out", value, None))?;
        (self.stored, self.bare) = (true, true);
        Ok(())
    }

    fn refuse_second(&self, place: &Range<usize>) -> Parsed<()> {
        if !self.bare {
            return Ok(());
        }
        let message = "with several values each needs a name, and the one before has none: write 'out = …'".to_owned();
        Err(Fault { place: place.clone(), message })
    }

    fn refuse_defined(&self, name: &str, place: &Range<usize>) -> Parsed<()> {
        let known = self.scope.contains_key(name);
        let foreign = self.names.tensors.contains_key(name) || self.names.scalars.contains_key(name);
        if known || foreign { Err(taken(name, place.clone())) } else { Ok(()) }
    }

    fn name(&mut self) -> Parsed<&'a str> {
        let Token::Name(name) = self.token() else { return Err(self.unexpected("a name")) };
        self.advance();
        Ok(name)
    }

    fn dtype(&mut self) -> Parsed<DType> {
        let place = self.place();
        let Token::Name(name) = self.token() else { return Err(self.unexpected("a type such as f32")) };
        let dtype = name.parse().map_err(|_| {
            let near = suggestion(name, DType::ALL.iter().map(|dtype| dtype.name()));
            Fault { place, message: format!("there is no type '{name}'{near}") }
        })?;
        self.advance();
        Ok(dtype)
    }
}

fn taken(name: &str, place: Range<usize>) -> Fault {
    Fault { place, message: format!("'{name}' is already in use: choose another name") }
}
