"""Definitions and references of PHP: namespaces, traits, typed properties, PSR-4 and included files."""

from __future__ import annotations

import time

import pytest

from code_project import outline, project
from periplus.code import symbols_of

pytestmark = pytest.mark.quick

SHOP = {
    "composer.json": '{"autoload": {"psr-4": {"Shop\\\\": "src/"}}, "autoload-dev": {"psr-4": {"Shop\\\\Tests\\\\": ["tests"]}}}',
    "src/Model/Item.php": """<?php
namespace Shop\\Model;
/** An item. */
class Item extends Base implements \\JsonSerializable, Priced {
    use Named { Named::name as protected plainName; }
    const LIMIT = 3;
    public static int $count = 0;
    private ?Store $store = null;
    /** @var Store */
    private $old;
    public function __construct(private readonly Store $kept, protected $loose = null) {
        $this->store = new Store();
        self::$count++;
        parent::__construct();
    }
    public function save(): static {
        $this->store->put($this)->flush();
        $this->kept->put($this);
        $this->old->put($this);
        $this->name();
        return static::make(self::LIMIT);
    }
    /** @return Store */
    public static function make($n) { return new static($n); }
    public function jsonSerialize(): array { return \\strlen('x') ? [] : []; }
}
""",
    "src/Model/Base.php": "<?php\nnamespace Shop\\Model;\nabstract class Base {\n    function __construct() {}\n    function inherited() {}\n}\n",
    "src/Model/Named.php": "<?php\nnamespace Shop\\Model;\ntrait Named {\n    public function name() { return $this->label; }\n}\n",
    "src/Model/Priced.php": "<?php\nnamespace Shop\\Model;\ninterface Priced {}\n",
    "src/Model/Store.php": (
        "<?php\nnamespace Shop\\Model;\nfinal class Store {\n    public function put(Item $one): self { return $this; }\n"
        "    public function flush(): void {}\n}\n"
    ),
    "src/functions.php": "<?php\nnamespace Shop;\nfunction helper() {}\nconst RATE = 2;\ndefine('SHOP_HOME', 1);\n",
    "src/globals.php": "<?php\nfunction shop_boot() {}\n$settings = [];\n",
    "fixtures/Item.php": "<?php\nnamespace Shop\\Model;\nclass Item {}\n",
    "src/App.php": """<?php
namespace Shop;
require_once __DIR__ . '/globals.php';
require 'functions.php';
use Shop\\Model\\{Item as Thing, Store};
use Shop\\Model;
use function Shop\\helper as help;
use const Shop\\RATE;
use Vendor\\Package\\Client;
function run(Thing $thing, Model\\Base|null $base, $untyped, ?Client $client) {
    $thing->save()->inherited();
    $base->inherited();
    $store = new Store; $store->flush();
    help(RATE, helper(), namespace\\helper());
    shop_boot(); strlen('x'); count([]);
    Thing::$count; Thing::LIMIT; \\Shop\\Model\\Item::make(1)->put();
    $client->send();
    foreach ([] as $store) { $store->x; }
    $untyped->flush(); $untyped->getMessage();
    SHOP_HOME;
    fn(Store $s) => $s->put();
    new class extends Thing { function own() { $this->save(); } };
    unknown_function(); new Missing();
}
""",
}


@pytest.fixture(scope="module")
def shop():
    return project(SHOP)


ITEM, STORE = "src/Model/Item.php:Item", "src/Model/Store.php:Store"


