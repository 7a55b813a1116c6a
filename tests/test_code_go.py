"""Go: definitions of a file, and references resolved across the files of modules."""

from __future__ import annotations

import time

import pytest

from periplus.code.extraction.parse import parse_source
from periplus.code.model import Facts
from periplus.code.resolution.resolver import Resolver
from periplus.code.resolution.sources import MemorySources

pytestmark = pytest.mark.quick

DEFINITIONS = b"""package shop

// Store keeps goods.
type Store struct {
\t*Base
\tName, Title string
\tinner []Item // of it
}

type (
\tItem interface {
\t\tReader
\t\tPrice(of string) (int, error)
\t}
\tAlias = Store
)

const (
\tOne = iota
\ttwo
)

var first, second = New(), 2

// New makes one.
func New() *Store {
\ttype local struct{ hidden int }
\tvar loose local
\treturn &Store{Name: "x"}
}

func (s *Store) Load(key string) (Item, error) { return nil, nil }
func (l List[T]) Push(v T)                      {}
func TestLoad(t *testing.T)                     {}
func Tester()                                   {}
"""


def facts_of(path: str, data: bytes | str) -> Facts:
    facts = parse_source(path, data if isinstance(data, bytes) else data.encode()).facts
    assert facts is not None
    return facts


def edges(files: dict[str, str], path: str) -> list[str]:
    """Return the references of ``path``: line, name, grade and targets."""
    facts = {name: facts_of(name, text) for name, text in files.items() if name.endswith(".go")}
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
    facts = facts_of("a.go", DEFINITIONS)
    assert [f"{one.kind} {one.qualified} {one.line}" for one in facts.definitions()] == [
        "struct Store 4",
        "field Store.Base 5",
        "field Store.Name 6",
        "field Store.Title 6",
        "field Store.inner 7",
        "interface Item 11",
        "method Item.Price 13",
        "type Alias 15",
        "value One 19",
        "value two 20",
        "value first 23",
        "value second 23",
        "function New 26",
        "method Store.Load 32",
        "method List.Push 33",
        "function TestLoad 34",
        "function Tester 35",
    ]
    assert facts.package == "shop"
    exported = {one.qualified: one.is_exported for one in facts.definitions()}
    assert (exported["Store.Name"], exported["Store.inner"], exported["two"]) == (True, False, False)
    assert [one.name for one in facts.definitions() if one.is_test] == ["TestLoad"]
    store, new = facts.definitions()[0], facts.definitions()[12]
    assert DEFINITIONS[store.doc_byte :].startswith(b"// Store keeps")
    assert DEFINITIONS[store.head_byte : store.body_byte].strip() == b"type Store struct"
    assert DEFINITIONS[new.head_byte : new.body_byte].strip() == b"func New() *Store"
    assert facts.final_name(facts.types[12]) == "Store"
    assert [facts.final_name(one) for one in facts.bases[0]] == ["Base"]


MODULE = {
    "go.mod": "module example.com/shop // ours\n\nreplace example.com/other v1.0.0 => ./other\n",
    "other/go.mod": "module example.com/other\n",
    "other/lib.go": "package other\nfunc Help() {}\n",
    "store/store.go": (
        "package store\ntype Base struct{ Depth int }\nfunc (b *Base) Sink() {}\n"
        "type Store struct {\n\t*Base\n\tItems []Item\n}\ntype Item struct{ Kind string }\n"
        "func New() (*Store, error) { return nil, nil }\n"
    ),
    "store/more.go": "package store\nfunc (s *Store) Load() Item { s.Sink(); s.keep(); return Item{} }\nfunc (s *Store) keep() {}\n",
    "store/p_linux.go": "package store\nfunc Platform() {}\n",
    "store/p_windows.go": "package store\nfunc Platform() {}\n",
    "store/store_test.go": 'package store_test\nimport "example.com/shop/store"\nfunc TestNew() { store.New() }\n',
    "odd-name/odd.go": "package odder\nfunc Do() {}\n",
    "dot/dot.go": "package dot\nfunc Dotted() {}\n",
}

