"""Facts of JavaScript and TypeScript, and their names resolved across files."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import pytest

from periplus.code.extraction.parse import parse_source
from periplus.code.resolution.resolver import Resolver
from periplus.code.resolution.sources import MemorySources

pytestmark = pytest.mark.quick

CLASSES = b"""\
import type { Dep } from "./dep";
/** Greets. */
export default class Foo<T> extends Base<T> implements I {
  private x = 1;
  #y = 2;
  handler = (event) => this.run(event);
  constructor(private dep: Dep, readonly size: number) { super(); }
  static async *run<K>(a: K): Promise<Foo> { function inner() {} }
  get size2() { return 1 }
  [Symbol.iterator]() {}
  "quoted name"() {}
}
export interface I extends J { p: string; m(): void; readonly nested: { deep: number } }
type O = J & { a: string };
export enum E { A, B = 2 }
declare module "foo/bar" { export function q(): void }
namespace A.B { export const c = 1 }
abstract class AB { abstract z(): void }
function over(a: string): void;
function over(a: any) { const local = 1; const arrow = () => local; }
"""
COMMON = b"""\
'use strict'
var app = exports = module.exports = {};
app.init = function init() { this.size = 1 };
exports.a = function () {};
exports.b = 1;
function Foo() { this.x = 1 }
Foo.prototype.bar = function () { return this.baz() };
Foo.prototype.baz = () => 1;
Foo.make = function () {};
const o = { m() {}, k: 1, f: function () {}, nest: { deep() {} } };
const C = class Inner { x() {} };
const { u, v: w } = thing;
call({ render() {}, cb: function () {} });
describe('the x/y', () => { it.each([1])('does. it', function () { const z = 1 }); });
app.get('/users/:id', (request) => request);
for (let i = 0; i < 2; i++) { const y = i }
"""


def defined(path: str, data: bytes) -> list[str]:
    facts = parse_source(path, data).facts
    assert facts is not None
    return [f"{one.kind} {one.qualified} {one.line}" for one in facts.definitions()]


def test_the_definitions_of_typescript():
    assert defined("a.ts", CLASSES) == [
        "class Foo 3", "field Foo.x 4", "field Foo.#y 5", "method Foo.handler 6", "method Foo.constructor 7", "field Foo.dep 7",
        "field Foo.size 7", "method Foo.run 8", "function Foo.run.inner 8", "method Foo.size2 9", "method Foo.quoted name 11",
        "interface I 13", "property I.p 13", "method I.m 13", "property I.nested 13", "property I.nested.deep 13", "type O 14",
        "property O.a 14", "enum E 15", "constant E.A 15", "constant E.B 15", "namespace foo/bar 16", "function foo/bar.q 16",
        "namespace A.B 17", "value A.B.c 17", "class AB 18", "method AB.z 18", "function over 19", "function over 20",
        "function over.arrow 20",
    ]  # fmt: skip


def test_the_definitions_of_commonjs_and_of_tests():
    assert defined("a.js", COMMON) == [
        "value app 2", "method app.init 3", "function a 4", "value b 5", "class Foo 6", "method Foo.bar 7", "method Foo.baz 8",
        "method Foo.make 9", "value o 10", "method o.m 10", "property o.k 10", "method o.f 10", "property o.nest 10",
        "method o.nest.deep 10", "class C 11", "method C.x 11", "value u 12", "value w 12", "method render 13", "method cb 13", "test the x/y 14",
        "test the x/y.does. it 14", "route GET /users/:id 15",
    ]  # fmt: skip


def test_what_others_see_of_a_file():
    facts = parse_source("a.ts", CLASSES).facts
    assert facts.exports == {"default": "Foo"}
    exported = {one.qualified for one in facts.definitions() if one.is_exported}
    assert {"Foo", "Foo.handler", "I", "E.A"} <= exported
    assert not {"Foo.x", "Foo.#y", "O", "AB", "over"} & exported
    facts = parse_source("a.js", COMMON).facts
    assert facts.exports == {"=": "app"}
    assert {one.qualified for one in facts.definitions() if one.is_test} == {"the x/y", "the x/y.does. it"}
    first = parse_source("a.ts", CLASSES).facts.definitions()[0]
    assert CLASSES[first.doc_byte :].startswith(b"/** Greets. */")


class Case(NamedTuple):
    """A project; the targets of the line marked in ``a`` with ``HERE``, as path, qualified name and grade."""

    id: str
    files: dict[str, str]
    expected: str
    others: Mapping[str, str] = MappingProxyType({})


CASES = (
    Case("relative", {"src/a.ts": "import { f as g } from './b';\ng(); // HERE", "src/b.ts": "export function f() {}"}, "src/b.ts:f proven"),
    Case("index", {"a.js": "import { f } from './lib';\nf(); // HERE", "lib/index.js": "export const f = () => 1"}, "lib/index.js:f proven"),
    Case("js that means ts", {"a.ts": "import { f } from './b.js';\nf(); // HERE", "b.ts": "export function f() {}"}, "b.ts:f proven"),
    Case("above", {"p/q/a.ts": "import { f } from '../../b';\nf(); // HERE", "b.tsx": "export function f() {}"}, "b.tsx:f proven"),
    Case("default", {"a.ts": "import any from './b';\nany(); // HERE", "b.ts": "export default function f() {}"}, "b.ts:f proven"),
    Case("default by name", {"a.ts": "import any from './b';\nany(); // HERE", "b.ts": "class F {}\nexport default F"}, "b.ts:F proven"),
    Case(
        "default without a name", {"a.ts": "import any from './b';\nany(); // HERE", "b.ts": "export default () => 1"}, "b.ts:default proven"
    ),
    Case(
        "renamed on the way out",
        {"a.ts": "import { g } from './b';\ng(); // HERE", "b.ts": "function f() {}\nexport { f as g }"},
        "b.ts:f proven",
    ),
    Case(
        "through two stars",
        {"a.ts": "import { f } from './b';\nf(); // HERE", "b.ts": "export * from './c'", "c.ts": "export * from './d'",
         "d.ts": "export const f = 1"},
        "d.ts:f proven",
    ),
    Case(
        "a star takes no default",
        {"a.ts": "import f from './b';\nf(); // HERE", "b.ts": "export * from './c';\nexport const x = 1", "c.ts": "export default function f() {}"},
        "b.ts:- proven",
    ),
    Case(
        "re-exported under another name",
        {"a.ts": "import { g } from './b';\ng(); // HERE", "b.ts": "export { f as g } from './c'", "c.ts": "export function f() {}"},
        "c.ts:f proven",
    ),
    Case(
        "re-exported default",
        {"a.ts": "import { G } from './b';\nnew G(); // HERE", "b.ts": "export { default as G } from './c'", "c.ts": "export default class F {}"},
        "c.ts:F proven",
    ),
    Case("namespace", {"a.ts": "import * as n from './b';\nn.f(); // HERE", "b.ts": "export function f() {}"}, "b.ts:- proven, b.ts:f proven"),
    Case(
        "exported namespace",
        {"a.ts": "import { n } from './b';\nn.f(); // HERE", "b.ts": "export * as n from './c'", "c.ts": "export function f() {}"},
        "c.ts:- proven, c.ts:f proven",
    ),
    Case("type only", {"a.ts": "import type { T } from './b';\nlet x: T | null; // HERE", "b.ts": "export interface T {}"}, "b.ts:T proven"),
    Case("require", {"a.js": "const b = require('./b');\nb.f(); // HERE", "b.js": "exports.f = function () {}"}, "b.js:- proven, b.js:f proven"),
    Case("required name", {"a.js": "const { f: g } = require('./b');\ng(); // HERE", "b.js": "function f() {}\nmodule.exports = { f }"}, "b.js:f proven"),
    Case("required member", {"a.js": "const g = require('./b').f;\ng(); // HERE", "b.js": "exports.f = () => 1"}, "b.js:f proven"),
    Case("required function", {"a.js": "const f = require('./b');\nf(); // HERE", "b.js": "module.exports = function g() {}"}, "b.js:g proven, b.js:- proven"),
    Case("required in place", {"a.js": "require('./b').f(); // HERE", "b.js": "exports.f = () => 1"}, "b.js:f proven"),
    Case("required class", {"a.js": "const B = require('./b');\nnew B().m(); // HERE", "b.js": "class B { m() {} }\nmodule.exports = B"},
         "b.js:B proven, b.js:- proven, b.js:B.m likely"),
    Case("passed on", {"a.js": "const { f } = require('./b');\nf(); // HERE", "b.js": "module.exports = require('./c')", "c.js": "exports.f = () => 1"},
         "c.js:f proven"),
    Case("dynamic", {"a.ts": "const { f } = await import('./b');\nf(); // HERE", "b.ts": "export function f() {}"}, "b.ts:f proven"),
    Case("this", {"a.ts": "class A {\n  m() { [1].map(() => this.n()); } // HERE\n  n() {}\n}"}, "a.ts:A.n proven"),
    Case("this of another function", {"a.ts": "class A { m() { return function () { this.size9() }; } // HERE\n size9() {} }"}, "a.ts:A.size9 likely"),
    Case("super", {"a.ts": "import { B } from './b';\nclass A extends B {\n  m() { super.m(); } // HERE\n}", "b.ts": "export class B { m() {} }"}, "b.ts:B.m proven"),
    Case("inherited", {"a.ts": "import { B } from './b';\nclass A extends B {}\nnew A().m(); // HERE", "b.ts": "export class B { m() {} }"},
         "a.ts:A proven, b.ts:B.m likely"),
    Case("annotated", {"a.ts": "import { B } from './b';\nfunction f(b?: Promise<B | null>) {\n  b.m(); // HERE\n}", "b.ts": "export interface B { m(): void }"},
         "b.ts:B.m likely"),
    Case("cast", {"a.ts": "import { B } from './b';\n(x as B).m(); // HERE", "b.ts": "export class B { m() {} }"}, "b.ts:B proven, b.ts:B.m likely"),
    Case("field", {"a.ts": "class B { m() {} }\nclass A {\n  constructor(private b: B) {}\n  n() { this.b.m(); } // HERE\n}"},
         "a.ts:A.b proven, a.ts:B.m likely"),
    Case("taken apart", {"a.ts": "interface P { one: string }\nconst f = ({ one }: P) => one; // HERE"}, "a.ts:P.one likely, a.ts:P proven"),
    Case("prototype", {"a.js": "function F() {}\nF.prototype.m = function () {\n  this.n(); // HERE\n};\nF.prototype.n = function () {};"}, "a.js:F.n proven"),
    Case("object", {"a.js": "const api = { m() {} };\napi.m(); // HERE"}, "a.js:api proven, a.js:api.m proven"),
    Case("component", {"a.tsx": "import { B } from './b';\nconst x = <div><B a={1}>t</B></div>; // HERE", "b.tsx": "export const B = () => <p/>"}, "b.tsx:B proven"),
    Case("component of a namespace", {"a.tsx": "import * as n from './b';\nconst x = <n.B />; // HERE", "b.tsx": "export const B = () => <p/>"},
         "b.tsx:- proven, b.tsx:B proven"),
    Case("shadowed by a parameter", {"a.ts": "import { f } from './b';\n((f) => f())(1); // HERE", "b.ts": "export function f() {}"}, ""),
    Case("shadowed in a block", {"a.ts": "import { f } from './b';\n{\n  let f = 1; f; // HERE\n}", "b.ts": "export function f() {}"}, "a.ts:f proven"),
    Case("type parameter", {"a.ts": "import { T } from './b';\nclass A<T> {\n  m(x: T) {} // HERE\n}", "b.ts": "export class T {}"}, ""),
    Case("enum", {"a.ts": "import { E } from './b';\nE.One; // HERE", "b.ts": "export enum E { One }"}, "b.ts:E proven, b.ts:E.One proven"),
    Case("type of a member", {"a.ts": "interface A { one: B }\nclass B { two() {} }\nlet x: A['one'];\nx.two(); // HERE"},
         "a.ts:x proven, a.ts:B.two likely"),
    Case("element of a list", {"a.ts": "class B { two() {} }\nfunction f(bs: readonly B[]) {\n  bs.filter((b) => b).map((b) => b.two()); // HERE\n}"},
         "a.ts:B.two likely"),
    Case("element of a map", {"a.ts": "class B { two() {} }\nconst all = new Map<string, B>();\nall.get('x').two(); // HERE"},
         "a.ts:all proven, a.ts:B.two likely"),
    Case("every element", {"a.ts": "class B { two() {} }\nfunction f(bs: B[]) {\n  for (const b of bs) b.two(); // HERE\n}"}, "a.ts:B.two likely"),
    Case("key of an object with a type", {"a.ts": "interface O { depth: number }\nconst o: O = {\n  depth: 1, // HERE\n};"},
         "a.ts:O.depth likely"),
    Case("key of an argument", {"a.ts": "import { f } from './b';\nf(1, {\n  depth: 1 // HERE\n});",
                                "b.ts": "interface O { depth: number }\nexport function f(a: number, o: O) {}"}, "b.ts:O.depth likely"),
    Case("parameter of a callback", {"a.ts": "import { on } from './b';\non((e) => {\n  e.stopAll(); // HERE\n});",
                                     "b.ts": "class E { stopAll() {} }\ntype H = (e: E) => void;\nexport function on(h: H) {}"}, "b.ts:E.stopAll likely"),
    Case("parameter of a callback written in place", {"a.ts": "import { on } from './b';\non(({ depth }) => 1); // HERE",
                                                      "b.ts": "interface E { depth: 1 }\nexport const on = (h: (e: E) => void) => h"},
         "b.ts:on proven, b.ts:E.depth likely"),
    Case("properties of a component", {"a.tsx": "import { B } from './b';\nconst x = <B\n  depth={1} // HERE\n/>;",
                                       "b.tsx": "interface P { depth: number }\nexport const B = memo((p: P) => null)"}, "b.tsx:P.depth likely"),
    Case("what a function returns", {"a.ts": "interface O { depth: number }\nfunction f(): O {\n  return { depth: 1 }; // HERE\n}"}, "a.ts:O.depth likely"),
    Case("what a function was seen to return", {"a.ts": "class B { two() {} }\nfunction make() { return new B() }\nmake().two(); // HERE"},
         "a.ts:make proven, a.ts:B.two likely"),
    Case("type parameter with a bound", {"a.ts": "class B { two() {} }\nfunction f<T extends B>(b: T) {\n  b.two(); // HERE\n}"}, "a.ts:B.two likely"),
    Case("name of a function expression", {"a.ts": "import { f } from './b';\nconst g = function f() {\n  f(); // HERE\n}", "b.ts": "export function f() {}"},
         "a.ts:g.f proven"),
    Case("global", {"a.ts": "import './x';\nlet w: Widget9; // HERE", "g.d.ts": "interface Widget9 {}"}, "g.d.ts:Widget9 likely"),
    Case("installed", {"a.ts": "import { useState } from 'react';\nuseState(); // HERE", "b.ts": "export function useState() {}"}, ""),
    Case(
        "alias of a settings file with comments",
        {"app/a.ts": "import { f } from '@/lib/b';\nf(); // HERE", "app/src/lib/b.ts": "export function f() {}"},
        "app/src/lib/b.ts:f proven",
        {"app/tsconfig.json": '{ // c\n "extends": "../base", }', "base.json": '{"compilerOptions": {"paths": {"@/*": ["./app/src/*"],}}}'},
    ),
    Case(
        "base url",
        {"src/x/a.ts": "import { f } from 'lib/b';\nf(); // HERE", "src/lib/b.ts": "export function f() {}"},
        "src/lib/b.ts:f proven",
        {"tsconfig.json": '{"compilerOptions": {"baseUrl": "src"}}'},
    ),
    Case(
        "package of the workspace",
        {"packages/a/a.ts": "import { f } from '@o/b';\nf(); // HERE", "packages/b/lib/main.ts": "export function f() {}"},
        "packages/b/lib/main.ts:f proven",
        {"package.json": '{"workspaces": ["packages/*"]}', "packages/b/package.json": '{"name": "@o/b", "main": "./lib/main.js"}'},
    ),
    Case(
        "exports of a package, built from sources",
        {"packages/a/a.ts": "import { f } from 'b/sub/x';\nf(); // HERE", "packages/b/src/x.ts": "export function f() {}"},
        "packages/b/src/x.ts:f likely",
        {"pnpm-workspace.yaml": "packages:\n  - 'packages/*'\n",
         "packages/b/package.json": '{"name": "b", "exports": {"./sub/*": {"types": "./dist/*.d.ts", "import": "./dist/*.js"}}}'},
    ),
    Case(
        "imports of the package itself",
        {"src/a.ts": "import { f } from '#lib/b';\nf(); // HERE", "src/b.ts": "export function f() {}"},
        "src/b.ts:f proven",
        {"package.json": '{"name": "p", "imports": {"#lib/*": "./src/*.ts"}}'},
    ),
    Case(
        "a package that is no member of a workspace",
        {"a.ts": "import { f } from 'react';\nf(); // HERE", "fixtures/react/index.ts": "export function f() {}"},
        "",
        {"fixtures/react/package.json": '{"name": "react"}'},
    ),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_names_resolve_across_files(case):
    facts = {path: parse_source(path, text.encode()).facts for path, text in case.files.items()}
    resolver = Resolver(MemorySources(facts, {path: text.encode() for path, text in case.others.items()}))
    path, text = next((path, text) for path, text in case.files.items() if "HERE" in text)
    line = next(number for number, one in enumerate(text.splitlines(), 1) if "HERE" in one)
    found: dict[str, None] = {}
    for reference in facts[path].references():
        if reference.line != line or reference.role == "import":
            continue
        resolution = resolver.resolve(path, facts[path].targets[reference.target])
        for entity in resolution.found:
            name = facts[entity.path].definitions()[entity.symbol].qualified if entity.symbol >= 0 else "-"
            if resolution.grade != "named":
                found[f"{entity.path}:{name} {resolution.grade}"] = None
    assert ", ".join(found) == case.expected


@pytest.mark.parametrize(
    "settings",
    [
        b"{",
        b"[]",
        b"\xff",
        b'{"extends": "./tsconfig.json", "compilerOptions": {"paths": {"@/*": [1, null, "../../../../etc/*"], "*": "x"}}}',
        b'{"compilerOptions": {"paths": [], "baseUrl": 3}, "references": [{"path": "."}, 1], "extends": [[], {}]}',
        b"[" * 100_000,
        b'{"a": ' + b"/*" * 100_000,
        b'{"name": "x", "exports": ' + b'{"a":' * 500 + b"1" + b"}" * 501,
        b'{"name": 1, "workspaces": {"packages": ["**/**/**/**/x*y*z*", "../..", 1]}, "main": {}}',
    ],
    ids=range(9),
)
def test_hostile_settings_count_as_none(settings):
    files = {"p/a.ts": b"import { f } from '@/b';\nf();", "p/b.ts": b"export function f() {}"}
    facts = {path: parse_source(path, data).facts for path, data in files.items()}
    others = {
        "p/tsconfig.json": settings,
        "p/package.json": settings,
        "package.json": b'{"workspaces": ["p", "**/**/**/q"]}',
    }
    resolver = Resolver(MemorySources(facts, others))
    begun = time.process_time()
    for target in facts["p/a.ts"].targets:
        assert resolver.resolve("p/a.ts", target).grade in (None, "named")
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    "data",
    [
        b"export * from './a';\nexport { x } from './a';\nx();",
        b"export { a as b, b as a };\na();\nb();",
        b"class A extends A { m() { this.m(); super.m() } }",
        b"type A = B; type B = A; let x: A; x.y.z",
        b"const a = b, b = a; a.x.y",
        b"a = a = a = a = exports = module.exports = a = 1",
        b"export default",
        b"export { as from 'x'",
        b"const { a: { b: { c = d } } } = require",
        b"x = { get(){}, set(){}, [a]: b, ...c, 1: 2, '': 3 }",
        b"describe('', () => {}); it('.', f); test(`a${b}`, f); describe('...//..', f)",
        b"import('./' + x); require(y); require(); import()",
    ],
)
def test_circles_and_pieces_end(data):
    facts = parse_source("a.ts", data).facts
    assert facts is not None
    facts.definitions()
    resolver = Resolver(MemorySources({"a.ts": facts}))
    for target in facts.targets:
        resolver.resolve("a.ts", target)