@pytest.mark.parametrize(
    ("path", "line", "expected"),
    [
        ("src/Model/Item.php", 4, {"Base": "src/Model/Base.php:Base proven", "Priced": "src/Model/Priced.php:Priced proven"}),
        ("src/Model/Item.php", 4, {"JsonSerializable": "external"}),
        ("src/Model/Item.php", 5, {"Named": "src/Model/Named.php:Named proven", "name": "src/Model/Named.php:Named.name proven"}),
        ("src/Model/Item.php", 12, {"store": f"{ITEM}.store proven", "Store": f"{STORE} proven"}),
        ("src/Model/Item.php", 13, {"count": f"{ITEM}.count proven"}),
        ("src/Model/Item.php", 14, {"__construct": "src/Model/Base.php:Base.__construct proven"}),
        ("src/Model/Item.php", 17, {"store": f"{ITEM}.store proven", "put": f"{STORE}.put likely", "flush": f"{STORE}.flush likely"}),
        ("src/Model/Item.php", 18, {"kept": f"{ITEM}.kept proven", "put": f"{STORE}.put likely"}),
        ("src/Model/Item.php", 19, {"old": f"{ITEM}.old proven", "put": f"{STORE}.put likely"}),
        ("src/Model/Item.php", 20, {"name": "src/Model/Named.php:Named.name proven"}),
        ("src/Model/Item.php", 21, {"make": f"{ITEM}.make proven", "LIMIT": f"{ITEM}.LIMIT proven"}),
        ("src/Model/Item.php", 25, {}),
        ("src/App.php", 3, {"globals": "src/globals.php proven"}),
        ("src/App.php", 4, {"functions": "src/functions.php likely"}),
        ("src/App.php", 5, {"Item": f"{ITEM} proven", "Store": f"{STORE} proven"}),
        ("src/App.php", 6, {"Model": "src/Model proven"}),
        ("src/App.php", 7, {"helper": "src/functions.php:helper proven"}),
        ("src/App.php", 8, {"RATE": "src/functions.php:RATE proven"}),
        ("src/App.php", 9, {"Client": "external"}),
        ("src/App.php", 10, {"Item": f"{ITEM} proven", "Base": "src/Model/Base.php:Base proven"}),
        ("src/App.php", 11, {"save": f"{ITEM}.save likely", "inherited": "src/Model/Base.php:Base.inherited likely"}),
        ("src/App.php", 12, {"inherited": "src/Model/Base.php:Base.inherited likely"}),
        ("src/App.php", 13, {"flush": f"{STORE}.flush likely"}),
        ("src/App.php", 14, {"helper": "src/functions.php:helper proven"}),
        ("src/App.php", 15, {"shop_boot": "src/globals.php:shop_boot proven"}),
        ("src/App.php", 16, {"count": f"{ITEM}.count proven", "make": f"{ITEM}.make proven", "put": f"{STORE}.put likely"}),
        ("src/App.php", 17, {"send": "external"}),
        ("src/App.php", 18, {"x": "none"}),
        ("src/App.php", 19, {"flush": f"{STORE}.flush likely", "getMessage": "none"}),
        ("src/App.php", 20, {"SHOP_HOME": "src/functions.php:SHOP_HOME proven"}),
        ("src/App.php", 21, {"Store": f"{STORE} proven", "put": f"{STORE}.put likely"}),
        ("src/App.php", 22, {"Item": f"{ITEM} proven", "save": f"{ITEM}.save proven"}),
        ("src/App.php", 23, {"unknown_function": "external", "Missing": "external"}),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_name_leads_to_its_definition(shop, path, line, expected):
    answers = shop.answers(path, line)
    assert {name: answers.get(name) for name in expected} == expected
    if not expected:
        assert answers == {}


def test_definitions_of_all_kinds():
    assert outline("src/Model/Item.php", SHOP["src/Model/Item.php"]) == [
        "class Item 4", "constant Item.LIMIT 6", "property Item.count 7", "property Item.store 8 -", "property Item.old 10 -",
        "method Item.__construct 11", "property Item.kept 11 -", "property Item.loose 11 -", "method Item.save 16", "method Item.make 24",
        "method Item.jsonSerialize 25",
    ]  # fmt: skip
    assert outline("src/functions.php", SHOP["src/functions.php"]) == [
        "function helper 3", "constant RATE 4", "constant SHOP_HOME 5",
    ]  # fmt: skip
    text = (
        "<h1><?= $title ?></h1>\n<?php\nenum Suit: string implements HasLabel {\n  case Hearts = 'H';\n  const W = self::Hearts;\n}\n"
        "#[Attr]\nfunction f() { function inner() {} $x = 1; return new class { function m() {} }; }\n$a = 1; [$b, $c] = f();\n"
    )
    assert outline("a.php", text) == [
        "enum Suit 3", "constant Suit.Hearts 4", "constant Suit.W 5", "function f 8", "function f.inner 8", "class f.class@anonymous 8",
        "method f.class@anonymous.m 8", "value a 9",
    ]  # fmt: skip


def test_tests_are_told_by_name_attribute_and_call():
    text = (
        "<?php\nclass ATest extends TestCase {\n  public function testIt() {}\n  #[Test]\n  public function it_works() {}\n"
        "  public function testing() {}\n  /** @test */\n  public function old_way() {}\n}\nit('adds', function () { helper(); })->group('x');\ndescribe('b', function () { test('c', fn() => 1); });\n"
    )
    assert outline("a.php", text) == [
        "class ATest 2 test", "method ATest.testIt 3 test", "method ATest.it_works 5 test", "method ATest.testing 6", "method ATest.old_way 8 test", "test adds 10 test",
        "test b 11 test", "test b.c 11 test",
    ]  # fmt: skip


def test_variables_are_local_to_their_function_unless_it_says_global():
    found = project(
        {
            "a.php": "<?php\n$g = 1;\nfunction f() {\n  return $g + preg_match('a', 'b', $m) + count($m);\n}\n"
            "function h() {\n  global $g, $other;\n  return $g + $other;\n}\necho $g;\n",
            "b.php": "<?php\n$other = 2;\n$m = 1;\n",
        }
    )
    assert found.answers("a.php", 4) == {}
    assert found.answers("a.php", 8) == {"g": "a.php:g proven", "other": "b.php:other likely"}
    assert found.answers("a.php", 10) == {"g": "a.php:g proven"}


def test_of_two_classes_of_one_name_that_of_psr_4_is_taken_or_both_are_likely():
    one, other = "<?php\nnamespace A;\nclass C {}\n", "<?php\nnamespace A;\nnew C;\n"
    paths = {"lib/C.php": one, "old/C.php": one, "x.php": other}
    assert project(paths).answers("x.php", 3) == {"C": "lib/C.php:C, old/C.php:C likely"}
    settings = {"packages/p/composer.json": '{"autoload": {"psr-4": {"A": "../../lib/"}}}'}
    assert project(paths | settings).answers("x.php", 3) == {"C": "lib/C.php:C proven"}


@pytest.mark.parametrize(
    "settings",
    ["", "[", "[]", '{"autoload": 1}', '{"autoload": {"psr-4": {"A\\\\": {"x": 1}}}}', "[" * 10_000, '{"autoload": {"psr-4": []}}',
     '{"autoload": {"psr-4": {"A\\\\": "../../../../etc"}}}', "\udcff"],
)  # fmt: skip
def test_settings_that_are_none_are_ignored(settings):
    files = {
        "lib/C.php": "<?php\nnamespace A;\nclass C {}\n",
        "d/C.php": "<?php\nnamespace A;\nclass C {}\n",
        "x.php": "<?php\nuse A\\C;\n",
    }
    found = project(files)
    found.sources._others["composer.json"] = settings.encode("utf-8", "surrogateescape")
    found.sources._paths.append("composer.json")
    assert found.answers("x.php", 2) == {"C": "d/C.php:C, lib/C.php:C likely"}


def test_a_constant_called_like_a_class_does_not_hide_it():
    found = project(
        {"a.php": "<?php\ndefine('CLI', 1);\n", "b.php": "<?php\nclass CLI {}\n", "c.php": "<?php\nuse CLI;\n"}
    )
    assert found.answers("c.php", 2) == {"CLI": "b.php:CLI proven"}
    assert (
        project(
            {"a.php": "<?php\ndefine('CLI', 1);\n", "b.php": "<?php\nclass CLI {}\n", "c.php": "<?php\nCLI::f();\n"}
        ).answers("c.php", 2)["CLI"]
        == "b.php:CLI proven"
    )


def test_a_file_of_several_namespaces_proves_no_name_of_them():
    found = project({"a.php": "<?php\nnamespace A { class C {} }\nnamespace B { class D extends \\A\\C {} }\n"})
    assert found.answers("a.php", 3) == {"C": "external"}


@pytest.mark.parametrize(
    "text",
    ["<?php class", "<?php namespace A; namespace", "<?php " + "(" * 5_000, "<?php " + "function f() {" * 2_000, "<?php $a" + "->b" * 5_000,
     "<?php use A\\{", "<?php new class extends", "<?php " + "class A { function f() { new " * 1_000, "<?php define('", "<?php it('x', fn",
     "<?php " + "namespace A" * 3_000, "\x00", "<?php /** @return " + "a|" * 10_000 + " */ function f() {}"],
    ids=lambda text: f"{text[:30]!r}",
)  # fmt: skip
def test_a_hostile_file_is_answered_in_time(text):
    begun = time.process_time()
    symbols_of("a.php", text.encode())
    assert time.process_time() - begun < 10