CASES = {
    "an import is a folder, its names are in all its files": (
        'import "example.com/shop/store"\nfunc f() { store.Platform() }\n',
        ["2 import store proven store", "3 call Platform proven store/p_linux.go:Platform store/p_windows.go:Platform"],
    ),
    "an alias": (
        'import st "example.com/shop/store"\nvar _ st.Item\n',
        ["3 reference Item proven store/store.go:Item"],
    ),
    "the first of several results": (
        'import "example.com/shop/store"\nfunc f() { s, err := store.New(); s.Load(); err.Error() }\n',
        ["3 call New proven store/store.go:New", "3 call Load likely store/more.go:Store.Load"],
    ),
    "a method of an embedded type": (
        'import "example.com/shop/store"\nfunc f(s *store.Store) { s.Sink(); s.Depth++ }\n',
        ["3 call Sink likely store/store.go:Base.Sink", "3 reference Depth likely store/store.go:Base.Depth"],
    ),
    "elements of a field": (
        'import "example.com/shop/store"\nfunc f(s *store.Store) { for _, one := range s.Items { _ = one.Kind }; _ = s.Items[0].Kind }\n',
        ["3 reference Kind likely store/store.go:Item.Kind"],
    ),
    "elements of a named list, and of many arguments": (
        'import "example.com/shop/store"\ntype Items []store.Item\nfunc f(a Items, b ...store.Item) {\n_ = a[0].Kind\n_ = b[0].Kind }\n',
        ["5 reference Kind likely store/store.go:Item.Kind", "6 reference Kind likely store/store.go:Item.Kind"],
    ),
    "a parameter called as the package of its type": (
        'import "example.com/shop/store"\nfunc f(store *store.Store) {\n store.Load() }\n',
        ["3 reference Store proven store/store.go:Store", "4 call Load likely store/more.go:Store.Load"],
    ),
    "keys of a literal are fields": (
        'import "example.com/shop/store"\nvar Kind = 1\nvar a = []*store.Item{{Kind: "x"}}\nvar b = map[int]store.Item{Kind: {Kind: "y"}}\n',
        ["4 reference Kind proven store/store.go:Item.Kind", "5 reference Kind proven main.go:Kind",
         "5 reference Kind proven store/store.go:Item.Kind"],
    ),
    "a dot import": (
        'import . "example.com/shop/dot"\nfunc f() { Dotted() }\n',
        ["3 call Dotted proven dot/dot.go:Dotted"],
    ),
    "a package that is not called as its folder": (
        'import "example.com/shop/odd-name"\nfunc f() { odder.Do() }\n',
        ["3 call Do proven odd-name/odd.go:Do"],
    ),
    "a replaced module": (
        'import "example.com/other"\nfunc f() { other.Help() }\n',
        ["3 call Help proven other/lib.go:Help"],
    ),
    "the standard library": ('import "fmt"\nfunc f() { fmt.Println() }\n', ["3 call Println external"]),
    "a local name hides a package only after its declaration": (
        'import "example.com/shop/store"\nfunc f() { store := store.Platform; store() }\n',
        ["3 reference Platform proven store/p_linux.go:Platform store/p_windows.go:Platform"],
    ),
    "a variable that is assigned from itself": (
        'import "example.com/shop/store"\nfunc f(s *store.Store) { s2 := s; i := s2.Load(); i, ok := other(i); _ = i.Kind; _ = ok }\n',
        ["3 call Load likely store/more.go:Store.Load"],
    ),
    "an unexported name of another package is not meant": (
        "func f() { unknown().keep() }\n", ["2 call keep unknown"]
    ),
    "new and conversion": (
        'import "example.com/shop/store"\nfunc f() { a := new(store.Store); a.Load(); (*store.Store)(nil).Load(); store.Item{}.Kind.X() }\n',
        ["3 call Load likely store/more.go:Store.Load", "3 reference Kind likely store/store.go:Item.Kind"],
    ),
    "late builtins may be the package's own": ("func f() { max(1, 2) }\n", ["2 call max external"]),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CASES))
def test_references_are_resolved(name):
    source, expected = CASES[name]
    found = edges({**MODULE, "main.go": f"package main\n{source}"}, "main.go")
    assert [one for one in expected if one not in found] == []


def test_the_receiver_reaches_methods_in_other_files_of_the_package():
    found = edges(MODULE, "store/more.go")
    assert "2 call Sink proven store/store.go:Base.Sink" in found
    assert "2 call keep proven store/more.go:Store.keep" in found


def test_a_test_package_of_the_same_folder_is_another_package():
    found = edges(MODULE, "store/store_test.go")
    assert "3 call New proven store/store.go:New" in found
    alone = edges({"a/a.go": "package a\nfunc Only() {}\n", "a/b.go": "package b\nfunc f() { Only() }\n"}, "a/b.go")
    assert alone == ["2 call Only named a/a.go:Only"]


def test_local_names_are_no_references():
    source = (
        "package p\nfunc f(a, b int) (c error) {\n\tx, y := a, b\n\tfor i, v := range []int{x, y} { _, _ = i, v }\n"
        "\tswitch t := any(x).(type) { case int: _ = t }\n\tselect { case m := <-ch: _ = m }\n\tg := func(z int) int { return z }\n"
        "\tg(1)\n\treturn c\n}\nfunc G[T any](v T) T { var w T = v; return w }\n"
    )
    facts = facts_of("a.go", source)
    assert [facts.final_name(facts.targets[one.target]) for one in facts.references()] == ["ch"]


@pytest.mark.parametrize(
    "settings",
    [b"\xff\xfe module", b"module\n", b"replace a => ../../../etc\nmodule m\n", b"module " + b"x" * 100_000 + b"\n"],
    ids=repr,
)
def test_hostile_module_files_are_ignored(settings):
    facts = {"a/a.go": facts_of("a/a.go", 'package a\nimport "m/b"\nfunc f() { b.X() }\n')}
    sources = MemorySources(facts, {"a/go.mod": settings})
    assert all(Resolver(sources).resolve("a/a.go", one).grade is None for one in facts["a/a.go"].targets)


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [
        b"package p\nfunc f() {\n" + b"x := x\n" * 40_000 + b"}\n",
        b"package p\nvar x = " + b"T{a:" * 20_000,
        b"package p\nvar x = []T{" + b"{A: 1},\n" * 60_000 + b"}\n",
        b"package p\ntype T struct {" + b"a struct {" * 20_000,
        b"package p\nfunc f() { a" + b".b()" * 60_000 + b" }\n",
    ],
    ids=lambda data: repr(data[:30]),
)
def test_a_hostile_file_takes_bounded_time(data):
    begun = time.process_time()
    parse_source("a.go", data)
    assert time.process_time() - begun < 20
