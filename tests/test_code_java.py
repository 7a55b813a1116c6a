"""Java in the code map: definitions, and references resolved across the files of small projects."""

from __future__ import annotations

import time

import pytest

from code_answers import ctags_lines, resolved, walk_all
from periplus.code.extraction.parse import parse_source

pytestmark = pytest.mark.quick


DEFINITIONS = (
    b"package a.b;\n"
    b"/** The doc. */\n"
    b"@Deprecated\n"
    b"public class Box<T> extends Base implements I, J<T> {\n"
    b"  private final int one = 1, two;\n"
    b"  Box(int a) {}\n"
    b"  @Test\n"
    b"  public void\n"
    b"      run() { int local = 1; }\n"
    b"  interface Part { int SIZE = 1; void part(); }\n"
    b"  enum Kind { ONE, TWO { void over() {} }; int code; Kind() {} }\n"
    b"  record Pair(int left, String right) { Pair { } }\n"
    b"  @interface Mark { int value() default 1; }\n"
    b"}\n"
    b"class BoxTest {}\n"
)


def test_definitions_of_all_kinds_have_the_line_of_their_name():
    parsed = parse_source("a/Box.java", DEFINITIONS)
    assert parsed.state == "parsed"
    found = [f"{one.kind} {one.qualified} {one.line}" for one in parsed.facts.definitions()]
    assert found == [
        "class Box 4", "field Box.one 5", "field Box.two 5", "constructor Box.Box 6", "method Box.run 9", "interface Box.Part 10",
        "field Box.Part.SIZE 10", "method Box.Part.part 10", "enum Box.Kind 11", "value Box.Kind.ONE 11", "value Box.Kind.TWO 11",
        "method Box.Kind.TWO.over 11", "field Box.Kind.code 11", "constructor Box.Kind.Kind 11", "record Box.Pair 12",
        "property Box.Pair.left 12", "property Box.Pair.right 12", "constructor Box.Pair.Pair 12", "annotation Box.Mark 13",
        "method Box.Mark.value 13", "class BoxTest 15",
    ]  # fmt: skip


def test_signature_doc_visibility_and_tests():
    parsed = parse_source("Box.java", DEFINITIONS)
    assert parsed.facts.package == "a.b"
    by_name = {one.qualified: one for one in parsed.facts.definitions()}
    box = by_name["Box"]
    assert DEFINITIONS[box.head_byte : box.body_byte] == b"public class Box<T> extends Base implements I, J<T> "
    assert DEFINITIONS[box.doc_byte :].startswith(b"/** The doc. */")
    assert (box.start_line, box.end_line) == (3, 14)
    run = by_name["Box.run"]
    assert DEFINITIONS[run.head_byte : run.body_byte] == b"public void\n      run() "
    assert (run.start_line, run.is_exported, run.is_test) == (7, True, True)
    exported = {name for name, one in by_name.items() if one.is_exported}
    assert exported == {
        "Box", "Box.run", "Box.Part.SIZE", "Box.Part.part", "Box.Kind.ONE", "Box.Kind.TWO", "Box.Pair.left", "Box.Pair.right",
        "Box.Mark.value",
    }  # fmt: skip
    assert {name for name, one in by_name.items() if one.is_test} == {"Box.run", "BoxTest"}


