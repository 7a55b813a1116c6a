"""Kotlin in the code map: definitions, and references resolved across the files of small projects, Java among them."""

from __future__ import annotations

import time

import pytest

from code_answers import ctags_lines, resolved, walk_all
from periplus.code.extraction.parse import parse_source

pytestmark = pytest.mark.quick

DEFINITIONS = b"""package a.b

/** The doc. */
@Deprecated("no")
internal open class Box<T>(val one: Int, private var two: String = "", three: Int) : Base(three), I {
  companion object {
    const val SIZE = 1
    fun make(): Box<Int> = TODO()
  }
  constructor(a: Int) : this(a, "", 1)
  val late by lazy { 1 }
  private fun hidden() {
    val local = 1
    fun inner() {}
  }
  enum class Kind(val code: Int) {
    ONE(1), TWO(2);
    fun f() {}
  }
}
interface I {
  fun part()
}
object Single
typealias Handler = (Int) -> Unit
const val MAX = 3
fun String.shout(): String = this
val String.quiet: String get() = this
@Test
fun `a name with spaces`() {}
annotation class Mark
"""


def test_definitions_of_all_kinds_have_the_line_of_their_name():
    parsed = parse_source("Box.kt", DEFINITIONS)
    assert parsed.state == "parsed"
    found = [f"{one.kind} {one.qualified} {one.line}" for one in parsed.facts.definitions()]
    assert found == [
        "class Box 5", "property Box.one 5", "property Box.two 5", "object Box.Companion 6", "property Box.Companion.SIZE 7",
        "method Box.Companion.make 8", "constructor Box.constructor 10", "property Box.late 11", "method Box.hidden 12",
        "function Box.hidden.inner 14", "enum Box.Kind 16", "property Box.Kind.code 16", "value Box.Kind.ONE 17", "value Box.Kind.TWO 17",
        "method Box.Kind.f 18", "interface I 21", "method I.part 22", "object Single 24", "type Handler 25", "property MAX 26",
        "function String.shout 27", "property String.quiet 28", "function a name with spaces 30", "annotation Mark 31",
    ]  # fmt: skip


def test_signature_doc_visibility_and_tests():
    parsed = parse_source("Box.kt", DEFINITIONS)
    assert parsed.facts.package == "a.b"
    by_name = {one.qualified: one for one in parsed.facts.definitions()}
    box = by_name["Box"]
    assert DEFINITIONS[box.head_byte : box.body_byte].startswith(b"internal open class Box<T>(")
    assert DEFINITIONS[box.head_byte : box.body_byte].endswith(b"Base(three), I ")
    assert DEFINITIONS[box.doc_byte :].startswith(b"/** The doc. */")
    assert (box.start_line, box.end_line) == (4, 20)
    assert {name for name, one in by_name.items() if not one.is_exported} == {"Box", "Box.two", "Box.hidden"}
    assert {name for name, one in by_name.items() if one.is_test} == {"a name with spaces"}


