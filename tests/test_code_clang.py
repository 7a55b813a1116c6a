"""C and C++: definitions, and references resolved through includes to declarations and definitions."""

from __future__ import annotations

import json

import pytest

from periplus.code.extraction.parse import parse_source
from periplus.code.languages.clang import header_row
from periplus.code.languages.clang_text import blank_unreadable
from periplus.code.resolution.dependencies import Recorder
from periplus.code.resolution.resolver import Resolver
from periplus.code.resolution.sources import MemorySources

pytestmark = pytest.mark.quick

DEFINITIONS = {
    "functions.c": (
        """\
        int plain(void) { return 1; }
        static inline struct node *made(const struct node *p, int sizes[]) { return 0; }
        int (*handler(int sig))(int) { return 0; }
        int old(a, b) int a; char *b; { return a; }
        extern int declared(int, char *);
        ATTRIBUTE int marked(void) { return 0; }
        int (parenthesized)(int x) { return x; }
        """,
        ("function plain 1, function made 2 -, function handler 3, function old 4, function declared 5, function marked 6, "
        "function parenthesized 7"),
    ),
    "types.c": (
        """\
        typedef struct node { int a; struct node *next, *prev; int (*call)(int); unsigned bits : 3; } Node;
        typedef struct { int q; } Plain, *PlainPointer;
        typedef int (*callback)(int);
        enum color { RED, GREEN = 2 };
        typedef enum { UP } Direction;
        union both { int i; float f; };
        struct forward;
        struct outer { struct { int x; }; union { int y; } named; struct inner { int z; } in; };
        enum { LOOSE = 1 };
        """,
        ("type Node 1, struct node 1, field node.a 1, field node.next 1, field node.prev 1, field node.call 1, field node.bits 1, "
        "type PlainPointer 2, struct Plain 2, field Plain.q 2, type callback 3, enum color 4, constant color.RED 4, constant color.GREEN 4, "
        "enum Direction 5, constant Direction.UP 5, union both 6, field both.i 6, field both.f 6, struct outer 8, field outer.x 8, "
        "field outer.named 8, field outer.named.y 8, field outer.in 8, struct outer.inner 8, field outer.inner.z 8, constant LOOSE 9"),
    ),
    "values.c": (
        """\
        #define MAX 3
        #define SQUARE(x) ((x) * (x))
        static int counter = MAX, other;
        extern const char *names[];
        struct point { int x; } origin = { 0 };
        void f(void) { int local; static int kept; for (int i = 0; i < 3; i++) { } }
        """,
        ("macro MAX 1, macro SQUARE 2, value counter 3 -, value other 3 -, value names 4, value origin 5, struct point 5, "
        "field point.x 5, function f 6"),
    ),
    "classes.cpp": (
        """\
        namespace a::b {
        class Shape : public Base<int> {
         public:
          Shape(int x) : x_(x) {}
          ~Shape();
          virtual void draw() const override { }
          static Shape *make();
          Shape operator+(const Shape &o);
          operator bool() const;
          enum class Kind { Round };
          using Number = int;
         private:
          int x_ = 0;
        };
        template <typename T> struct Box { T value; T get() { return value; } };
        template <> struct Box<int> { int get(); };
        }
        template <typename T> void a::b::Shape::go(T q) { }
        a::b::Shape::~Shape() {}
        int a::b::Shape::count = 3;
        bool operator==(const A &x, const A &y) { return true; }
        extern "C" { int exported(void); }
        auto later(int a) -> int { return a; }
        namespace { int hidden; }
        using Alias = a::b::Shape;
        """,
        ("namespace a.b 1, class a.b.Shape 2, constructor a.b.Shape.Shape 4, method a.b.Shape.~Shape 5, method a.b.Shape.draw 6, "
        "method a.b.Shape.make 7, method a.b.Shape.operator+ 8, method a.b.Shape.operator bool 9, enum a.b.Shape.Kind 10, "
        "constant a.b.Shape.Kind.Round 10, type a.b.Shape.Number 11, field a.b.Shape.x_ 13, struct a.b.Box 15, field a.b.Box.value 15, "
        "method a.b.Box.get 15, struct a.b.Box 16, method a.b.Box.get 16, method a.b.Shape.go 18, method a.b.Shape.~Shape 19, "
        "value a.b.Shape.count 20, function operator== 21, function exported 22, function later 23, value hidden 24, type Alias 25"),
    ),
    "slash.cpp": (
        "struct V { V operator/(int); };\nV V::operator/(int x) { return *this; }\n",
        "struct V 1, method V.operator/ 1, method V.operator/ 2",
    ),
    "tests.cc": (
        'TEST_F(Suite, Name) { EXPECT_EQ(1, 1); }\nTEST_CASE("adds") { }\n',
        "test Suite.Name 1, test adds 2",
    ),
    "tests.c": ("TEST_BEGIN(adds) {\n}\nTEST_END\n\nint main(void) { return 0; }\n", "test adds 1, function main 5"),
    "macros.cpp": (
        """\
        class EXPORT Button : public Widget {
          Q_OBJECT
          CONSTEXPR Button(int x) : x_(x) {}
          void press() NOTHROW { }
          int x_ GUARDED_BY(mutex_);
        };
        BEGIN_NAMESPACE

        EXPORT class Other final : Widget { };
        INLINE auto f() -> int { return 1; }
        END_NAMESPACE
        """,
        ("class Button 1, constructor Button.Button 3, method Button.press 4, field Button.x_ 5, class Other 9, function f 10"),
    ),
    "groups.c": (
        """\
        #ifdef __cplusplus
        extern "C" {
        #endif
        int first(int a) {
        #ifdef X
          if (a) {
        #else
          if (!a) {
        #endif
            return 1;
          }
          return 0;
        }
        int second(void) {
          return
        #if X
            1
        #else
            2
        #endif
            ;
        }
        #if A
        int third(void) { return 1; }
        #else
        int third(void) { return 2; }
        #endif
        #ifdef __cplusplus
        }
        #endif
        int last(void) { return 0; }
        """,
        ("function first 4, function second 14, function third 24, function third 26, function last 31"),
    ),
}  # fmt: skip


