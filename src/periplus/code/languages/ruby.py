"""Ruby.

A class and its instances share the kinds: ``method`` is for instances, ``function`` belongs to the class itself (``def self.x``) or to no
class. Accessors and associations that a class declares by a call are properties, ``let`` of RSpec and tasks of Rake are values.
"""

from __future__ import annotations

__all__ = ["RUBY"]

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from periplus.code.languages.table import Access, Bind, Extraction, Language

if TYPE_CHECKING:
    import tree_sitter

_BUILTINS: Final = frozenset(
    "puts print p pp printf putc raise fail require require_relative load lambda proc loop catch throw block_given? binding caller at_exit "
    "exit exit! abort sleep rand srand sprintf gets warn freeze frozen? nil? is_a? kind_of? instance_of? respond_to? send public_send "
    "__send__ object_id instance_variable_get instance_variable_set instance_variable_defined? instance_variables define_singleton_method "
    "singleton_class instance_eval instance_exec class_eval class_exec module_eval attr_accessor attr_reader attr_writer include extend "
    "prepend private public protected module_function private_class_method public_class_method private_constant alias_method "
    "define_method remove_method undef_method const_get const_set const_missing autoload using refine __FILE__ __LINE__ __dir__ __method__ "
    "__ENCODING__ Integer Float String Array Hash Rational Complex ARGV ENV STDIN STDOUT STDERR DATA RUBY_VERSION RUBY_PLATFORM "
    "RUBY_ENGINE TOPLEVEL_BINDING Object BasicObject Kernel Module Class Comparable Enumerable Enumerator Symbol Numeric NilClass "
    "TrueClass FalseClass Range Regexp MatchData Proc Method UnboundMethod IO File Dir FileTest FileUtils Process Signal Thread Mutex "
    "Queue ConditionVariable Fiber GC ObjectSpace Marshal Math Random Time Struct Exception StandardError RuntimeError ArgumentError "
    "NameError NoMethodError TypeError IndexError KeyError StopIteration RangeError IOError EOFError RegexpError LocalJumpError "
    "FloatDomainError ZeroDivisionError SystemExit SystemCallError Interrupt SignalException ScriptError LoadError NotImplementedError "
    "SyntaxError SecurityError NoMemoryError FrozenError ThreadError EncodingError Errno Encoding".split()
)
_TESTS: Final = frozenset(
    "describe context it specify test example feature scenario fdescribe fcontext fit xdescribe xcontext xit shared_examples "
    "shared_examples_for shared_context should".split()
)
_ACCESSORS: Final = frozenset(
    "attr attr_reader attr_writer attr_accessor cattr_accessor cattr_reader cattr_writer mattr_accessor mattr_reader mattr_writer "
    "class_attribute thread_mattr_accessor".split()
)
_ASSOCIATIONS: Final = frozenset(
    "belongs_to has_one has_many has_and_belongs_to_many has_one_attached has_many_attached".split()
)
_MENTIONS: Final = re.compile(
    r"(?:before|after|around|skip|prepend|append)_\w+|validate|helper_method|module_function|private|public|protected|set_callback|"
    r"private_class_method|public_class_method|rescue_from"
)
_MAKERS: Final = {"Struct": "new", "Class": "new", "Module": "new", "Data": "define"}
_RETURNS: Final = re.compile(r"@return\s+\[([A-Z]\w*(?:::[A-Z]\w*)*)\]")
_CLASS_WORD: Final = re.compile(r"[A-Z]\w*(?:::[A-Z]\w*)*\Z")


def _documented_type(kind: str, doc: str) -> str:
    match = _RETURNS.search(doc) if kind in ("method", "function", "property") else None
    return match[1].replace("::", ".") if match is not None else ""


def _plain(extraction: Extraction, node: tree_sitter.Node | None) -> str:
    """Return what a symbol or a plain string says; empty for anything else."""
    if node is None:
        return ""
    if node.type == "simple_symbol":
        return extraction.text(node)[1:]
    if node.type in ("string", "delimited_symbol") and node.named_child_count == 1:
        inner = node.named_children[0]
        return extraction.text(inner) if inner.type == "string_content" else ""
    return ""