PROJECT = {
    "core/src/a/Store.java": (
        "package a;\n"
        "public class Store extends Base {\n"
        "  public static final int MAX = 3;\n"
        "  public static Store open() { return new Store(); }\n"
        "  public Item item;\n"
        "  public Item load(String key) { return item; }\n"
        "  int size; int size() { return size; }\n"
        "  public static class Key { public String text() { return null; } }\n"
        "}\n"
    ),
    "core/src/a/Base.java": "package a;\nclass Base {\n  void close() {}\n  static class Slot {}\n}\n",
    "core/src/a/Item.java": "package a;\npublic class Item {\n  void use() {}\n  void only() {}\n}\n",
    "core/src/b/Item.java": "package b;\npublic class Item { void other() {} }\n",
    "core/src/c/Shape.java": "package c;\npublic enum Shape { ROUND; void draw() {} }\n",
    "core/src/c/Point.java": "package c;\npublic record Point(int x, Shape shape) { static Point zero() { return null; } }\n",
}
USES = [
    # imports, packages, free names
    ("import a.Store;\nclass U { Store s; }", 2, ["Store -> proven core/src/a/Store.java:Store"]),
    ("import a.*;\nclass U { Store s; }", 2, ["Store -> proven core/src/a/Store.java:Store"]),
    ("import a.*;\nimport b.*;\nclass U { Item s; }", 3, ["Item -> likely core/src/a/Item.java:Item"]),
    ("import static a.Store.MAX;\nclass U { int s = MAX; }", 2, ["MAX -> proven core/src/a/Store.java:Store.MAX"]),
    ("import static a.Store.*;\nclass U { Object s = open(); }", 2, ["open -> proven core/src/a/Store.java:Store.open"]),
    ("import a.Store.Key;\nclass U { Key s; }", 2, ["Key -> proven core/src/a/Store.java:Store.Key"]),
    ("import a.Store;\nclass U { Store.Key s; }", 2,
     ["Key -> proven core/src/a/Store.java:Store.Key", "Store -> proven core/src/a/Store.java:Store"]),
    ("import java.util.List;\nclass U { List<Widget> s; }", 2, ["List -> external", "Widget -> external"]),
    ("package a;\nclass U { Item s; }", 2, ["Item -> proven core/src/a/Item.java:Item"]),
    ("class U { Object s = a.Store.MAX; }", 1,
     ["MAX -> proven core/src/a/Store.java:Store.MAX", "Store -> proven core/src/a/Store.java:Store", "a -> unknown"]),
    # members
    ("import a.Store;\nclass U { void u(Store s) { s.load(null).use(); } }", 2,
     ["Store -> proven core/src/a/Store.java:Store", "load -> likely core/src/a/Store.java:Store.load",
      "use -> likely core/src/a/Item.java:Item.use"]),
    ("import a.Store;\nclass U { void u() { var s = Store.open();\n s.item.use(); } }", 3,
     ["item -> likely core/src/a/Store.java:Store.item", "use -> likely core/src/a/Item.java:Item.use"]),
    ("import a.Store;\nclass U { void u(Object o) { if (o instanceof Store s)\n s.close(); } }", 3,
     ["close -> likely core/src/a/Base.java:Base.close"]),
    ("import a.Store;\nclass U { void u(Object o) {\n((Store) o).close(); } }", 3,
     ["Store -> proven core/src/a/Store.java:Store", "close -> likely core/src/a/Base.java:Base.close"]),
    ("import a.*;\nclass U { void u(java.util.List<Item> all) { for (Item one : all)\n one.use(); } }", 3,
     ["use -> likely core/src/a/Item.java:Item.use"]),
    ("class U { void u(Unknown x) {\n x.only(); x.toString(); y(); } void y() {} }", 2,
     ["only -> external", "toString -> external", "y -> proven U.java:U.y"]),
    ("class U { void u() {\n f(it -> it.only()); } }", 2, ["f -> unknown", "only -> likely core/src/a/Item.java:Item.only"]),
    # methods and values have names of their own
    ("package a;\nclass U { void u(Store s) {\n int size = s.size(); int x = s.size; } }", 3,
     ["size -> likely core/src/a/Store.java:Store.size"]),
    ("class U { int size; int size() { int size = 1;\n return size(); } }", 2, ["size -> proven U.java:U.size"]),
    ("import c.Point;\nclass U { void u(Point p) {\n p.shape().draw(); } }", 3,
     ["draw -> likely core/src/c/Shape.java:Shape.draw", "shape -> likely core/src/c/Point.java:Point.shape"]),
    ("import c.Shape;\nclass U { void u() {\n Shape.ROUND.draw(); } }", 3,
     ["ROUND -> proven core/src/c/Shape.java:Shape.ROUND", "Shape -> proven core/src/c/Shape.java:Shape",
      "draw -> likely core/src/c/Shape.java:Shape.draw"]),
    # the instance, without being written
    ("package a;\nclass U extends Store { void u() {\n close(); super.close(); this.close(); } }", 3,
     ["close -> proven core/src/a/Base.java:Base.close"]),
    ("package a;\nclass U extends Store { Slot s; }", 2,
     ["Slot -> proven core/src/a/Base.java:Base.Slot", "Store -> proven core/src/a/Store.java:Store"]),
    ("class U { void go() {} class In { void u() {\n go(); U.this.go(); } } }", 2,
     ["U -> proven U.java:U", "go -> likely U.java:U.go", "go -> proven U.java:U.go"]),
    ("package a;\nclass U { void close() {} class In extends Base { void u() {\n close(); } } }", 3,
     ["close -> proven core/src/a/Base.java:Base.close"]),
    ("package a;\nclass U { void u() { new Base() { void in() {\n close(); } }; } }", 3,
     ["close -> likely core/src/a/Base.java:Base.close"]),
    ("class U extends java.util.Observable {\n void u() { notifyObservers(); } }", 2, ["notifyObservers -> external"]),
    ("package a;\nclass U { Object f = Store::open; }", 2,
     ["Store -> proven core/src/a/Store.java:Store", "open -> proven core/src/a/Store.java:Store.open"]),
    ("package a;\nclass U<T extends Item> { void u(T t) {\n t.use(); } }", 3, ["use -> likely core/src/a/Item.java:Item.use"]),
    ("package a;\nclass U { void u() { int Item = 1; label: for (;;) { break label; }\n f(Item); } void f(int x) {} }", 3,
     ["f -> proven U.java:U.f"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "expected"), USES, ids=lambda value: value if isinstance(value, str) else "")
def test_references_are_resolved_across_files(text, line, expected):
    assert resolved({**PROJECT, "U.java": text}, "U.java", line) == expected


def test_of_two_files_that_define_a_type_the_nearer_is_likely():
    files = {
        "x/src/a/T.java": "package a;\nclass T {}\n",
        "y/src/a/T.java": "package a;\nclass T {}\n",
        "y/test/a/U.java": "package a;\nclass U { T t; }\n",
    }
    assert resolved(files, "y/test/a/U.java", 2) == ["T -> likely y/src/a/T.java:T"]


def test_a_circle_of_bases_ends():
    files = {"A.java": "class A extends B { void a() {\n none(); } }\n", "B.java": "class B extends A {}\n"}
    assert resolved(files, "A.java", 2) == ["none -> unknown"]


@pytest.mark.parametrize(
    "data",
    [
        b"class A {" * 3_000,
        b"import a." + b"b." * 5_000 + b"C;\nclass U extends C {}\n",
        b"class A { Object x = " + b"new B() { Object y = " * 1_000,
        b"class A { void f() { a" + b".b()" * 5_000 + b"; } }",
        b"class A<T extends A<" * 1_000,
        b"package ;import ;import static *;class {}enum { , ; }record(int){}interface I extends { int = ; }",
    ],
    ids=lambda data: repr(data[:16]),
)
def test_hostile_files_take_bounded_time(data):
    begun = time.process_time()
    assert walk_all("A.java", data) in ("parsed", "errors", "failed")
    assert time.process_time() - begun < 20


def test_definitions_stand_where_universal_ctags_sees_them(tmp_path):
    path = tmp_path / "Box.java"
    path.write_bytes(DEFINITIONS)
    ours = {(one.name, one.line) for one in parse_source("Box.java", DEFINITIONS).facts.definitions()}
    theirs = ctags_lines(path, "Java", "acegimf")
    assert theirs
    assert theirs - ours == set()