def facts_of(path, text):
    parsed = parse_source(path, text.encode())
    assert parsed.facts is not None, parsed.why_not
    return parsed.facts


def unindented(text):
    return "\n".join(line.removeprefix("        ") for line in text.split("\n"))


@pytest.mark.parametrize("path", sorted(DEFINITIONS))
def test_definitions_have_kinds_names_and_lines(path):
    text, expected = DEFINITIONS[path]
    found = facts_of(path, unindented(text)).definitions()
    assert (
        ", ".join(f"{one.kind} {one.qualified} {one.line}{'' if one.is_exported else ' -'}" for one in found)
        == expected
    )


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("int f(void);\n", "c"),
        ("class A;\n", "cpp"),
        ("namespace a { }\n", "cpp"),
        ("template <class T> T f();\n", "cpp"),
        ("std::string f();\n", "cpp"),
        ("struct class_of { int new; };\n", "c"),
        ("/* the class of things */\nint f(int class_id);\n", "c"),
    ],
)
def test_a_header_is_of_the_language_that_its_contents_show(text, language):
    assert facts_of("a.h", text).language == language


PROJECT = {
    "include/lib/list.h": (
        "#ifndef LIST_H\n#define LIST_H\nstruct list { struct list *next; int size; };\ntypedef struct list List;\n"
        "List *list_new(void);\nint list_size(const List *l);\nextern int list_count;\n#define LIST_EACH(l) for (; l; l = l->next)\n"
        "static inline int list_empty(List *l) { return list_size(l) == 0; }\nenum { LIST_MAX = 9 };\n#endif\n"
    ),
    "src/list.c": (
        "#include <lib/list.h>\n#include <stdlib.h>\nint list_count;\nstatic int helper(void) { return 0; }\n"
        "List *list_new(void) { helper(); return malloc(sizeof(List)); }\nint list_size(const List *l) { return l->size; }\n"
    ),
    "src/main.c": (
        '#include "all.h"\nstatic int helper(void) { return 1; }\nint main(void) {\n  List *l = list_new();\n  helper();\n'
        "  l->next->size = LIST_MAX;\n  LIST_EACH(l) { }\n  list_count++;\n  return list_empty(l) + list_size(l) + missing();\n}\n"
    ),
    "src/all.h": '#include "lib/list.h"\n',
    "src/twice_a.c": "int twice(void) { return 1; }\n",
    "src/twice_b.c": "int twice(void) { return 2; }\n",
    "src/user.c": "int twice(void);\nint use(void) { return twice(); }\n",
    "src/unnamed.c": "static struct { struct { int x; } place; } kept;\nint f(void) { return kept.place.x; }\n",
    "cc/shape.h": (
        "#pragma once\nnamespace geo {\nclass Base { public: void touch(); };\nclass Shape : public Base {\n public:\n  Shape(int s);\n"
        "  void draw();\n  Shape *next();\n  int size_;\n};\nShape make_shape();\n}\n"
    ),
    "cc/shape.cpp": (
        '#include "shape.h"\nnamespace geo {\nstatic int area() { return 1; }\nShape::Shape(int s) : size_(s) {}\nvoid Shape::draw() {\n'
        "  touch();\n  this->size_ = area();\n  next()->draw();\n}\nvoid Base::touch() {}\nShape make_shape() { return Shape(1); }\n}\n"
    ),
    "cc/owned.cpp": (
        '#include "shape.h"\nvoid run(std::unique_ptr<geo::Shape> one, const shared_ptr<geo::Shape> &two) {\n  one->draw();\n'
        "  two->draw();\n}\n"
    ),
    "cc/use.cpp": (
        '#include "shape.h"\nusing namespace geo;\nvoid run(Shape *given) {\n  auto one = new Shape(2);\n  one->draw();\n'
        "  geo::make_shape().touch();\n  given->next()->size_ = 1;\n  auto two = geo::Shape(3);\n  two.draw();\n  make_shape();\n"
        "  ((Shape *)given)->draw();\n}\n"
    ),
}  # fmt: skip