def _arguments(node: tree_sitter.Node) -> list[tree_sitter.Node]:
    arguments = node.child_by_field_name("arguments")
    return arguments.named_children if arguments is not None else []


# -- definitions by keyword -------------------------------------------------------------------------------------------


def _class(extraction: Extraction, node: tree_sitter.Node) -> None:
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    superclass = node.child_by_field_name("superclass")
    if name is None:
        extraction.visit(*node.named_children)
        return
    outer, _, said = "".join(extraction.text(name).split()).strip(":").replace("::", ".").rpartition(".")
    last = name.child_by_field_name("name") if name.type == "scope_resolution" else name
    _mark_hidden(extraction, body)
    if said == "ClassMethods" and node.type == "module" and extraction.is_in_class:
        extraction.extend(name)  # by convention a module extends with it what includes the module
    bases = superclass.named_children if superclass is not None else ()
    extraction.define(node, last or name, node.type, text=said, outer=outer, body=body, bases=bases)


def _mark_hidden(extraction: Extraction, body: tree_sitter.Node | None) -> None:
    """Hide the methods after a bare ``private`` or ``protected``."""
    is_hidden = False
    for child in body.named_children if body is not None else ():
        if child.type == "identifier":
            said = extraction.text(child)
            if said in ("private", "protected", "public"):
                is_hidden = said != "public"
        elif is_hidden and child.type in ("method", "call"):
            extraction.mark(child)


def _singleton_class(extraction: Extraction, node: tree_sitter.Node) -> None:
    """``class << self``: what stands in it belongs to the class. ``class << x`` opens an object."""
    value, body = node.child_by_field_name("value"), node.child_by_field_name("body")
    _mark_hidden(extraction, body)
    if value is None or value.type == "self":
        extraction.open(node)
        extraction.take_class_as_self()
    else:
        extraction.define(node, value, "object", text=extraction.text(value).rpartition(".")[2], body=body)
        extraction.visit(value)


def _method(extraction: Extraction, node: tree_sitter.Node) -> None:
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if name is None:
        extraction.open(node)
        return
    is_of_class = node.type == "singleton_method" or extraction.is_class_self
    kind = "method" if extraction.is_in_class and not is_of_class else "function"
    parameters = node.child_by_field_name("parameters")
    extraction.define(node, name, kind, text="".join(extraction.text(name).split()), body=body or parameters)
    if body is None and parameters is None:
        return
    if is_of_class:
        extraction.take_class_as_self()
    if body is not None:
        extraction.visit(parameters)


def _alias(extraction: Extraction, node: tree_sitter.Node) -> None:
    name, original = node.child_by_field_name("name"), node.child_by_field_name("alias")
    if name is not None and name.type in ("identifier", "constant", "setter", "operator"):
        extraction.define(node, name, "method" if extraction.is_in_class else "function")
    extraction.visit(original)


def _assignment(extraction: Extraction, node: tree_sitter.Node) -> None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is None:
        extraction.visit(right)
    elif left.type == "constant" and not extraction.is_in_function:
        if right is not None and right.type == "call" and _makes_class(extraction, right):
            _made_class(extraction, node, left, right)
        else:
            extraction.define(node, left, "constant", value=right, body=right)
    else:
        extraction.visit(right)
        extraction.assign(left, right)


def _makes_class(extraction: Extraction, call: tree_sitter.Node) -> bool:
    receiver, method = call.child_by_field_name("receiver"), call.child_by_field_name("method")
    return (
        receiver is not None
        and method is not None
        and receiver.type in ("constant", "scope_resolution")
        and _MAKERS.get(extraction.text(receiver).lstrip(":")) == extraction.text(method)
    )