PROJECT = {
    "src/Store.kt": """package a
open class Store(val item: Item, key: String) : Base() {
  companion object {
    const val MAX = 3
    fun make(): Store = TODO()
  }
  fun load(key: String): Item = item
  fun with() = apply { load("") }
  val size: Int = 1
  fun size() = 2
}
object Only {
  fun go() {}
}
fun helper(): Item = TODO()
fun String.loud() = Item()
fun Item.grow() = this
""",
    "src/Base.kt": "package a\nopen class Base {\n  fun close() {}\n}\nclass Item {\n  fun use() {}\n}\n",
    "src/more.kt": "package b\nfun other() {}\nfun Int.plus2() {}\nopen class Gear {\n  fun turn() {}\n}\n",
    "java/J.java": "package j;\npublic class J { public static J make() { return null; } public void run() {} }\n",
}
USES = [
    ("import a.Store\nval s: Store = x", 2, ["Store -> proven src/Store.kt:Store", "x -> unknown"]),
    ("import a.Store as S\nval s: S? = null", 2, ["Store -> proven src/Store.kt:Store"]),
    ("import a.*\nval s = Store(x, y).load(z)", 2,
     ["Store -> proven src/Store.kt:Store", "load -> likely src/Store.kt:Store.load", "x -> unknown", "y -> unknown", "z -> unknown"]),
    ("import a.helper\nfun u() {\n helper().use()\n}", 3, ["helper -> proven src/Store.kt:helper", "use -> likely src/Base.kt:Item.use"]),
    ("package a\nfun u() {\n helper().use()\n}", 3, ["helper -> proven src/Store.kt:helper", "use -> likely src/Base.kt:Item.use"]),
    ("val s = a.Store.MAX", 1,
     ["MAX -> proven src/Store.kt:Store.Companion.MAX", "Store -> proven src/Store.kt:Store", "a -> unknown"]),
    ("import a.Store\nfun u() {\n Store.make().close()\n}", 3,
     ["Store -> proven src/Store.kt:Store", "close -> likely src/Base.kt:Base.close", "make -> proven src/Store.kt:Store.Companion.make"]),
    ("import a.Store.Companion.make\nfun u() {\n make()\n}", 3, ["make -> proven src/Store.kt:Store.Companion.make"]),
    ("import a.Only.go\nfun u() {\n go()\n}", 3, ["go -> proven src/Store.kt:Only.go"]),
    ("import kotlinx.io.Sink\nfun u(s: Sink) {\n s.flush(); Sink::class.java\n}", 3, ["Sink -> external", "flush -> external"]),
    ("fun u(s: Widget) {}", 1, ["Widget -> external"]),
    # types of values
    ("import a.Store\nclass U(private val s: Store) { fun u() {\n s.item.use()\n} }", 3,
     ["item -> likely src/Store.kt:Store.item", "s -> proven U.kt:U.s", "use -> likely src/Base.kt:Item.use"]),
    ('import a.Store\nclass U {\n val s by lazy { Store(1, 2) }\n fun u() = s.load("")\n}', 4,
     ["load -> likely src/Store.kt:Store.load", "s -> proven U.kt:U.s"]),
    ('import a.Store\nfun u(s: Any) {\n (s as? Store)?.load("")!!.use()\n}', 3,
     ["Store -> proven src/Store.kt:Store", "load -> likely src/Store.kt:Store.load", "use -> likely src/Base.kt:Item.use"]),
    ('import a.Store\nfun u(s: Store) {\n s.with().load(""); s.also { it.x }.load("")\n}', 3,
     ["also -> unknown", "load -> likely src/Store.kt:Store.load", "with -> likely src/Store.kt:Store.with", "x -> unknown"]),
    ("import a.Store\nfun u(s: Store) {\n s.size; s.size()\n}", 3, ["size -> likely src/Store.kt:Store.size"]),
    ("import a.Store\nfun u() {\n when (val s = Store.make()) { else -> s.close() }\n}", 3,
     ["Store -> proven src/Store.kt:Store", "close -> likely src/Base.kt:Base.close", "make -> proven src/Store.kt:Store.Companion.make"]),
    # extensions
    ("import a.loud\nfun u(s: String) {\n s.loud().use()\n}", 3, ["loud -> likely src/Store.kt:String.loud", "use -> likely src/Base.kt:Item.use"]),
    ("package a\nfun u() {\n Item().grow()\n}", 3, ["Item -> proven src/Base.kt:Item", "grow -> likely src/Store.kt:Item.grow"]),
    ('package a\nfun Store.more() {\n load(""); this.close()\n}', 3,
     ["close -> likely src/Base.kt:Base.close", "load -> likely src/Store.kt:Store.load"]),
    # the instance, without being written
    ('import a.Store\nclass U : Store(1, 2) { fun u() {\n close(); super.close(); this.load(""); make()\n} }', 3,
     ["close -> proven src/Base.kt:Base.close", "load -> proven src/Store.kt:Store.load",
      "make -> proven src/Store.kt:Store.Companion.make"]),
    ("class U {\n fun go() {}\n inner class In {\n fun u() {\n  go()\n }\n}\n}", 5,
     ["go -> proven U.kt:U.go"]),
    ("class U {\n fun go() {}\n fun u() {\n  a.apply {\n   this@U.go()\n  }\n }\n}", 5, ["go -> likely U.kt:U.go"]),
    ("import b.Gear\nfun u() { val g = object : Gear() { fun x() {\n turn()\n} } }", 3, ["turn -> likely src/more.kt:Gear.turn"]),
    ("fun u(handler: () -> Unit) {\n handler(); val it2 = 1; list.map { it.x }; it2.y\n}", 2,
     ["list -> unknown", "map -> unknown", "x -> unknown", "y -> unknown"]),
    # Java and Kotlin see each other
    ("import j.J\nfun u() {\n J.make().run()\n}", 3,
     ["J -> proven java/J.java:J", "make -> proven java/J.java:J.make", "run -> likely java/J.java:J.run"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "expected"), USES, ids=lambda value: value if isinstance(value, str) else "")
def test_references_are_resolved_across_files(text, line, expected):
    assert resolved({**PROJECT, "U.kt": text}, "U.kt", line) == expected


def test_java_sees_functions_of_a_file_and_members_of_companions():
    text = "package j;\nimport b.MoreKt;\nimport a.Store;\nclass U { void u() { MoreKt.other();\n Store.make(); Store.Companion.make(); } }\n"
    files = {**PROJECT, "java/U.java": text}
    assert resolved(files, "java/U.java", 4) == ["MoreKt -> proven src/more.kt:", "other -> proven src/more.kt:other"]
    assert resolved(files, "java/U.java", 5) == [
        "Companion -> proven src/Store.kt:Store.Companion",
        "Store -> proven src/Store.kt:Store",
        "make -> proven src/Store.kt:Store.Companion.make",
    ]


def test_overloads_in_several_files_are_likely():
    files = {
        "A.kt": "package a\nfun f(x: Int) {}\n",
        "B.kt": "package a\nfun f(x: String) {}\n",
        "U.kt": "package a\nfun u() = f(1)\n",
    }
    assert resolved(files, "U.kt", 2) == ["f -> likely A.kt:f B.kt:f"]


def test_a_class_that_the_grammar_takes_for_an_expression_is_one():
    data = b'@A("x")\n@B\npublic annotation class Mark\n\n/** Two. */\n@A(1)\n@B\nopen class Two {\n  fun f() {}\n}\n'
    found = {(one.kind, one.qualified, one.line) for one in parse_source("A.kt", data).facts.definitions()}
    assert found == {("annotation", "Mark", 3), ("class", "Two", 8), ("method", "Two.f", 9)}


def test_a_line_that_begins_like_an_operator_is_understood():
    data = b"class A {\n  fun f() {\n    val in1 = g()\n    in1.close()\n  }\n  fun h() {}\n}\n"
    parsed = parse_source("A.kt", data)
    assert parsed.state == "parsed"
    assert [one.qualified for one in parsed.facts.definitions()] == ["A", "A.f", "A.h"]


@pytest.mark.parametrize(
    "data",
    [
        b"class A {" * 3_000,
        b"import a." + b"b." * 5_000 + b"C\nclass U : C()\n",
        b"val x = object : A { val y = " * 1_000,
        b"fun f() { a" + b".b()" * 5_000 + b" }",
        b"val x = a" + b" to b" * 5_000,
        b"fun <T : A<" * 1_000,
        b"package \nimport \nimport *\nclass {}\nenum class { , ; }\nfun ()\nval = \ncompanion object\nobject : {}\nfun .x() {}\n",
    ],
    ids=lambda data: repr(data[:16]),
)
def test_hostile_files_take_bounded_time(data):
    begun = time.process_time()
    assert walk_all("A.kt", data) in ("parsed", "errors", "failed")
    assert time.process_time() - begun < 20


def test_definitions_stand_where_universal_ctags_sees_them(tmp_path):
    path = tmp_path / "Box.kt"
    data = DEFINITIONS.replace(b"`a name with spaces`", b"plain")
    path.write_bytes(data)
    ours = {(one.name, one.line) for one in parse_source("Box.kt", data).facts.definitions()}
    theirs = {(name, line) for name, line in ctags_lines(path, "Kotlin", "icomT") if not name.startswith("<")}
    assert len(theirs) > 10
    assert theirs - ours == set()