def resolved(project, path, line, name, others=None):
    """Return the places that ``name`` in a line refers to, and their grade."""
    sources = MemorySources({at: facts_of(at, text) for at, text in project.items()}, others)
    file = sources.file(path)
    resolver = Resolver(sources)
    found = {
        resolver.resolve(path, file.facts.targets[one.target])
        for one in file.facts.references()
        if one.line == line and file.facts.final_name(file.facts.targets[one.target]) == name
    }
    assert len(found) == 1, (name, line, found)
    (one,) = found
    places = sorted(f"{at.path}:{sources.file(at.path).definitions[at.symbol].line}" for at in one.found)
    return " ".join((one.grade or ("external" if one.is_external else "none"), *places))


@pytest.mark.parametrize(
    ("path", "line", "name", "expected"),
    [
        ("src/main.c", 4, "list_new", "proven include/lib/list.h:5 src/list.c:5"),
        ("src/main.c", 4, "List", "proven include/lib/list.h:4"),
        ("src/main.c", 5, "helper", "proven src/main.c:2"),
        ("src/main.c", 6, "next", "likely include/lib/list.h:3"),
        ("src/main.c", 6, "size", "likely include/lib/list.h:3"),
        ("src/main.c", 6, "LIST_MAX", "proven include/lib/list.h:10"),
        ("src/main.c", 7, "LIST_EACH", "proven include/lib/list.h:8"),
        ("src/main.c", 8, "list_count", "proven include/lib/list.h:7 src/list.c:3"),
        ("src/main.c", 9, "list_empty", "proven include/lib/list.h:9"),
        ("src/main.c", 9, "list_size", "proven include/lib/list.h:6 src/list.c:6"),
        ("src/main.c", 9, "missing", "none"),
        ("src/list.c", 5, "malloc", "external"),
        ("src/list.c", 5, "helper", "proven src/list.c:4"),
        ("include/lib/list.h", 9, "list_size", "proven include/lib/list.h:6 src/list.c:6"),
        ("src/user.c", 2, "twice", "likely src/twice_a.c:1 src/twice_b.c:1 src/user.c:1"),
        ("src/unnamed.c", 2, "place", "proven src/unnamed.c:1"),
        ("src/unnamed.c", 2, "x", "proven src/unnamed.c:1"),
        ("cc/shape.cpp", 6, "touch", "proven cc/shape.cpp:10 cc/shape.h:3"),
        ("cc/shape.cpp", 7, "size_", "proven cc/shape.h:9"),
        ("cc/shape.cpp", 7, "area", "proven cc/shape.cpp:3"),
        ("cc/shape.cpp", 8, "next", "proven cc/shape.h:8"),
        ("cc/shape.cpp", 8, "draw", "likely cc/shape.cpp:5 cc/shape.h:7"),
        ("cc/use.cpp", 4, "Shape", "proven cc/shape.h:4"),
        ("cc/use.cpp", 5, "draw", "likely cc/shape.cpp:5 cc/shape.h:7"),
        ("cc/use.cpp", 6, "make_shape", "proven cc/shape.cpp:11 cc/shape.h:11"),
        ("cc/use.cpp", 6, "touch", "likely cc/shape.cpp:10 cc/shape.h:3"),
        ("cc/use.cpp", 7, "size_", "likely cc/shape.h:9"),
        ("cc/use.cpp", 9, "draw", "likely cc/shape.cpp:5 cc/shape.h:7"),
        ("cc/use.cpp", 10, "make_shape", "proven cc/shape.cpp:11 cc/shape.h:11"),
        ("cc/owned.cpp", 3, "draw", "likely cc/shape.cpp:5 cc/shape.h:7"),
        ("cc/owned.cpp", 4, "draw", "likely cc/shape.cpp:5 cc/shape.h:7"),
        ("cc/use.cpp", 11, "draw", "likely cc/shape.cpp:5 cc/shape.h:7"),
    ],
)
def test_references_are_resolved_with_their_grade(path, line, name, expected):
    assert resolved(PROJECT, path, line, name) == expected