def _made_class(extraction: Extraction, node: tree_sitter.Node, left: tree_sitter.Node, call: tree_sitter.Node) -> None:
    """``Point = Struct.new(:x) do … end`` and ``Error = Class.new(StandardError)``."""
    arguments, block = _arguments(call), call.child_by_field_name("block")
    bases = [one for one in arguments if one.type in ("constant", "scope_resolution")]
    extraction.define(node, left, "class", body=block or left, bases=bases)
    for one in arguments:
        if said := _plain(extraction, one):
            extraction.define(one, one, "property", text=said)
    if block is None:
        return
    _mark_hidden(extraction, block.child_by_field_name("body"))


# -- calls without a receiver -------------------------------------------------------------------------------------------


def _call(extraction: Extraction, node: tree_sitter.Node) -> None:
    method = node.child_by_field_name("method")
    receiver = node.child_by_field_name("receiver")
    if method is None or method.type == "super":
        if method is not None:
            extraction.mention_inherited(method)
        extraction.refer(node)
        return
    if receiver is not None:
        if (
            receiver.type == "constant"
            and node.child_by_field_name("block") is not None
            and extraction.text(receiver) == "RSpec"
        ):
            _test(extraction, node, extraction.text(method))
        else:
            extraction.refer(node)
        return
    said = extraction.text(method)
    handler = _CALLS.get(said)
    if handler is not None:
        handler(extraction, node, said)
        return
    if extraction.is_in_class and not extraction.is_in_function and _MENTIONS.fullmatch(said):
        for one in _arguments(node):
            if one.type == "simple_symbol":
                extraction.mention(one, extraction.text(one)[1:])
    extraction.refer(node)


def _require(extraction: Extraction, node: tree_sitter.Node, said: str) -> None:
    arguments = _arguments(node)
    last = arguments[-1] if arguments else None
    path = _plain(extraction, last)
    if said == "require_relative":
        path = path and (path if path.startswith(".") else f"./{path}")
    elif last is not None and not path and (match := _ANCHORED.match(extraction.text(last))) is not None:
        path = f"./{match['below'].lstrip('/')}" if match["anchor"] == "__dir__" else f"./{match['below'][3:]}"
    if last is not None and path:
        extraction.add_import(last, path)
    else:
        extraction.refer(node)


_ANCHORED: Final = re.compile(
    r"""File\.(?:expand_path|join)\(\s*(?:['"](?P<below>(?:\.\./|/?)[^'"#]+)['"],\s*(?P<anchor>__FILE__|__dir__))\s*\)"""
)


def _accessors(extraction: Extraction, node: tree_sitter.Node, _said: str) -> None:
    for one in _arguments(node):
        name = _plain(extraction, one)
        if name and extraction.is_in_class:
            if extraction.marked(node):
                extraction.mark(one)
            extraction.define(one, one, "property", text=name, whole=node)
        else:
            extraction.visit(one)


def _association(extraction: Extraction, node: tree_sitter.Node, said: str) -> None:
    """``belongs_to :author, class_name: "User"`` has the type ``User``; of many things only the class is mentioned."""
    arguments = _arguments(node)
    name = _plain(extraction, arguments[0]) if arguments else ""
    if not name or not extraction.is_in_class:
        extraction.refer(node)
        return
    is_one = said in ("belongs_to", "has_one")
    model = "".join(part.capitalize() for part in name.split("_")) if is_one else ""
    place = arguments[0]
    for one in arguments[1:]:
        key = one.child_by_field_name("key") if one.type == "pair" else None
        if key is not None and extraction.text(key).strip(":") in ("class_name", "polymorphic"):
            place = one.child_by_field_name("value") or one
            model = _plain(extraction, place).removeprefix("::") if "class_name" in extraction.text(key) else ""
    is_class = _CLASS_WORD.match(model) is not None
    extraction.define(
        arguments[0],
        arguments[0],
        "property",
        text=name,
        whole=node,
        type_=model.replace("::", ".") if is_one and is_class else None,
    )
    if is_class and place.id != arguments[0].id:
        extraction.mention(place, model.replace("::", "."))
    extraction.visit(*arguments[1:], node.child_by_field_name("block"))


