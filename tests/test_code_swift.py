"""Swift: definitions of a file, and references resolved within and across modules."""

from __future__ import annotations

import time

import pytest

from periplus.code.extraction.parse import parse_source
from periplus.code.model import Facts
from periplus.code.resolution.resolver import Resolver
from periplus.code.resolution.sources import MemorySources

pytestmark = pytest.mark.quick

DEFINITIONS = b"""import Foundation

/// A store.
@objc public final class Store<T>: Base, Named {
    let items: [Item] = [], other: Int?
    private static var shared = Store()
    var computed: Item {
        get { let hidden = 1; return items[hidden] }
    }
    init(name: String) { }
    deinit { }
    fileprivate func load<U>(key k: U, in other: Store) async throws -> Item? { let local = 1; return nil }
    subscript(i: Int) -> Item { items[i] }
    enum Kind: Int { case big(Item), small; case rec(size: Int) }
}
protocol Named { associatedtype Part; var name: String { get }; func hello() -> Item }
extension Outer.Inner: Named { func ext() {} }
struct Point { static func + (a: Point, b: Point) -> Point { a } }
actor Worker {}
typealias Stores = [Store<Int>]
let global = Point()
func make() -> Store<Int> { Store(name: "") }
class StoreTests: XCTestCase {
    func testLoad() {}
    func tester() {}
}
@Test("works") func works() {}
"""


def facts_of(path: str, data: bytes | str) -> Facts:
    facts = parse_source(path, data if isinstance(data, bytes) else data.encode()).facts
    assert facts is not None
    return facts


def edges(files: dict[str, str], path: str) -> list[str]:
    """Return the references of ``path``: line, name, grade and targets."""
    facts = {name: facts_of(name, text) for name, text in files.items() if name.endswith(".swift")}
    sources = MemorySources(
        facts, {name: text.encode() for name, text in files.items() if name.endswith("Package.swift")}
    )
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
    facts = facts_of("a.swift", DEFINITIONS)
    definitions = facts.definitions()
    assert [f"{one.kind} {one.qualified} {one.line}" for one in definitions] == [
        "class Store 4",
        "property Store.items 5",
        "property Store.other 5",
        "property Store.shared 6",
        "property Store.computed 7",
        "constructor Store.init 10",
        "method Store.deinit 11",
        "method Store.load 12",
        "method Store.subscript 13",
        "enum Store.Kind 14",
        "value Store.Kind.big 14",
        "value Store.Kind.small 14",
        "value Store.Kind.rec 14",
        "protocol Named 16",
        "type Named.Part 16",
        "property Named.name 16",
        "method Named.hello 16",
        "extension Outer.Inner 17",
        "method Outer.Inner.ext 17",
        "struct Point 18",
        "method Point.+ 18",
        "class Worker 19",
        "type Stores 20",
        "value global 21",
        "function make 22",
        "class StoreTests 23",
        "method StoreTests.testLoad 24",
        "method StoreTests.tester 25",
        "function works 27",
    ]
    assert [one.qualified for one in definitions if not one.is_exported] == ["Store.shared", "Store.load"]
    assert [one.name for one in definitions if one.is_test] == ["testLoad", "works"]
    store = definitions[0]
    assert DEFINITIONS[store.doc_byte :].startswith(b"/// A store.")
    assert DEFINITIONS[store.head_byte : store.body_byte].strip() == b"@objc public final class Store<T>: Base, Named"
    assert {definitions[at].name: facts.final_name(target) for at, target in facts.types.items()} == {
        "items": "Item", "other": "Int", "shared": "Store", "computed": "Item", "load": "Item", "subscript": "Item", "name": "String",
        "hello": "Item", "+": "Point", "Stores": "Store", "global": "Point", "make": "Store",
    }  # fmt: skip
    assert [facts.final_name(one) for one in facts.bases[0]] == ["Base", "Named"]


