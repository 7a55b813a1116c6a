"""Rust."""

from __future__ import annotations

__all__ = ["RUST"]

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from periplus.code.languages.table import Access, Extraction, Language, Local, Naming

if TYPE_CHECKING:
    import tree_sitter

_BUILTINS: Final = frozenset(
    "bool char f32 f64 i8 i16 i32 i64 i128 isize str u8 u16 u32 u64 u128 usize String Vec Option Some None Result Ok Err Box Clone Copy Debug "
    "Default Drop Eq Fn FnMut FnOnce From Into IntoIterator Iterator DoubleEndedIterator ExactSizeIterator Extend Hash Ord PartialEq "
    "PartialOrd Send Sized Sync ToOwned ToString TryFrom TryInto Unpin AsRef AsMut FromIterator drop _ true false".split()
)
# Their arguments are expressions.
_STANDARD_MACROS: Final = frozenset(
    "assert assert_eq assert_ne cfg column compile_error concat dbg debug_assert debug_assert_eq debug_assert_ne env eprint eprintln file "
    "format format_args include include_bytes include_str line matches module_path option_env panic print println stringify thread_local todo "
    "unimplemented unreachable vec write writeln".split()
)
_WRAPPERS: Final = frozenset(
    "Option Result Box Rc Arc RefCell Cell Mutex RwLock Cow Pin Ref RefMut MutexGuard Weak OnceCell OnceLock LazyLock Lazy ManuallyDrop "
    "MaybeUninit NonNull".split()
)
_LISTS: Final = frozenset("Vec VecDeque HashSet BTreeSet BinaryHeap LinkedList SmallVec ArrayVec IndexSet".split())
_MAPS: Final = frozenset("HashMap BTreeMap IndexMap".split())
_IDENTITIES: Final = frozenset(
    "unwrap expect unwrap_or unwrap_or_else unwrap_or_default clone cloned copied as_ref as_mut as_deref as_deref_mut borrow borrow_mut "
    "to_owned ok ok_or ok_or_else context with_context map_err iter iter_mut into_iter".split()
)
_PARTLY: Final = frozenset({"Some", "Ok"})
_TEST: Final = re.compile(r"#\[\s*(?:\w+\s*::\s*)*(?:test|rstest|test_case|quickcheck|bench)\b")
_PATH_ATTRIBUTE: Final = re.compile(r'#\[\s*path\s*=\s*"([^"]*)"')
_PATTERNS: Final = frozenset(
    {
        "tuple_pattern",
        "slice_pattern",
        "ref_pattern",
        "mut_pattern",
        "reference_pattern",
        "or_pattern",
        "captured_pattern",
        "match_pattern",
    }
)
_NAME_TOKENS: Final = frozenset({"identifier", "self", "crate", "super"})
_JOINING: Final = frozenset({".", "::", "?", "!"})
_OPEN: Final = ord("(")
_BRACE: Final = ord("{")
_TOKENS_MAX: Final = 20_000


class _Pattern(NamedTuple):
    """``names`` that a pattern binds, ``only`` that one whose class is that of the value; ``others`` are its paths and literals."""

    names: list[str]
    only: str
    others: list[tree_sitter.Node]


