"""Rust: definitions of a file, and references resolved across the files of crates."""

from __future__ import annotations

import time

import pytest

from periplus.code.extraction.parse import parse_source
from periplus.code.model import Facts
from periplus.code.resolution.resolver import Resolver
from periplus.code.resolution.sources import MemorySources

pytestmark = pytest.mark.quick

DEFINITIONS = b"""//! A crate.
pub mod inner;

/// A point.
#[derive(Debug)]
pub struct Point<T> {
    pub x: T,
    tags: Vec<Option<Tag>>,
}
pub struct Pair(u8, Tag);
enum Shape {
    Dot,
    Line { to: Point<u8> },
}
pub(crate) trait Draw: Base {
    const SIZE: u8;
    fn draw(&self) -> Shape;
}
impl<T> Draw for Point<T> {
    fn draw(&self) -> Shape { Shape::Dot }
}
impl<T> Point<T> {
    pub fn new(x: T) -> Result<Self, Error> { let y = x; todo!() }
    fn hidden() {}
}
macro_rules! point { ($x:expr) => { Point { x: $x } }; }
static ORIGIN: Point<u8> = point!(0);
cfg_something! {
    pub fn within() {}
}
#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn works() { fn helper() {} }
}
"""


def facts_of(path: str, data: bytes | str) -> Facts:
    facts = parse_source(path, data if isinstance(data, bytes) else data.encode()).facts
    assert facts is not None
    return facts


def edges(files: dict[str, str], path: str) -> list[str]:
    """Return the references of ``path``: line, name, grade and targets."""
    facts = {name: facts_of(name, text) for name, text in files.items() if name.endswith(".rs")}
    sources = MemorySources(facts, {name: text.encode() for name, text in files.items() if name not in facts})
    resolver = Resolver(sources)
    found = []
    for one in facts[path].references():
        target = facts[path].targets[one.target]
        answer = resolver.resolve(path, target)
        names = []
        for entity in answer.found:
            file = sources.file(entity.path)
            names.append(
                f"{entity.path}:{file.definitions[entity.symbol].qualified}"
                if file and entity.symbol >= 0
                else entity.path
            )
        grade = answer.grade or ("external" if answer.is_external else "unknown")
        found.append(f"{one.line} {one.role} {facts[path].final_name(target)} {grade} {' '.join(names)}".strip())
    return found


def test_definitions_have_kinds_lines_and_types():
    facts = facts_of("a.rs", DEFINITIONS)
    definitions = facts.definitions()
    assert [f"{one.kind} {one.qualified} {one.line}" for one in definitions] == [
        "module inner 2",
        "struct Point 6",
        "field Point.x 7",
        "field Point.tags 8",
        "struct Pair 10",
        "enum Shape 11",
        "value Shape.Dot 12",
        "value Shape.Line 13",
        "field Shape.Line.to 13",
        "trait Draw 15",
        "value Draw.SIZE 16",
        "method Draw.draw 17",
        "method Point.draw 20",
        "method Point.new 23",
        "method Point.hidden 24",
        "macro point 26",
        "value ORIGIN 27",
        "function within 29",
        "module tests 32",
        "function tests.works 34",
        "function tests.works.helper 34",
    ]
    exported = {one.qualified: one.is_exported for one in definitions}
    assert [exported[name] for name in ("Point", "Point.tags", "Point.draw", "Point.new", "Point.hidden", "Shape")] == [
        True, False, True, True, False, False,
    ]  # fmt: skip
    assert [one.qualified for one in definitions if one.is_test] == ["tests.works"]
    point = definitions[1]
    assert DEFINITIONS[point.doc_byte :].startswith(b"/// A point.")
    assert DEFINITIONS[point.head_byte : point.body_byte].strip() == b"pub struct Point<T>"
    assert (point.start_line, point.end_line) == (5, 9)
    assert facts.final_name(facts.types[13]) == "Point"  # Result<Self, Error>
    assert [facts.final_name(one) for one in facts.bases[1]] == ["Draw"]