def _named_by_symbol(extraction: Extraction, node: tree_sitter.Node, said: str) -> None:
    """``define_method(:x) { … }``, ``alias_method :x, :y``, ``scope :x, -> { … }``, ``delegate :x, to: :y``."""
    arguments, block = _arguments(node), node.child_by_field_name("block")
    if not extraction.is_in_class:
        extraction.refer(node)
        return
    if said.startswith(
        "def_delegator"
    ):  # its first argument is what it delegates to, that of ``def_delegator`` after the name an alias
        arguments = arguments[1:] if said == "def_delegators" else arguments[2:] or arguments[1:]
    count = len(arguments) if said in ("delegate", "def_delegators") else 1
    kind = "function" if said in ("scope", "define_singleton_method") or extraction.is_class_self else "method"
    for one in arguments[:count]:
        name = _plain(extraction, one)
        if name:
            if extraction.marked(node):
                extraction.mark(one)
            extraction.define(one, one, kind, text=name, whole=node, body=block)
        else:
            extraction.visit(one)
    if said == "alias_method" and len(arguments) > 1 and arguments[1].type == "simple_symbol":
        extraction.mention(arguments[1], _plain(extraction, arguments[1]))
    extraction.visit(*arguments[count:])


def _bases(extraction: Extraction, node: tree_sitter.Node, _said: str) -> None:
    for one in _arguments(node):
        if one.type in ("constant", "scope_resolution") and extraction.is_in_class and not extraction.is_in_function:
            extraction.extend(one)
        else:
            extraction.visit(one)


def _visibility(extraction: Extraction, node: tree_sitter.Node, said: str) -> None:
    """``private def x``, ``private :x``: the latter is told where ``x`` is defined before, and only refers to it."""
    for one in _arguments(node):
        if one.type in ("method", "singleton_method", "call") and said != "public":
            extraction.mark(one)
        if one.type == "simple_symbol":
            extraction.mention(one, extraction.text(one)[1:])
        else:
            extraction.visit(one)


def _test(extraction: Extraction, node: tree_sitter.Node, said: str) -> None:
    arguments, block = _arguments(node), node.child_by_field_name("block")
    first = arguments[0] if arguments else None
    if first is None or block is None or said not in _TESTS:
        extraction.refer(node)
        return
    name = _plain(extraction, first) or extraction.text(first)
    extraction.define(node, first, "test", text=" ".join(name.split()), body=block)
    extraction.visit(*arguments)


def _let(extraction: Extraction, node: tree_sitter.Node, _said: str) -> None:
    arguments, block = _arguments(node), node.child_by_field_name("block")
    name = _plain(extraction, arguments[0]) if arguments else ""
    if not name or block is None:
        extraction.refer(node)
        return
    body = block.child_by_field_name("body")
    value = body.named_children[-1] if body is not None and body.named_children else None
    extraction.define(arguments[0], arguments[0], "value", text=name, whole=node, value=value, body=block)


def _task(extraction: Extraction, node: tree_sitter.Node, said: str) -> None:
    """``task :build => :environment do`` and ``namespace :db do`` of Rake."""
    arguments, block = _arguments(node), node.child_by_field_name("block")
    first = arguments[0] if arguments else None
    if first is not None and first.type == "pair":
        key = first.child_by_field_name("key")
        name = extraction.text(key).strip(":'\"") if key is not None else ""
    else:
        name = _plain(extraction, first)
    if first is None or not name or extraction.is_in_function or (block is None and said == "namespace"):
        extraction.refer(node)
        return
    extraction.define(first, first, "module" if said == "namespace" else "value", text=name, whole=node, body=block)
    extraction.visit(*arguments)


def _parameters(extraction: Extraction, node: tree_sitter.Node) -> None:
    for child in node.named_children:
        if child.type == "identifier":
            extraction.bind(extraction.text(child))
        elif child.type in ("optional_parameter", "keyword_parameter"):
            name, value = child.child_by_field_name("name"), child.child_by_field_name("value")
            if name is not None:
                extraction.bind(extraction.text(name), value)
            extraction.visit(value)
        else:
            extraction.bind_pattern(child)