PACKAGE = {
    "Package.swift": (
        'let package = Package(name: "Shop", targets: [.target(name: "Core"), .target(name: "Web", dependencies: ["Core"], path: "Web/Code"),\n'
        ' .testTarget(name: "CoreTests", dependencies: ["Core"])])\n'
    ),
    "Sources/Core/Store.swift": (
        "open class Base { func sink() {} }\n"
        "public class Store: Base {\n\tvar items: [Item] = []\n\tvar byName: [String: Item] = [:]\n\tlazy var kind = Kind()\n"
        "\tfunc load() -> Item? { helper(); sink(); return items.first }\n\tstruct Inner { var deep = 1 }\n\tstatic let shared = Store()\n}\n"
        "public struct Item { var name: String; func run() {} }\nstruct Kind { func go() {} }\nprivate func hidden() {}\n"
    ),
    "Sources/Core/More.swift": (
        "extension Store {\n\tfunc extra() { load(); self.items[0].run(); Inner().deep.x }\n}\nfunc helper() {}\nextension String { func trimmed() -> Item { Item() } }\n"
    ),
    "Web/Code/Web.swift": "struct Item { func other() {} }\nfunc helper() {}\n",
    "Tests/CoreTests/T.swift": "@testable import Core\nclass T: XCTestCase { func testX() { let s = Store(); s.load()?.run() } }\n",
}