def _use(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Take a tree of `use` apart. Within a module of the file, paths are written as the file itself would."""
    argument = node.child_by_field_name("argument")
    waiting: list[tuple[tree_sitter.Node, list[str]]] = [(argument, [])] if argument is not None else []
    while waiting:
        at, before = waiting.pop()
        if at.type == "scoped_use_list":
            path, inner = at.child_by_field_name("path"), at.child_by_field_name("list")
            prefix = [*before, *(_path(extraction, path) if path is not None else ())]
            waiting += [(child, prefix) for child in (inner.named_children[::-1] if inner is not None else ())]
        elif at.type == "use_list":
            waiting += [(child, before) for child in at.named_children[::-1]]
        elif at.type == "use_wildcard":
            whole = [*before, *(part for child in at.named_children[:1] for part in _path(extraction, child))]
            extraction.add_import(at, _in_file(extraction, whole), "*", is_inner=bool(extraction.modules))
        else:
            alias = at.child_by_field_name("alias") if at.type == "use_as_clause" else None
            path = at.child_by_field_name("path") if at.type == "use_as_clause" else at
            if path is not None and path.type in ("identifier", "scoped_identifier", "self", "crate", "super"):
                _import(extraction, path, before, extraction.text(alias) if alias is not None else "")


def _import(extraction: Extraction, node: tree_sitter.Node, before: list[str], alias: str) -> None:
    parts = [*before, *_path(extraction, node)]
    if len(parts) > 1 and parts[-1] == "self":  # a::{self}
        parts.pop()
    local = alias or parts[-1]
    local = "" if local in ("_", "self", "super", "crate") else local
    module, _, name = _in_file(extraction, parts).rpartition("::")
    last = node.child_by_field_name("name") or node
    is_inner = bool(extraction.modules)
    extraction.add_import(last, module or name, name if module else "", local, is_inner=is_inner)


def _path(extraction: Extraction, node: tree_sitter.Node) -> list[str]:
    return ["".join(part.split()) for part in extraction.text(node).split("::") if part.strip()]


def _in_file(extraction: Extraction, parts: list[str]) -> str:
    """Return the path ``parts`` as the module of the whole file would write it."""
    modules = extraction.modules
    if modules and parts[0] in ("self", "super"):
        rest = parts[1:] if parts[0] == "self" else parts
        while rest and rest[0] == "super" and modules:
            modules, rest = modules[:-1], rest[1:]
        parts = rest if rest and rest[0] == "super" else ["self", *modules, *rest]
    return "::".join(parts)


def _extern_crate(extraction: Extraction, node: tree_sitter.Node) -> None:
    name, alias = node.child_by_field_name("name"), node.child_by_field_name("alias")
    if name is not None:
        extraction.add_import(name, extraction.text(name), "", extraction.text(alias or name))


def _begin_module(extraction: Extraction, node: tree_sitter.Node) -> Sequence[tree_sitter.Node]:
    """Note the file of a module that has no body; in one with a body let ``self`` and ``super`` stand for modules."""
    name = node.child_by_field_name("name")
    if node.child_by_field_name("body") is not None or name is None:
        extraction.bind_module("self", 0)
        extraction.bind_module("super", 1)
        return ()
    module = "::".join(["self", *extraction.modules])
    before = node.prev_named_sibling
    while before is not None and before.type in ("attribute_item", "line_comment", "block_comment"):
        if (found := _PATH_ATTRIBUTE.match(extraction.text(before))) is not None:
            module = f"./{found[1].removeprefix('./')}"
        before = before.prev_named_sibling
    extraction.add_import(name, module)
    return ()


def _begin_type(extraction: Extraction, _node: tree_sitter.Node) -> Sequence[tree_sitter.Node]:
    extraction.bind_instance("Self", is_class=True)
    return ()


def _begin_impl(extraction: Extraction, node: tree_sitter.Node) -> Sequence[tree_sitter.Node]:
    """Bind ``Self``; a trait that is implemented is a base of the type."""
    type_, trait = node.child_by_field_name("type"), node.child_by_field_name("trait")
    if type_ is None:
        return ()
    extraction.bind("Self", _pointed(type_))
    if trait is None:
        return ()
    extraction.bind("impl")  # no name can be so: `_is_exported` asks for it
    bare = _pointed(type_)
    if bare.type == "generic_type":
        bare = bare.child_by_field_name("type") or bare
    extraction.extend_named(extraction.text(bare), trait)
    return (trait,)


def _pointed(node: tree_sitter.Node) -> tree_sitter.Node:
    while node.type in ("reference_type", "pointer_type") and (inner := node.child_by_field_name("type")) is not None:
        node = inner
    return node


def _self(extraction: Extraction, _node: tree_sitter.Node) -> None:
    extraction.bind_instance_of("self", "Self")


def _type_parameter(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Bind the parameter of a type to the first trait that bounds it and is none of the language's own."""
    name, bounds = node.child_by_field_name("name"), node.child_by_field_name("bounds")
    if name is None:
        return
    traits = [one for one in bounds.named_children if one.type != "lifetime"] if bounds is not None else []
    known = [one for one in traits if extraction.text(one).partition("<")[0] not in _BUILTINS]
    extraction.bind(extraction.text(name), known[0] if known and known[0].type.endswith("type_identifier") else None)
    extraction.visit(bounds, node.child_by_field_name("default_type"))


def _constant_parameter(extraction: Extraction, node: tree_sitter.Node) -> None:
    name = node.child_by_field_name("name")
    if name is not None:
        extraction.bind(extraction.text(name))
    extraction.visit(node.child_by_field_name("type"))


def _field(extraction: Extraction, node: tree_sitter.Node) -> None:
    name, type_ = node.child_by_field_name("name"), node.child_by_field_name("type")
    if name is not None and type_ is not None:
        extraction.define(node, name, "field", type_=type_, inside=(type_,))


def _ordered_fields(extraction: Extraction, node: tree_sitter.Node) -> None:
    types = node.children_by_field_name("type")
    for at, type_ in enumerate(types if extraction.binds("Self") else ()):  # not those of a variant
        extraction.note_attribute(str(at), type_)
    extraction.visit(*types)


def _taken_apart(extraction: Extraction, pattern: tree_sitter.Node) -> _Pattern:
    """Return the names that ``pattern`` binds. A name that begins with a capital is a constant or a variant."""
    found = _Pattern([], "", [])
    only = ""
    waiting: list[tuple[tree_sitter.Node, bool]] = [(pattern, True)]
    while waiting:
        node, is_whole = waiting.pop()
        kind = node.type
        if kind in ("identifier", "shorthand_field_identifier"):
            text = extraction.text(node)
            if text[:1].isupper():
                found.others.append(node)
            elif text != "_":
                found.names.append(text)
                only = text if is_whole else only
        elif kind == "tuple_struct_pattern":
            type_ = node.child_by_field_name("type")
            inner = [child for child in node.named_children if type_ is None or child.id != type_.id]
            is_part = type_ is not None and len(inner) == 1 and extraction.text(type_) in _PARTLY
            found.others.extend([type_] if type_ is not None else [])
            waiting += [(child, is_whole and is_part) for child in inner[::-1]]
        elif kind == "struct_pattern":
            _struct_pattern(extraction, node, found, waiting)
        elif kind in _PATTERNS:
            condition = node.child_by_field_name("condition") if kind == "match_pattern" else None
            inner = [child for child in node.named_children if condition is None or child.id != condition.id]
            keeps = is_whole and kind not in ("tuple_pattern", "slice_pattern")
            waiting += [(child, keeps) for child in inner[::-1]]
        elif kind not in ("mutable_specifier", "remaining_field_pattern"):
            found.others.append(node)
    return found._replace(only=only)


def _struct_pattern(
    extraction: Extraction, node: tree_sitter.Node, found: _Pattern, waiting: list[tuple[tree_sitter.Node, bool]]
) -> None:
    type_ = node.child_by_field_name("type")
    for child in node.named_children:
        if child.type == "field_pattern":
            name, inner = child.child_by_field_name("name"), child.child_by_field_name("pattern")
            if name is not None:
                extraction.reach(name, type_)
                waiting.append((inner if inner is not None else name, False))
        else:
            found.others.append(child)


def _bind(
    extraction: Extraction,
    pattern: tree_sitter.Node | None,
    value: tree_sitter.Node | None,
    type_: tree_sitter.Node | None,
    *before: tree_sitter.Node | None,
    is_element: bool = False,
) -> None:
    if pattern is None:
        extraction.visit(*before)
        return
    found = _taken_apart(extraction, pattern)
    names = [Local(one, value, type_, is_element) if one == found.only else Local(one) for one in found.names]
    extraction.bind_after(names, *found.others, *before)


def _let(extraction: Extraction, node: tree_sitter.Node) -> None:
    value, type_ = node.child_by_field_name("value"), node.child_by_field_name("type")
    others = (type_, value, node.child_by_field_name("alternative"))
    _bind(extraction, node.child_by_field_name("pattern"), value, type_, *others)


def _for(extraction: Extraction, node: tree_sitter.Node) -> None:
    value, body = node.child_by_field_name("value"), node.child_by_field_name("body")
    extraction.open_scope()
    extraction.visit(body)
    _bind(extraction, node.child_by_field_name("pattern"), value, None, value, is_element=True)


def _match_pattern(extraction: Extraction, node: tree_sitter.Node) -> None:
    extraction.visit(node.child_by_field_name("condition"))  # after the names are bound
    _bind(extraction, node, None, None)


def _parameter(extraction: Extraction, node: tree_sitter.Node) -> None:
    pattern, type_ = node.child_by_field_name("pattern"), node.child_by_field_name("type")
    if pattern is not None and pattern.type == "self":
        extraction.bind_instance_of("self", "Self")
        extraction.visit(type_)
    else:
        _bind(extraction, pattern, None, type_, type_)


def _closure_parameters(extraction: Extraction, node: tree_sitter.Node) -> None:
    for child in node.named_children:
        if child.type == "parameter":
            _parameter(extraction, child)
        else:
            _bind(extraction, child, None, None)


def _struct_expression(extraction: Extraction, node: tree_sitter.Node) -> None:
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    visited: list[tree_sitter.Node | None] = [name]
    for child in body.named_children if body is not None else ():
        field = child.child_by_field_name("field") if child.type == "field_initializer" else None
        if field is not None:
            extraction.reach(field, name)
            visited.append(child.child_by_field_name("value"))
        else:
            visited.append(child)
    extraction.visit(*visited)


def _macro(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Refer to the macro, and to the names among its tokens."""
    macro = node.child_by_field_name("macro")
    tokens = node.named_children[-1] if node.named_children else None
    name = _path(extraction, macro)[-1:] if macro is not None else []
    is_standard = bool(name) and name[0] in _STANDARD_MACROS
    if macro is not None and not is_standard:
        names = _path(extraction, macro)
        last = macro.child_by_field_name("name") or macro
        extraction.refer_to(last, names, is_call=True, is_certain=True, is_path=len(names) > 1)
    if tokens is None or tokens.type != "token_tree":
        return
    if not extraction.is_in_function and extraction.data[tokens.start_byte] == _BRACE:
        root = extraction.parse_inside(tokens)  # such as ``cfg_if! { … }`` around items
        if root is not None:
            extraction.visit(root)
            return
    _refer_to_tokens(extraction, tokens, is_certain=is_standard)


def _refer_to_tokens(extraction: Extraction, tree: tree_sitter.Node, *, is_certain: bool) -> None:
    """Refer to the names in ``tree`` as if it were an expression, which it is for the macros of the language itself."""
    waiting = [(tree, is_certain)]
    looks = 0
    while waiting:
        names: list[str] = []
        last = ""
        is_path = is_macro = False
        at, is_certain = waiting.pop()
        children = at.children
        for number, child in enumerate(children):
            looks += 1
            if looks > _TOKENS_MAX:
                return
            kind = child.type
            if kind in _NAME_TOKENS:
                after = children[number + 1] if number + 1 < len(children) else child
                text = extraction.text(child)
                is_joined = last in (".", "::") and bool(names)
                names = [*names, text] if is_joined else [text]
                is_path = is_joined and (is_path or (last == "::" and len(names) == 2))
                is_macro = after.type == "!"
                is_call = is_macro or (after.type == "token_tree" and extraction.data[after.start_byte] == _OPEN)
                if last == "." and not is_joined:
                    extraction.reach(child, None)
                    names = []
                elif (
                    text not in _BUILTINS
                    and names != ["self"]
                    and (is_joined or after.type != "=")
                    and not (is_macro and text in _STANDARD_MACROS)
                ):
                    extraction.refer_to(child, names, is_call=is_call, is_certain=is_certain, is_path=is_path)
                if is_call and not is_macro and names:
                    names = [*names, "()"]
            elif kind == "token_tree":
                waiting.append(
                    (child, is_certain and (not is_macro or (bool(names) and names[-1] in _STANDARD_MACROS)))
                )
                if is_macro or extraction.data[child.start_byte] != _OPEN:
                    names = []
                is_macro = False
            elif kind not in _JOINING:
                names = []
            last = kind if kind != "?" else last


def _unwrap(extraction: Extraction, node: tree_sitter.Node) -> tuple[tree_sitter.Node | None, bool]:
    """Return the type that a generic one wraps, or lists."""
    type_, arguments = node.child_by_field_name("type"), node.child_by_field_name("type_arguments")
    name = extraction.text(type_).rpartition("::")[2] if type_ is not None else ""
    inside = [one for one in arguments.named_children if one.type != "lifetime"] if arguments is not None else []
    if name in _WRAPPERS and inside:
        return inside[0], False
    if name in _LISTS and inside:
        return inside[0], True
    if name in _MAPS and len(inside) > 1:
        return inside[1], True
    return type_, False


def _is_exported(extraction: Extraction, node: tree_sitter.Node, _name: str) -> bool:
    if node.type in ("enum_variant", "macro_definition", "associated_type"):
        return True
    if any(child.type == "visibility_modifier" for child in node.named_children[:2]):
        return True
    return extraction.binds("impl")


def _begin_trait(extraction: Extraction, _node: tree_sitter.Node) -> Sequence[tree_sitter.Node]:
    extraction.bind_instance("Self", is_class=True)
    extraction.bind("impl")
    return ()


def _is_test(_name: str, kind: str, decorations: str) -> bool:
    return kind in ("function", "method") and _TEST.search(decorations) is not None


RUST: Final = Language(
    "rust", (".rs",), "tree_sitter_rust", "language",
    {
        "function_item": Naming("function", type="return_type"),
        "function_signature_item": Naming("function", type="return_type"),
        "struct_item": Naming("struct", is_class=True, begin=_begin_type),
        "enum_item": Naming("enum", is_class=True, begin=_begin_type),
        "union_item": Naming("union", is_class=True, begin=_begin_type),
        "trait_item": Naming("trait", is_class=True, bases=("bounds",), begin=_begin_trait),
        "enum_variant": Naming("value"),
        "type_item": Naming("type", type="type"),
        "associated_type": Naming("type"),
        "mod_item": Naming("module", begin=_begin_module),
        "macro_definition": Naming("macro"),
        "const_item": Naming("value", is_outer=True, type="type", value="value"),
        "static_item": Naming("value", is_outer=True, type="type", value="value"),
        "impl_item": Naming("", ("type/~type_identifier|primitive_type",), begin=_begin_impl),
    },
    functions=frozenset({"function_item", "function_signature_item", "closure_expression"}),
    leading=frozenset({"attribute_item"}),
    scopes=frozenset({"block", "match_arm", "if_expression", "while_expression"}),
    has_bare_members=False,
    marks_calls=True,
    names=frozenset({"identifier", "type_identifier", "self", "crate", "super"}),
    accesses={
        "field_expression": Access("value", "field"),
        "scoped_identifier": Access("path", "name", is_path=True),
        "scoped_type_identifier": Access("path", "name", is_path=True),
        "call_expression": Access("function", step="()"),
        "index_expression": Access(0, step="[]"),
        "struct_expression": Access("name", step="()"),
        "generic_type": Access("type"),
        "generic_type_with_turbofish": Access("type"),
        "generic_function": Access("function"),
    },
    transparent={
        "parenthesized_expression": 0, "unary_expression": 0, "reference_expression": "value", "try_expression": 0, "await_expression": 0,
        "bracketed_type": 0, "qualified_type": "type",
    },
    skips=frozenset(
        {"attribute", "inner_attribute_item", "lifetime", "label", "visibility_modifier", "macro_rule", "primitive_type", "mutable_specifier",
         "shebang", "string_literal", "char_literal"}
    ),
    comments=frozenset({"line_comment", "block_comment"}),
    literals=frozenset(
        {"string_literal", "raw_string_literal", "char_literal", "integer_literal", "float_literal", "boolean_literal", "array_expression",
         "tuple_expression", "closure_expression", "unit_expression", "primitive_type"}
    ),
    selves=frozenset(),
    supers=frozenset(),
    type_wrappers={
        "reference_type": "type", "pointer_type": "type", "abstract_type": "trait", "dynamic_type": "trait", "bounded_type": 0,
        "parenthesized_type": 0,
    },
    list_types={"array_type": "element"},
    unwraps={"generic_type": _unwrap},
    identities=_IDENTITIES,
    builtins=_BUILTINS,
    special={
        "use_declaration": _use,
        "extern_crate_declaration": _extern_crate,
        "self_parameter": _self,
        "parameter": _parameter,
        "closure_parameters": _closure_parameters,
        "type_parameter": _type_parameter,
        "const_parameter": _constant_parameter,
        "field_declaration": _field,
        "ordered_field_declaration_list": _ordered_fields,
        "let_declaration": _let,
        "let_condition": _let,
        "for_expression": _for,
        "match_pattern": _match_pattern,
        "struct_expression": _struct_expression,
        "macro_invocation": _macro,
    },
    is_exported=_is_exported,
    is_test=_is_test,
)  # fmt: skip