CRATES = {
    "Cargo.toml": '[workspace]\nmembers = ["app", "my-lib"]\n',
    "app/Cargo.toml": '[package]\nname = "app"\n[dependencies]\nmy-lib = { path = "../my-lib" }\nserde = "1"\nlib2 = { path = "../my-lib", package = "my-lib" }\n',
    "app/src/main.rs": 'mod store;\nmod util;\n#[path = "odd_place.rs"]\nmod odd;\nfn main() {}\npub fn top() {}\n',
    "app/src/odd_place.rs": "pub fn strange() {}\n",
    "app/src/util/mod.rs": "pub mod deep;\npub use self::deep::Deep as Renamed;\n#[macro_export]\nmacro_rules! shout { () => {}; }\n",
    "app/src/util/deep.rs": "pub struct Deep { pub size: u8 }\nimpl Deep { pub fn dive(&self) -> Deep { todo!() } }\n",
    "app/src/store.rs": (
        "use std::collections::HashMap;\n"
        "pub trait Named { fn label(&self) -> u8 { 1 } fn name(&self); }\n"
        "pub struct Store { pub items: HashMap<u8, Item>, size: u8 }\n"
        "pub struct Item(pub crate::util::deep::Deep);\n"
        "pub enum Kind { Big, Small(u8) }\n"
        "impl Named for Store { fn name(&self) {} }\n"
        "impl Store { pub fn open() -> std::io::Result<Self> { todo!() } pub fn size(&self) -> u8 { self.size } }\n"
    ),
    "app/src/more.rs": "use crate::store::Store;\nimpl Store { pub fn extra(&self) {} }\npub struct Store2;\n",
    "app/tests/it.rs": "use app::missing;\n",
    "my-lib/Cargo.toml": '[package]\nname = "my-lib"\n',
    "my-lib/src/lib.rs": "mod sleep;\npub use sleep::sleep;\npub mod macros { pub fn inside() {} }\npub struct Lib;\nimpl Lib { pub fn go(&self) {} }\n",
    "my-lib/src/sleep.rs": "pub fn sleep() {}\npub struct Sleep;\n",
}  # fmt: skip