def test_folders_of_includes_are_read_from_the_commands_of_the_compiler():
    project = {
        "a/one/x.h": "int wanted(void);\n",
        "b/two/x.h": "int wanted(void);\n",
        "main.c": "#include <x.h>\nint main(void) { return wanted(); }\n",
    }
    assert resolved(project, "main.c", 2, "wanted") != "proven b/two/x.h:1"
    for command in ({"command": "cc -Ib/two -c main.c"}, {"arguments": ["cc", "-I", "b/two", "main.c"]}):
        commands = [{"directory": "/home/one/project", "file": "main.c", **command}]
        others = {"compile_commands.json": json.dumps(commands).encode()}
        assert resolved(project, "main.c", 2, "wanted", others) == "proven b/two/x.h:1"


@pytest.mark.parametrize(
    "settings", [b"", b"[" * 100_000, b"[1, null, {}]", b'[{"directory": 1, "file": []}]', b'{"a": 1}', b"\xff\xfe", b'[{"directory": "/", "file": "../..", "command": "-I /etc -I.. -I"}]']
)  # fmt: skip
def test_hostile_settings_are_ignored(settings):
    project = {"include/x.h": "int wanted(void);\n", "main.c": "#include <x.h>\nint main(void) { return wanted(); }\n"}
    others = {"compile_commands.json": settings}
    assert resolved(project, "main.c", 2, "wanted", others) == "proven include/x.h:1"


def test_an_include_does_not_leave_the_project():
    project = {"main.c": '#include "../../etc/x.h"\n#include "/etc/y.h"\nint main(void) { return wanted(); }\n'}
    assert resolved(project, "main.c", 3, "wanted") == "none"


def test_includes_in_a_circle_end():
    project = {
        "a.h": '#include "b.h"\nint in_a(void);\n',
        "b.h": '#include "a.h"\nint in_b(void);\n',
        "main.c": '#include "a.h"\nint main(void) { return in_b(); }\n',
    }
    assert resolved(project, "main.c", 2, "in_b") == "proven b.h:2"


@pytest.mark.parametrize(
    "text",
    [
        "#if A\n" * 3_000, "#endif\n" * 1_000 + "int f(void) { }\n", "struct a {" * 2_000, "int " + "(" * 5_000 + "f", "template <" * 2_000,
        "int " + "*" * 5_000 + "f;", "a::" * 3_000 + "b c;", "#define A \\\n" * 3_000, "class A_B " * 3_000, "f(" * 3_000, '"\\', "/*", "'", "#", "#include\n#include <\n",
        "CAPITALS (" * 2_000, "enum { A, " * 500, "typedef struct { " * 1_000, "void " + "A::" * 1_000 + "f() {}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["a.c", "a.cpp", "a.h"])
def test_hostile_sources_end(path, text):
    assert parse_source(path, text.encode()).state in ("parsed", "errors")


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "class\n" * 100_000, "namespace\n" * 100_000, "enum " * 100_000, "enum {" + "#define A\n" * 100_000, "#if A\n{ /*\n#endif\n" * 50_000,
        "\nABC(" * 100_000, "\n__a b" * 100_000, "class ABC_D " * 100_000, ") ABC\n" * 100_000, "#define A \\\n/*" * 100_000,
        "CAPITALS (" * 100_000, "enum { A, #" * 100_000, "#if A\n" * 100_000, "/*" * 100_000, "\nA_B C_D " * 100_000, '" ABC(' * 100_000,
    ],
)  # fmt: skip
def test_blanking_takes_time_by_the_size_of_the_text_and_keeps_all_places(text):
    data = text.encode()
    blanked, _ = blank_unreadable(data)
    assert [at for at, byte in enumerate(blanked) if byte == 10] == [at for at, byte in enumerate(data) if byte == 10]
    assert len(blanked) == len(data)
    assert header_row(data).name in ("c", "cpp")


def test_what_a_name_was_looked_up_in_is_noted_for_each_file_that_asks():
    sources = MemorySources({at: facts_of(at, text) for at, text in PROJECT.items()})
    recorder = Recorder()
    resolver = Resolver(sources, recorder)
    asked = []
    for path in ("src/main.c", "src/list.c"):
        recorder.asked = set()
        for target in sources.file(path).facts.targets:
            resolver.resolve(path, target)
        asked.append(recorder.asked)
    wanted = {
        Recorder.visited["include/lib/list.h"],
        Recorder.path["include/lib/list.h"],
        Recorder.contents["compile_commands.json"],
    }
    assert wanted <= asked[0] & asked[1]
