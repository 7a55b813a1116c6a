"""C# in the code map: definitions, and references resolved across the files of small projects."""

from __future__ import annotations

import time

import pytest

from code_answers import ctags_lines, resolved, walk_all
from periplus.code.extraction.parse import parse_source

pytestmark = pytest.mark.quick

DEFINITIONS = b"""using System;
namespace Acme.Tools
{
    /// <summary>The doc.</summary>
    [Serializable]
    public partial class Box<T> : Base, IPart
    {
        private readonly int _one = 1, _two;
        public event EventHandler Changed;
        public int Size { get; set; } = 3;
        public Box(int a) : base(a) { }
        ~Box() { }
        [Fact]
        public void Run()
        {
            int local = 1;
            int Inner(int m) => m;
        }
        public static Box<T> operator +(Box<T> a, Box<T> b) => a;
        private class Hidden { }
    }
    public interface IPart { void Part(); }
    internal enum Kind { One, Two = 2 }
    public record Pair(int Left, string Right);
    public struct Point { public int X; }
    public delegate void Handler(int x);
    public class BoxTests { }
}
"""


def test_definitions_of_all_kinds_have_the_line_of_their_name():
    parsed = parse_source("Box.cs", DEFINITIONS)
    assert parsed.state == "parsed"
    found = [f"{one.kind} {one.qualified} {one.line}" for one in parsed.facts.definitions()]
    assert found == [
        "class Box 6", "field Box._one 8", "field Box._two 8", "field Box.Changed 9", "property Box.Size 10", "constructor Box.Box 11",
        "method Box.~Box 12", "method Box.Run 14", "function Box.Run.Inner 17", "method Box.operator + 19", "class Box.Hidden 20",
        "interface IPart 22", "method IPart.Part 22", "enum Kind 23", "value Kind.One 23", "value Kind.Two 23", "record Pair 24",
        "property Pair.Left 24", "property Pair.Right 24", "struct Point 25", "field Point.X 25", "type Handler 26", "class BoxTests 27",
    ]  # fmt: skip


def test_signature_doc_visibility_and_tests():
    parsed = parse_source("Box.cs", DEFINITIONS)
    assert parsed.facts.package == "Acme.Tools"
    by_name = {one.qualified: one for one in parsed.facts.definitions()}
    box = by_name["Box"]
    assert DEFINITIONS[box.head_byte : box.body_byte].split() == b"public partial class Box<T> : Base, IPart".split()
    assert DEFINITIONS[box.doc_byte :].startswith(b"/// <summary>The doc.")
    assert (box.start_line, box.end_line) == (5, 21)
    hidden = {name for name, one in by_name.items() if not one.is_exported}
    assert hidden == {"Box._one", "Box._two", "Box.~Box", "Box.Run.Inner", "Box.Hidden", "Kind"}
    assert {name for name, one in by_name.items() if one.is_test} == {"Box.Run", "BoxTests"}


def test_of_several_namespaces_the_largest_is_that_of_the_file():
    data = b"#if X\nnamespace System { class Shim {} }\n#endif\nnamespace A.B { class C { void M() {} }\n namespace D { class E {} } }\n"
    facts = parse_source("a.cs", data).facts
    assert facts.package == "A.B"
    assert [one.qualified for one in facts.definitions()] == ["System", "System.Shim", "C", "C.M", "D", "D.E"]


def test_directives_within_a_list_do_not_hide_a_class():
    data = b"namespace A;\nclass B : C\n#if X\n    , D\n#endif\n{\n    void M() { }\n}\n"
    parsed = parse_source("B.cs", data)
    assert parsed.state == "parsed"
    assert [(one.qualified, one.line) for one in parsed.facts.definitions()] == [("B", 2), ("B.M", 7)]
    assert len(parsed.facts.bases[0]) == 2