CASES = {
    "a group with an alias and self": (
        "use crate::store::{self, Store as S, Kind::*};\nfn f() { S::open(); store::Kind::Big; Small(1); }\n",
        ["1 import store proven app/src/store.rs", "1 import Store proven app/src/store.rs:Store",
         "2 call open proven app/src/store.rs:Store.open", "2 reference Big proven app/src/store.rs:Kind.Big",
         "2 call Small proven app/src/store.rs:Kind.Small"],
    ),
    "a result that is unwrapped": (
        "use crate::store::Store;\nfn f() -> Option<()> {\nlet s = Store::open()?;\ns.name();\ns.extra();\nStore::open().unwrap().label();\nNone }\n",
        ["4 call name likely app/src/store.rs:Store.name", "5 call extra likely app/src/more.rs:Store.extra",
         "6 call label likely app/src/store.rs:Named.label"],
    ),
    "elements, tuples and what is in them": (
        "use crate::store::Store;\nfn f(s: &mut Store) {\nfor i in s.items.iter() { i.0.dive(); }\nlet Some(i) = s.items[0] else { return };\ni.0.size; }\n",
        ["3 call dive likely app/src/util/deep.rs:Deep.dive", "5 reference size likely app/src/util/deep.rs:Deep.size"],
    ),
    "a re-export and super": (
        "use super::util::Renamed;\nfn f(r: Renamed) { r.dive(); super::top(); }\n",
        ["1 import Renamed proven app/src/util/deep.rs:Deep", "2 call dive likely app/src/util/deep.rs:Deep.dive",
         "2 call top proven app/src/main.rs:top"],
    ),
    "a module with a path": (
        "fn f() { crate::odd::strange(); }\n", ["1 call strange proven app/src/odd_place.rs:strange"]
    ),
    "a crate of the workspace, and another name for it": (
        "use my_lib::Lib;\nfn f(l: Lib) { l.go(); lib2::macros::inside(); }\n",
        ["1 import Lib proven my-lib/src/lib.rs:Lib", "2 call go likely my-lib/src/lib.rs:Lib.go",
         "2 call inside proven my-lib/src/lib.rs:macros.inside"],
    ),
    "a function called as its module": (
        "use my_lib::sleep;\nfn f() { sleep(); my_lib::sleep(); }\n",
        ["2 call sleep proven my-lib/src/sleep.rs:sleep"],
    ),
    "crates of others and the standard library": (
        "use serde::Serialize;\nuse std::fmt;\nfn f(x: Serialize) { fmt::write(); serde::to(); x.go(); }\n",
        ["1 import Serialize external", "3 call write external", "3 call to external", "3 call go external"],
    ),
    "a struct and its fields": (
        "use crate::util::deep::Deep;\nfn f(d: Deep) { let Deep { size } = d; Deep { size: 1 }; }\n",
        ["2 reference size proven app/src/util/deep.rs:Deep.size"],
    ),
    "a local name is no path": (
        "mod store { pub fn x() {} }\nfn f(store: u8) { store::x(); store; }\n",
        ["2 call x proven app/src/here.rs:store.x"],
    ),
    "a name that is bound again": (
        "use crate::store::Store;\nfn f(s: Store) {\nlet s = s.size();\ns.name(); }\n",
        ["3 call size likely app/src/store.rs:Store.size", "4 call name named app/src/store.rs:Named.name app/src/store.rs:Store.name"],
    ),
    "tokens of macros": (
        "use crate::store::Store;\nfn f() { assert_eq!(Store::open(), 1); other!(Store::open()); shout!(); }\n",
        ["2 call open proven app/src/store.rs:Store.open", "2 call open likely app/src/store.rs:Store.open",
         "2 call other unknown", "2 call shout likely app/src/util/mod.rs:shout"],
    ),
    "names within a module of the file": (
        "fn outer() {}\nmod tests {\nuse super::*;\nuse super::super::store::Store;\nfn t() { outer(); super::outer(); Store::open(); }\n}\n",
        ["5 call outer proven app/src/here.rs:outer", "5 call open proven app/src/store.rs:Store.open"],
    ),
    "a type parameter stands for its bound": (
        "use crate::store::Named;\nfn f<T: Clone + Named>(t: T) { t.label(); }\n",
        ["2 call label likely app/src/store.rs:Named.label"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CASES))
def test_references_are_resolved(name):
    source, expected = CASES[name]
    main = CRATES["app/src/main.rs"] + "mod here;\nmod more;\n"
    found = edges({**CRATES, "app/src/main.rs": main, "app/src/here.rs": source}, "app/src/here.rs")
    assert [one for one in expected if one not in found] == []


def test_a_field_and_a_method_of_one_name_are_two_things():
    found = edges(CRATES, "app/src/store.rs")
    assert "7 reference size proven app/src/store.rs:Store.size" in found
    source = (
        "struct S { size: u8 }\nimpl S {\nfn size(&self) -> u8 { 1 }\nfn f(&self) {\nself.size;\nself.size();\n}\n}\n"
    )
    facts = facts_of("a.rs", source)
    resolver = Resolver(MemorySources({"a.rs": facts}))
    lines = {
        one.line: [facts.definitions()[entity.symbol].kind for entity in resolver.resolve("a.rs", facts.targets[one.target]).found]
        for one in facts.references()
    }  # fmt: skip
    assert (lines[5], lines[6]) == (["field"], ["method"])


def test_local_names_are_no_references():
    source = (
        "fn f<T>(a: u8, (b, c): (u8, u8)) -> T {\n\tlet d = a;\n\tlet (e, mut g) = (b, c);\n\tif let Some(h) = d { e; }\n"
        "\tmatch g { x @ 1..=2 if x > 1 => x, y => y }\n\tfor i in 0..2 { i; }\n\tlet k = |m, n: u8| m + n;\n\tk(1)\n}\n"
        "impl<'a, const N: usize> Tr for [u8; N] { fn q(self: &Self) { self; } }\n"
    )
    facts = facts_of("a.rs", source)
    assert [facts.final_name(facts.targets[one.target]) for one in facts.references()] == ["Tr"]


@pytest.mark.parametrize(
    "manifest",
    [b"\xff", b"[package]\nname = 3\n", b"package = 1\nlib = 2\n", b'[package]\nname = "a"\n[lib]\npath = "../../../x.rs"\n', b"a=" + b"[" * 5_000],
    ids=lambda data: repr(data[:20]),
)  # fmt: skip
def test_hostile_manifests_are_ignored(manifest):
    facts = {"a/src/lib.rs": facts_of("a/src/lib.rs", "use a::b;\nuse crate::c;\nfn f() { b(); }\n")}
    sources = MemorySources(facts, {"a/Cargo.toml": manifest})
    resolver = Resolver(sources)
    assert all(resolver.resolve("a/src/lib.rs", one).grade in (None, "proven") for one in facts["a/src/lib.rs"].targets)


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [
        b"fn f() {\n" + b"let x = x;\n" * 30_000 + b"}\n",
        b"m! {" * 10_000,
        b"m! {" * 300 + b"}" * 300,
        b"impl A { " + b"fn f(&self) {} " * 30_000 + b"}\n",
        b"mod a {" * 20_000,
        b"use a::{" * 20_000,
        b"fn f() { a" + b".b()" * 60_000 + b" }\n",
    ],
    ids=lambda data: repr(data[:12]),
)
def test_a_hostile_file_takes_bounded_time(data):
    begun = time.process_time()
    parse_source("a.rs", data)
    assert time.process_time() - begun < 20