CASES = {
    "what other files of the module hold": (
        "func f() { helper(); Store.shared.load() }\n",
        ["1 call helper proven Sources/Core/More.swift:helper", "1 reference Store proven Sources/Core/Store.swift:Store",
         "1 call load likely Sources/Core/Store.swift:Store.load"],
    ),
    "members of extensions and of bases": (
        "func f(s: Store) { s.extra(); s.sink() }\n",
        ["1 call extra likely Sources/Core/More.swift:Store.extra", "1 call sink likely Sources/Core/Store.swift:Base.sink"],
    ),
    "optionals": (
        "func f(s: Store?) {\nguard let t = s, let i = t.load() else { return }\ni.run()\nif let s { s.load()!.name }\ntry! s?.kind.go()\n}\n",
        ["3 call run likely Sources/Core/Store.swift:Item.run", "4 reference name likely Sources/Core/Store.swift:Item.name",
         "5 call go likely Sources/Core/Store.swift:Kind.go"],
    ),
    "conditions one after the other": (
        "func f(s: Store) {\nguard case let t? = s.load(), let i = s.load(), let n = i.name else { return }\nif let s = s.load(), s.name { s.run() } }\n",
        ["2 reference name likely Sources/Core/Store.swift:Item.name", "3 call load likely Sources/Core/Store.swift:Store.load",
         "3 reference name likely Sources/Core/Store.swift:Item.name", "3 call run likely Sources/Core/Store.swift:Item.run"],
    ),
    "elements": (
        "func f(s: Store) {\nfor i in s.items where i.name { i.run() }\ns.items[0].name\ns.byName[k]?.run() }\n",
        ["2 call run likely Sources/Core/Store.swift:Item.run", "3 reference name likely Sources/Core/Store.swift:Item.name",
         "4 call run likely Sources/Core/Store.swift:Item.run"],
    ),
    "a cast and a closure": (
        "func f(x: Any) {\n(x as! Store).load()\nlet g = { (i: Item) in i.run() }\ng(x) }\n",
        ["2 call load likely Sources/Core/Store.swift:Store.load", "3 call run likely Sources/Core/Store.swift:Item.run"],
    ),
    "a member of the expected type": (
        "enum Way { case north, south(Int) }\nfunc f(w: Way) {\nswitch w { case .north: break\ncase .south(let n): n }\ng(.north) }\n",
        ["3 reference north likely Sources/Core/Here.swift:Way.north", "4 reference south likely Sources/Core/Here.swift:Way.south",
         "5 reference north likely Sources/Core/Here.swift:Way.north"],
    ),
    "an extension of a type of another package": (
        'func f(s: String) { s.trimmed().run(); s.count }\nlet a: String = ""\n',
        ["1 call trimmed likely Sources/Core/More.swift:String.trimmed", "1 call run likely Sources/Core/Store.swift:Item.run",
         "2 reference String external"],
    ),
    "what another file keeps to itself": ("func f() { hidden() }\n", ["1 call hidden named Sources/Core/Store.swift:hidden"]),
    "a macro is not the function of its name": (
        "func expect() {}\nfunc f() { #expect(1 == helper()) }\n",
        ["2 call expect likely Sources/Core/Here.swift:expect", "2 call helper proven Sources/Core/More.swift:helper"],
    ),
    "a subclass": (
        "class Sub: Store { override func load() -> Item? { super.load(); self.sink(); return nil } }\n",
        ["1 extends Store proven Sources/Core/Store.swift:Store", "1 call load proven Sources/Core/Store.swift:Store.load",
         "1 call sink proven Sources/Core/Store.swift:Base.sink"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CASES))
def test_references_are_resolved(name):
    source, expected = CASES[name]
    found = edges({**PACKAGE, "Sources/Core/Here.swift": source}, "Sources/Core/Here.swift")
    assert [one for one in expected if one not in found] == []


def test_a_module_sees_what_it_imports():
    found = edges(PACKAGE, "Tests/CoreTests/T.swift")
    assert "1 import Core proven Sources/Core" in found
    assert "2 call load likely Sources/Core/Store.swift:Store.load" in found
    assert "2 call run likely Sources/Core/Store.swift:Item.run" in found
    web = edges(
        {**PACKAGE, "Web/Code/B.swift": "import Core\nfunc f(i: Item) { helper(); Core.helper(); i.other() }\n"},
        "Web/Code/B.swift",
    )
    assert "2 call helper proven Web/Code/Web.swift:helper" in web
    assert "2 call helper proven Sources/Core/More.swift:helper" in web
    assert "2 call other likely Web/Code/Web.swift:Item.other" in web


def test_extensions_reach_the_type_that_they_extend():
    found = edges(PACKAGE, "Sources/Core/More.swift")
    assert "2 call load proven Sources/Core/Store.swift:Store.load" in found
    assert "2 reference items proven Sources/Core/Store.swift:Store.items" in found
    assert "2 call Inner proven Sources/Core/Store.swift:Store.Inner" in found


def test_local_names_are_no_references():
    source = (
        "func f<T: Any>(a: Void, to b: T...) -> T {\n\tlet c = a, d = b\n\tlet (e, g) = (c, d)\n\tfor (i, j) in e { i; j }\n"
        "\tif case let (k, l) = g, let m = k { l; m }\n\titems.map { n in n; $0 }.each { [weak self, o = c] p, q in p; o }\n"
        "\tdo { e } catch let r as T { r } catch { error }\n\twhile let s = d { s }\n\tlabel: repeat { break label } while c\n\treturn b\n}\n"
    )
    facts = facts_of("a.swift", source)
    names = [facts.final_name(facts.targets[one.target]) for one in facts.references()]
    assert names == ["items", "map", "each"]


@pytest.mark.parametrize(
    "manifest",
    [b"\xff", b".target(" * 20_000, b'.target(name: "M", path: "../../etc")', b'.target(name: "' + b"x" * 90_000, b'.target(name: "M", path: ".")'],
    ids=lambda data: repr(data[:24]),
)  # fmt: skip
def test_hostile_manifests_are_ignored(manifest):
    facts = {"a/x.swift": facts_of("a/x.swift", "import M\nfunc f() { M.g(); g() }\n")}
    sources = MemorySources(facts, {"Package.swift": manifest})
    resolver = Resolver(sources)
    assert all(resolver.resolve("a/x.swift", one).grade in (None, "proven") for one in facts["a/x.swift"].targets)


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [
        b"func f() {\n" + b"let x = x\n" * 20_000 + b"}\n",
        b"class A { " * 5_000,
        b"class A {\n" + b"func f() {}\n" * 20_000 + b"}\n",
        b"func f() { a" + b".b()" * 20_000 + b" }\n",
        b"let a = " + b"[" * 20_000,
        b"enum A { case " + b", ".join(b"a%d" % number for number in range(20_000)) + b" }\n",
        b"let " + b", ".join(b"a%d = 1" % number for number in range(10_000)) + b"\n",
        b"if " + b", ".join(b"let a%d = b" % number for number in range(5_000)) + b" { }\n",
        b"switch a { case " + b".b(" * 5_000,
    ],
    ids=lambda data: repr(data[:16]),
)
def test_a_hostile_file_takes_bounded_time(data):
    begun = time.process_time()
    parse_source("a.swift", data)
    assert time.process_time() - begun < 20