PROJECT = {
    "src/Store.cs": """namespace Acme;
public partial class Store : Base {
    public const int Max = 3;
    public static Store Open() => new Store();
    public Item Item { get; set; }
    public Item Load(string key) { return Item; }
    public async Task<Item> LoadAsync() => null;
    public class Key { public string Text() => ""; }
}
""",
    "src/Store.Parts.cs": "namespace Acme;\npublic partial class Store : IParts { public void Second() { Load(null); } }\n",
    "src/Base.cs": "namespace Acme;\npublic class Base { public void Close() {} }\npublic class Item { public void Use() {} public int Only; }\n",
    "src/IParts.cs": "namespace Acme { public interface IParts { void Third(); } namespace Deep { public class Well { public int Level; } } }\n",
    "src/Extensions.cs": (
        "namespace Acme.Extras;\npublic static class Extensions { public static Acme.Item Loud(this string s) => null; "
        "public static void Grow(this Acme.Item i) {} }\n"
    ),
    "src/Kind.cs": "namespace Acme.Kinds;\npublic enum Kind { One }\npublic record Pair(int Left, Acme.Item Right);\n",
    "src/SlowAttribute.cs": "namespace Acme;\npublic class SlowAttribute {}\n",
    "src/GlobalUsings.cs": "global using Acme.Kinds;\n",
}  # fmt: skip
STORE = "Store -> proven src/Store.Parts.cs:Store src/Store.cs:Store"
USES = [
    # usings, namespaces, free names
    ("using Acme;\nclass U { Store s; }", 2, [STORE]),
    ("namespace Acme.Inner;\nclass U { Store s; }", 2, [STORE]),
    ("class U { Store s; }", 1, ["Store -> external"]),
    ("class U { Acme.Base s; }", 1, ["Acme -> external", "Base -> proven src/Base.cs:Base"]),
    ("using B = Acme.Base;\nclass U { B s; }", 2, ["Base -> proven src/Base.cs:Base"]),
    ("using static Acme.Store;\nclass U { int s = Max; Key k; }", 2,
     ["Key -> proven src/Store.cs:Store.Key", "Max -> proven src/Store.cs:Store.Max"]),
    ("using System;\nclass U { Widget s; }", 2, ["Widget -> external"]),
    ("using Acme.Deep;\nclass U { Well s; }", 2, ["Well -> proven src/IParts.cs:Deep.Well"]),
    ("namespace Acme;\nclass U { Deep.Well s; }", 2, ["Deep -> external", "Well -> proven src/IParts.cs:Deep.Well"]),
    ("using Acme;\n[Slow]\nclass U {}", 2, ["Slow -> likely src/SlowAttribute.cs:SlowAttribute"]),
    # members and types of values
    ("using Acme;\nclass U { void M(Store s) {\n s.Load(null).Use(); } }", 3,
     ["Load -> likely src/Store.cs:Store.Load", "Use -> likely src/Base.cs:Item.Use"]),
    ("using Acme;\nclass U { void M() { var s = Store.Open();\n s.Item?.Use(); s.Second(); s.Close(); } }", 3,
     ["Close -> likely src/Base.cs:Base.Close", "Item -> likely src/Store.cs:Store.Item", "Second -> likely src/Store.Parts.cs:Store.Second",
      "Use -> likely src/Base.cs:Item.Use"]),
    ("using Acme;\nclass U { async void M(Store s) {\n (await s.LoadAsync()).Use(); } }", 3,
     ["LoadAsync -> likely src/Store.cs:Store.LoadAsync", "Use -> likely src/Base.cs:Item.Use"]),
    ("using Acme;\nclass U { void M(object o) { if (o is Base b)\n b.Close(); ((Base)o).Close(); } }", 3,
     ["Base -> proven src/Base.cs:Base", "Close -> likely src/Base.cs:Base.Close"]),
    ("using Acme;\nclass U { void M() { d.TryGet(out Base b);\n b.Close(); foreach (Item i in x) i.Use(); } }", 3,
     ["Close -> likely src/Base.cs:Base.Close", "Item -> proven src/Base.cs:Item", "Use -> likely src/Base.cs:Item.Use", "x -> unknown"]),
    ("using Acme;\nclass U { int Only; object M() {\n return new Item { Only = 1 }; } }", 3,
     ["Item -> proven src/Base.cs:Item", "Only -> proven src/Base.cs:Item.Only"]),
    ("using Acme;\nclass U { public Base Base { get; set; }\n void M() { Base.Close(); new Base(); } }", 3,
     ["Base -> proven src/Base.cs:Base", "Base -> proven U.cs:U.Base", "Close -> likely src/Base.cs:Base.Close"]),
    ("using Acme;\nclass U { void M(Pair p) {\n p.Right.Use(); } }", 3,
     ["Right -> likely src/Kind.cs:Pair.Right", "Use -> likely src/Base.cs:Item.Use"]),
    ("class U { int M() {\n return (int)Kind.One; } }", 2, ["Kind -> proven src/Kind.cs:Kind", "One -> proven src/Kind.cs:Kind.One"]),
    ("class U { void M() { var x = 1; f(y => y.Z, name: x);\n x.ToString(); } }", 2, ["ToString -> unknown"]),
    # extensions
    ("using Acme.Extras;\nclass U { void M(string s) {\n s.Loud().Use(); } }", 3,
     ["Loud -> likely src/Extensions.cs:Extensions.Loud", "Use -> likely src/Base.cs:Item.Use"]),
    ("using Acme;\nusing Acme.Extras;\nclass U { void M(Item i) {\n i.Grow(); } }", 4, ["Grow -> likely src/Extensions.cs:Extensions.Grow"]),
    # the instance, without being written
    ("namespace Acme;\nclass U : Store { void M() {\n Close(); base.Close(); this.Load(null); Second(); } }", 3,
     ["Close -> proven src/Base.cs:Base.Close", "Load -> proven src/Store.cs:Store.Load", "Second -> proven src/Store.Parts.cs:Store.Second"]),
    ("namespace Acme;\nclass U { void Close() {} class In : Base { void M() {\n Close(); } } }", 3,
     ["Close -> proven src/Base.cs:Base.Close"]),
    ("class U : System.Data.Thing { void M() {\n Fill(); } }", 2, ["Fill -> external"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "expected"), USES, ids=lambda value: value if isinstance(value, str) else "")
def test_references_are_resolved_across_files(text, line, expected):
    assert resolved({**PROJECT, "src/app/U.cs": text}, "src/app/U.cs", line) == [
        said.replace(" U.cs", " src/app/U.cs") for said in expected
    ]


def test_a_part_of_a_class_sees_the_members_of_the_others():
    assert resolved(PROJECT, "src/Store.Parts.cs", 2) == [
        "IParts -> proven src/IParts.cs:IParts",
        "Load -> proven src/Store.cs:Store.Load",
    ]


def test_global_usings_are_for_the_files_below_their_folder():
    files = {**PROJECT, "other/U.cs": "class U { Kind k; }\n"}
    assert resolved(files, "other/U.cs", 1) == ["Kind -> external"]


@pytest.mark.parametrize(
    "data",
    [
        b"class A {" * 3_000,
        b"namespace A." + b"B." * 5_000 + b"C { class D : E {} }",
        b"using A." + b"B." * 5_000 + b"C;\nclass U : C { X y; }\n",
        b"class A { object x = " + b"new B { C = " * 1_000,
        b"class A { void F() { a" + b".B()" * 5_000 + b"; } }",
        b"class A { void F() { a" + b"?.B" * 5_000 + b"; } }",
        b"namespace A {" * 1_000,
        b"namespace ;using ;using static ;using = ;class {}enum { , ; }record(int);interface I : { int = ; } void operator () {}",
    ],
    ids=lambda data: repr(data[:20]),
)
def test_hostile_files_take_bounded_time(data):
    begun = time.process_time()
    assert walk_all("A.cs", data) in ("parsed", "errors", "failed")
    assert time.process_time() - begun < 20


def test_definitions_stand_where_universal_ctags_sees_them(tmp_path):
    path = tmp_path / "Box.cs"
    data = DEFINITIONS.replace(b"operator +", b"Plus")
    path.write_bytes(data)
    ours = {(one.name, one.line) for one in parse_source("Box.cs", data).facts.definitions()}
    theirs = ctags_lines(path, "C#", "cEgimps")
    assert len(theirs) > 10
    assert theirs - ours == set()