def _in_clause(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Bind the names in a pattern; constants in it are references."""
    pattern = node.child_by_field_name("pattern")
    waiting = [pattern] if pattern is not None else []
    while waiting:
        at = waiting.pop()
        if at.type == "identifier":
            extraction.bind(extraction.text(at))
        elif at.type == "keyword_pattern" and at.child_by_field_name("value") is None:
            key = at.child_by_field_name("key")
            if key is not None:
                extraction.bind(extraction.text(key))
        elif at.type in ("constant", "scope_resolution", "call"):
            extraction.visit(at)
        else:
            waiting += at.named_children
    extraction.visit(node.child_by_field_name("guard"), node.child_by_field_name("body"))


def _is_exported(extraction: Extraction, node: tree_sitter.Node, _name: str) -> bool:
    return not extraction.marked(node)


def _is_test(name: str, kind: str, _decorations: str) -> bool:
    return (
        kind == "test"
        or (kind in ("method", "function") and name.startswith("test_"))
        or (kind == "class" and name.endswith("Test"))
    )


_CALLS: Final[dict[str, Callable[[Extraction, tree_sitter.Node, str], None]]] = {
    **dict.fromkeys(("require", "require_relative", "load", "autoload"), _require),
    **dict.fromkeys(_ACCESSORS, _accessors),
    **dict.fromkeys(_ASSOCIATIONS, _association),
    **dict.fromkeys(("include", "extend", "prepend"), _bases),
    **dict.fromkeys(("private", "protected", "public", "private_class_method"), _visibility),
    **dict.fromkeys(
        (
            "alias_method",
            "define_method",
            "define_singleton_method",
            "scope",
            "delegate",
            "def_delegator",
            "def_delegators",
        ),
        _named_by_symbol,
    ),
    **dict.fromkeys(_TESTS, _test),
    **dict.fromkeys(("let", "let!", "subject", "subject!"), _let),
    **dict.fromkeys(("task", "namespace"), _task),
}
RUBY: Final = Language(
    "ruby", (".rb", ".rake", ".gemspec", ".ru", ".rbw", ".podspec", ".jbuilder", ".thor"), "tree_sitter_ruby", "language",
    {},
    functions=frozenset({"method", "singleton_method"}),
    scopes=frozenset({"block", "do_block", "lambda", "singleton_class"}),
    has_implicit_this=True,
    has_calls_of_self=True,
    names=frozenset({"identifier", "constant"}),
    binds={
        "operator_assignment": (Bind("left", "right"),),
        "exception_variable": (Bind(0),),
        "for": (Bind("pattern"),),
    },
    accesses={
        "call": Access("receiver", "method", "()"),
        "scope_resolution": Access("scope", "name", is_global=True),
        "element_reference": Access("object", step="[]"),
    },
    transparent={"parenthesized_statements": 0},
    skips=frozenset({"undef", "global_variable"}),
    literals=frozenset(
        {"string", "chained_string", "heredoc_beginning", "simple_symbol", "delimited_symbol", "integer", "float", "array", "hash", "true",
         "false", "string_array", "symbol_array", "regex", "range", "subshell", "character", "rational", "complex"}
    ),
    nulls=frozenset({"nil"}),
    selves=frozenset({"self"}),
    own_members=frozenset({"instance_variable", "class_variable"}),
    builtins=_BUILTINS,
    renamed={"new": "initialize"},
    special={
        "class": _class,
        "module": _class,
        "singleton_class": _singleton_class,
        "method": _method,
        "singleton_method": _method,
        "alias": _alias,
        "assignment": _assignment,
        "call": _call,
        "super": lambda extraction, node: extraction.mention_inherited(node),
        "method_parameters": _parameters,
        "block_parameters": _parameters,
        "lambda_parameters": _parameters,
        "in_clause": _in_clause,
    },
    is_exported=_is_exported,
    is_test=_is_test,
    documented_type=_documented_type,
    filenames=("Rakefile", "Gemfile", "Guardfile", "Capfile", "Vagrantfile", "Podfile", "Fastfile", "Brewfile", "Dangerfile", "Thorfile"),
    interpreters=("ruby", "jruby", "rake"),
)  # fmt: skip
