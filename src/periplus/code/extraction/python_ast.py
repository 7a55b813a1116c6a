"""Syntax trees of Python without its parser: the tree of the module ``ast`` in the shape that the walk knows from tree-sitter.

A `Node` has the type, the fields and the children of the node that tree-sitter's grammar of Python has in its place, as far as the row of
Python and the walk look at them; children are made when they are asked for, so that nothing here recurses. ``ast`` tells no places of
names in definitions, imports and patterns: they are looked for in the bytes at their node's beginning or end. Round brackets around an
expression are no nodes of ``ast``; they are found where they change what the walk concludes (values and conditions). Comments are taken
from the gaps between statements. Before Python 3.12 places inside of f-strings are wrong, so their expressions are parsed one by one.
"""

from __future__ import annotations

__all__ = ["tree_of"]

import ast
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Final

from periplus.code.extraction.grammar import BrokenSource
from periplus.code.extraction.python_nodes import (
    STRING,
    STRING_OR_COMMENT,
    Make,
    Node,
    Source,
    bracket_end,
    definition_end,
    expression_end,
    quoted,
)  # fmt: skip

_IDENTIFIER: Final = re.compile(rb"[\w\x80-\xff]+")
_TAIL: Final = re.compile(rb"(?<![\w\x80-\xff])[\w\x80-\xff]++\Z")
_KEYWORD_NAME: Final = re.compile(rb"(?:async[\s\\]+)?(?:def|class|type)[\s\\]+([\w\x80-\xff]+)")
_FROM: Final = re.compile(rb"from[\s\\]*([.\s\\]*)")
_DOTTED: Final = re.compile(rb"[\w\x80-\xff]+(?:\s*\.\s*[\w\x80-\xff]+)*")
_ALIAS: Final = re.compile(rb"[\s\\)]*as[\s\\]+([\w\x80-\xff]+)")
_COMMENT: Final = re.compile(rb"^[ \t\f]*(#[^\r\n]*)", re.MULTILINE)
_BOM: Final = b"\xef\xbb\xbf"
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_SPACE: Final = b" \t\r\n\f\\"
_DEFINING: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_DEPTH_MAX: Final = 4  # of format specifications within one another
_PLACES_FIT: Final = sys.version_info >= (3, 12)


def tree_of(data: bytes) -> Node:
    """Return the tree of ``data``, which is UTF-8. Raises BrokenSource."""
    text = data.decode("utf-8-sig")
    try:
        tree = _parsed(text, "exec")
    except SyntaxError as error:
        raise BrokenSource(f"it is not valid Python (line {error.lineno or 1})") from error
    except (RecursionError, MemoryError) as error:
        raise BrokenSource("it nests too deeply") from error
    except ValueError as error:
        raise BrokenSource("it is not valid Python (line 1)") from error
    first = len(_BOM) if data.startswith(_BOM) else 0
    ends = [match.end() for match in _LINE_END.finditer(data)]
    breaks = [0, *(match.end() for match in re.finditer(rb"\n", data))]
    return Node(Source(data, [first, *ends], breaks), "module", 0, len(data), _module, tree)


def _parsed(text: str, mode: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of strings with unknown escapes and the like, which are the project's affair
        return ast.parse(text, mode=mode)


# -- parts of all nodes --------------------------------------------------------------------------------------------------


def _leaf(node: Node, type_: str, span: tuple[int, int], field: str = "") -> Node:
    return Node(node.source, type_, *span, field=field)


def _of(node: Node, tree: Any, field: str = "") -> Node:
    """Return the node for the expression, statement or pattern ``tree``."""
    source = node.source
    type_, make = _SHAPES.get(type(tree), _OTHER)
    start, end = source.start(tree), source.end(tree)
    if isinstance(tree, _DEFINING):
        end = definition_end(source, tree)
    if isinstance(tree, ast.Constant):
        type_, make = _constant_shape(source.data, start, end, tree.value)
    elif isinstance(tree, (ast.Tuple, ast.List, ast.Starred)):
        type_ = _collection_type(source.data, start, end, tree)
    return Node(source, type_, start, end, make, tree, field)


def _value(node: Node, tree: Any, field: str, floor: int) -> Node:
    """Return the node for an expression that may stand in brackets of its own, all behind the byte ``floor``."""
    inner = _of(node, tree, field)
    data = node.source.data
    before = data[floor : inner.start_byte].rstrip(_SPACE)
    if not before.endswith(b"("):
        return inner
    end = data.find(b")", inner.end_byte) + 1 or inner.end_byte
    return Node(
        node.source, "parenthesized_expression", floor + len(before) - 1, end, lambda _, __: [inner], field=field
    )


def _type(node: Node, tree: Any, field: str = "") -> Node:
    start, end = node.source.start(tree), node.source.end(tree)
    return Node(node.source, "type", start, end, lambda at, of: [_of(at, of)], tree, field)


def _block(node: Node, body: Sequence[ast.stmt], field: str, floor: int) -> Node:
    start, end = _begin(node.source, body[0]), node.source.end(body[-1])
    return Node(node.source, "block", start, end, lambda at, of: _statements(at, of, floor), body, field)


def _begin(source: Source, statement: Any) -> int:
    """Return the byte where ``statement`` begins, with its decorators."""
    decorators = getattr(statement, "decorator_list", None)
    return source.data.rfind(b"@", 0, source.start(decorators[0])) if decorators else source.start(statement)


def _statements(node: Node, body: Sequence[ast.stmt], floor: int) -> Iterator[Node]:
    """Make the statements of a block, and the comments before each."""
    source = node.source
    for statement in body:
        start, end = _begin(source, statement), source.end(statement)
        if isinstance(statement, _DEFINING):
            end = definition_end(source, statement)
        for found in _COMMENT.finditer(source.data, floor, start):
            yield _leaf(node, "comment", found.span(1))
        floor = end
        if getattr(statement, "decorator_list", None):
            yield Node(source, "decorated_definition", start, end, _decorated, statement)
        elif isinstance(statement, (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign)):
            yield Node(source, "expression_statement", start, end, _expression_statement, statement)
        else:
            yield _of(node, statement)


def _module(node: Node, tree: ast.Module) -> Iterator[Node]:
    return _statements(node, tree.body, 0)


def _generic(node: Node, tree: ast.AST) -> list[Node]:
    """Make the parts that have places of their own, in the order of the source."""
    parts = [_of(node, part) for part in ast.iter_child_nodes(tree) if hasattr(part, "lineno")]
    parts.sort(key=lambda part: part.start_byte)
    return parts


def _span_at(node: Node, start: int) -> tuple[int, int]:
    """Return the span of the name at ``start``."""
    found = _IDENTIFIER.match(node.source.data, start)
    return found.span() if found is not None else (start, start)


def _span_before(node: Node, start: int, end: int) -> tuple[int, int]:
    """Return the span of the name that ends at ``end`` and begins at or after ``start``."""
    found = _TAIL.search(node.source.data, start, end)
    return found.span() if found is not None else (end, end)


# -- statements ----------------------------------------------------------------------------------------------------------


def _decorated(node: Node, tree: Any) -> Iterator[Node]:
    for one in tree.decorator_list:
        start, end = node.source.start(one), node.source.end(one)
        yield Node(node.source, "decorator", start, end, lambda at, of: [_of(at, of)], one)
    yield _of(node, tree, "definition")


def _expression_statement(node: Node, tree: Any) -> list[Node]:
    if isinstance(tree, ast.Expr):
        return [_value(node, tree.value, "", node.start_byte)]
    return [_of(node, tree)]


def _assign(node: Node, tree: ast.Assign) -> list[Node]:
    return _chained(node, (tree, 0))


def _chained(node: Node, place: tuple[ast.Assign, int]) -> list[Node]:
    """Make ``a = b = value``: an assignment whose value is one again, from the target at a place on."""
    tree, number = place
    left = _of(node, tree.targets[number], "left")
    if number + 1 == len(tree.targets):
        return [left, _value(node, tree.value, "right", left.end_byte)]
    start = node.source.start(tree.targets[number + 1])
    return [left, Node(node.source, "assignment", start, node.end_byte, _chained, (tree, number + 1), "right")]


def _annotated(node: Node, tree: ast.AnnAssign) -> Iterator[Node]:
    yield _of(node, tree.target, "left")
    declared = _type(node, tree.annotation, "type")
    yield declared
    if tree.value is not None:
        yield _value(node, tree.value, "right", declared.end_byte)


def _augmented(node: Node, tree: ast.AugAssign) -> Iterator[Node]:
    yield _of(node, tree.target, "left")
    yield _of(node, tree.value, "right")


def _named(node: Node) -> Node:
    """Return the name after the word that begins a definition."""
    found = _KEYWORD_NAME.match(node.source.data, node.start_byte)
    return _leaf(node, "identifier", found.span(1) if found is not None else (node.start_byte,) * 2, "name")


def _type_parameters(node: Node, tree: Any) -> Iterator[Node]:
    for one in getattr(tree, "type_params", ()):
        span = node.source.start(one), node.source.end(one)
        yield Node(node.source, "type_parameter", *span, _type_parameter, one)


def _type_parameter(node: Node, tree: Any) -> Iterator[Node]:
    data = node.source.data
    stars = 2 if data.startswith(b"**", node.start_byte) else data.startswith(b"*", node.start_byte)
    yield _leaf(node, "identifier", _span_at(node, node.start_byte + stars))
    yield from (_type(node, part) for part in ast.iter_child_nodes(tree) if hasattr(part, "lineno"))


def _function(node: Node, tree: Any) -> Iterator[Node]:
    name = _named(node)
    yield name
    yield from _type_parameters(node, tree)
    yield Node(node.source, "parameters", name.end_byte, name.end_byte, _parameters, tree.args, "parameters")
    if tree.returns is not None:
        yield _type(node, tree.returns, "return_type")
    yield _block(node, tree.body, "body", _floor(node, name.end_byte, tree.args, tree.returns))


def _floor(node: Node, floor: int, arguments: ast.arguments, returns: ast.expr | None) -> int:
    """Return a byte behind all strings in the head of a function."""
    parts = [*ast.iter_child_nodes(arguments), *([returns] if returns is not None else [])]
    return max([floor, *(node.source.end(part) for part in parts)])


def _lambda(node: Node, tree: ast.Lambda) -> Iterator[Node]:
    start = node.start_byte
    yield Node(node.source, "lambda_parameters", start, start, _parameters, tree.args, "parameters")
    yield _of(node, tree.body, "body")


def _parameters(node: Node, tree: ast.arguments) -> Iterator[Node]:
    positional = [*tree.posonlyargs, *tree.args]
    without = len(positional) - len(tree.defaults)
    for number, one in enumerate(positional):
        yield _parameter(node, one, tree.defaults[number - without] if number >= without else None)
    if tree.vararg is not None:
        yield _parameter(node, tree.vararg, None, "list_splat_pattern")
    for one, default in zip(tree.kwonlyargs, tree.kw_defaults, strict=True):
        yield _parameter(node, one, default)
    if tree.kwarg is not None:
        yield _parameter(node, tree.kwarg, None, "dictionary_splat_pattern")


def _parameter(node: Node, tree: ast.arg, default: ast.expr | None, splat: str = "") -> Node:
    source = node.source
    span = _span_at(node, source.start(tree))
    name = _leaf(node, "identifier", span, "" if splat else "name")
    if splat:
        inner = name
        name = Node(source, splat, *span, lambda _, __: [inner])
    if tree.annotation is None and default is None:
        return name
    parts = [name]
    if tree.annotation is not None:
        parts.append(_type(node, tree.annotation, "type"))
    if default is None:
        return Node(source, "typed_parameter", *span, lambda _, __: parts)
    parts.append(_value(node, default, "value", parts[-1].end_byte))
    type_ = "default_parameter" if tree.annotation is None else "typed_default_parameter"
    return Node(source, type_, *span, lambda _, __: parts)


def _class(node: Node, tree: ast.ClassDef) -> Iterator[Node]:
    name = _named(node)
    yield name
    yield from _type_parameters(node, tree)
    floor = name.end_byte
    written = [*tree.bases, *tree.keywords]
    if written:
        start, end = min(map(node.source.start, written)), max(map(node.source.end, written))
        yield Node(node.source, "argument_list", start, end, _each, written, "superclasses")
        floor = end
    yield _block(node, tree.body, "body", floor)


def _each(node: Node, trees: Sequence[ast.AST]) -> list[Node]:
    return sorted((_of(node, tree) for tree in trees), key=lambda part: part.start_byte)


def _keyword(node: Node, tree: ast.keyword) -> Iterator[Node]:
    if tree.arg is not None:
        yield _leaf(node, "identifier", _span_at(node, node.start_byte), "name")
    yield _of(node, tree.value, "value")


def _type_alias(node: Node, tree: Any) -> Iterator[Node]:
    name = _named(node)
    yield Node(node.source, "type", *name.byte_range, lambda _, __: [name], field="left")
    yield from _type_parameters(node, tree)
    yield _type(node, tree.value, "right")


def _for(node: Node, tree: Any) -> Iterator[Node]:
    left = _of(node, tree.target, "left")
    right = _value(node, tree.iter, "right", left.end_byte)
    yield left
    yield right
    yield from _bodies(node, tree, right.end_byte)


def _bodies(node: Node, tree: Any, floor: int) -> Iterator[Node]:
    """Make the body of a loop, and what comes after it."""
    body = _block(node, tree.body, "body", floor)
    yield body
    if tree.orelse:
        yield _block(node, tree.orelse, "alternative", body.end_byte)


def _while(node: Node, tree: ast.While) -> Iterator[Node]:
    condition = _value(node, tree.test, "condition", node.start_byte)
    yield condition
    yield from _bodies(node, tree, condition.end_byte)


def _if(node: Node, tree: ast.If) -> Iterator[Node]:
    yield from _branch(node, tree)
    source = node.source
    while tree.orelse:
        floor = source.end(tree.body[-1])
        after = tree.orelse[0]
        start = source.start(after)
        if not isinstance(after, ast.If) or not source.data.startswith(b"elif", start):
            yield _block(node, tree.orelse, "alternative", floor)
            return
        yield Node(source, "elif_clause", start, source.end(after.body[-1]), _branch, after, "alternative")
        tree = after


def _branch(node: Node, tree: ast.If) -> Iterator[Node]:
    condition = _value(node, tree.test, "condition", node.start_byte)
    yield condition
    yield _block(node, tree.body, "consequence", condition.end_byte)


def _with(node: Node, tree: Any) -> Iterator[Node]:
    for item in tree.items:
        start, end = node.source.start(item.context_expr), node.source.end(item.optional_vars or item.context_expr)
        yield Node(node.source, "with_item", start, end, _with_item, item)
    last = tree.items[-1]
    yield _block(node, tree.body, "body", node.source.end(last.optional_vars or last.context_expr))


def _with_item(node: Node, tree: ast.withitem) -> list[Node]:
    if tree.optional_vars is None:
        return [_of(node, tree.context_expr, "value")]
    return [Node(node.source, "as_pattern", *node.byte_range, _as_pattern, tree, "value")]


def _as_pattern(node: Node, tree: ast.withitem) -> list[Node]:
    assert tree.optional_vars is not None
    target = _of(node, tree.optional_vars)
    alias = Node(node.source, "as_pattern_target", *target.byte_range, lambda _, __: [target], field="alias")
    return [_of(node, tree.context_expr), alias]


def _try(node: Node, tree: Any) -> Iterator[Node]:
    yield _block(node, tree.body, "body", node.start_byte)
    floor = node.source.end(tree.body[-1])
    for one in tree.handlers:
        yield _of(node, one)
        floor = node.source.end(one)
    for body in (tree.orelse, tree.finalbody):
        if body:
            yield _block(node, body, "body", floor)
            floor = node.source.end(body[-1])


def _handler(node: Node, tree: ast.ExceptHandler) -> Iterator[Node]:
    floor = node.start_byte
    if tree.type is not None:
        caught = _of(node, tree.type)
        floor = caught.end_byte
        found = _ALIAS.match(node.source.data, floor) if tree.name is not None else None
        if found is None:
            yield caught
        else:
            floor = found.end()
            name = _leaf(node, "identifier", found.span(1))
            alias = Node(node.source, "as_pattern_target", *name.byte_range, lambda _, __: [name], field="alias")
            yield Node(node.source, "as_pattern", caught.start_byte, floor, lambda _, __: [caught, alias])
    yield _block(node, tree.body, "body", floor)


def _outer_names(node: Node, _: object) -> list[Node]:
    spans = [found.span() for found in _IDENTIFIER.finditer(node.source.data, node.start_byte, node.end_byte)]
    return [_leaf(node, "identifier", span) for span in spans[1:]]


def _assert(node: Node, tree: ast.Assert) -> Iterator[Node]:
    yield _value(node, tree.test, "", node.start_byte)
    if tree.msg is not None:
        yield _of(node, tree.msg)


# -- imports -------------------------------------------------------------------------------------------------------------


def _import(node: Node, tree: Any) -> Iterator[Node]:
    for one in tree.names:
        start, end = node.source.start(one), node.source.end(one)
        found = _DOTTED.match(node.source.data, start, end)
        if found is None:
            yield _leaf(node, "wildcard_import", (start, end))
            continue
        name = _leaf(node, "dotted_name", found.span(), "name")
        if one.asname is None:
            yield name
        else:
            yield Node(node.source, "aliased_import", start, end, _aliased, name)


def _aliased(node: Node, name: Node) -> list[Node]:
    return [name, _leaf(node, "identifier", _span_before(node, name.end_byte, node.end_byte), "alias")]


def _import_from(node: Node, tree: ast.ImportFrom) -> Iterator[Node]:
    data = node.source.data
    begun = _FROM.match(data, node.start_byte)
    if begun is not None and not (tree.level == 0 and tree.module == "__future__"):
        start, end = begun.span(1)
        module = _DOTTED.match(data, end) if tree.module is not None else None
        span = (start, module.end() if module is not None else start + len(begun[1].rstrip(_SPACE)))
        yield _leaf(node, "relative_import" if tree.level else "dotted_name", span, "module_name")
    yield from _import(node, tree)


# -- expressions ---------------------------------------------------------------------------------------------------------


def _attribute(node: Node, tree: ast.Attribute) -> list[Node]:
    reached = _of(node, tree.value, "object")
    name = _leaf(node, "identifier", _span_before(node, reached.end_byte, node.end_byte), "attribute")
    return [reached, name]


def _call(node: Node, tree: ast.Call) -> list[Node]:
    function = _of(node, tree.func, "function")
    written = [*tree.args, *tree.keywords]
    span = (function.end_byte, node.end_byte)
    return [function, Node(node.source, "argument_list", *span, _each, written, "arguments")]


def _subscript(node: Node, tree: ast.Subscript) -> list[Node]:
    inside = _of(node, tree.slice, "subscript")
    parts = inside.children if inside.type == "expression_list" else [inside]
    return [_of(node, tree.value, "value"), *parts]


def _boolean(node: Node, tree: ast.BoolOp) -> list[Node]:
    return _operation(node, (tree, len(tree.values) - 1))


def _operation(node: Node, place: tuple[ast.BoolOp, int]) -> list[Node]:
    """Make ``a or b or c``: an operation whose left side is one again, up to the value at a place."""
    tree, number = place
    end = node.source.end(tree.values[number - 1])
    if number > 1:
        rest = (tree, number - 1)
        left = Node(node.source, "boolean_operator", node.start_byte, end, _operation, rest, "left")
    else:
        left = _value(node, tree.values[0], "left", node.start_byte)
    word = _leaf(node, "and" if isinstance(tree.op, ast.And) else "or", (end, end), "operator")
    return [left, word, _value(node, tree.values[number], "right", end)]


def _conditional(node: Node, tree: ast.IfExp) -> list[Node]:
    first = _value(node, tree.body, "", node.start_byte)
    test = _value(node, tree.test, "", first.end_byte)
    return [first, test, _value(node, tree.orelse, "", test.end_byte)]


def _named_expression(node: Node, tree: ast.NamedExpr) -> list[Node]:
    name = _of(node, tree.target, "name")
    return [name, _value(node, tree.value, "value", name.end_byte)]


def _comprehension(node: Node, tree: Any) -> Iterator[Node]:
    yield from (_of(node, part) for part in ((tree.key, tree.value) if isinstance(tree, ast.DictComp) else (tree.elt,)))
    for one in tree.generators:
        start, end = node.source.start(one.target), node.source.end(one.iter)
        yield Node(node.source, "for_in_clause", start, end, _for_in, one)
        yield from (_of(node, test) for test in one.ifs)


def _for_in(node: Node, tree: ast.comprehension) -> list[Node]:
    left = _of(node, tree.target, "left")
    return [left, _value(node, tree.iter, "right", left.end_byte)]


def _constant_shape(data: bytes, start: int, end: int, value: object) -> tuple[str, Make | None]:
    if isinstance(value, (str, bytes)):
        found = STRING.match(data, start, end)
        return ("string", _string) if found is not None and found.end() == end else ("concatenated_string", None)
    if value is None:
        return "none", None
    if isinstance(value, bool):
        return "true" if value else "false", None
    return "ellipsis" if value is ... else "integer" if isinstance(value, int) else "float", None


def _string(node: Node, _tree: object) -> Iterator[Node]:
    start, end = quoted(node.source.data, node.start_byte, node.end_byte)
    yield _leaf(node, "string_start", (node.start_byte, start))
    if end > start:
        yield _leaf(node, "string_content", (start, end))
    yield _leaf(node, "string_end", (end, node.end_byte))


def _collection_type(data: bytes, start: int, end: int, tree: Any) -> str:
    is_pattern = isinstance(tree.ctx, ast.Store)
    if isinstance(tree, ast.Tuple):
        if data[start : start + 1] == b"(" and data[end - 1 : end] == b")":
            return "tuple_pattern" if is_pattern else "tuple"
        return "pattern_list" if is_pattern else "expression_list"
    return f"{'list' if isinstance(tree, ast.List) else 'list_splat'}{'_pattern' * is_pattern}"


# -- strings that interpolate --------------------------------------------------------------------------------------------


def _joined(node: Node, tree: ast.JoinedStr) -> Iterator[Node]:
    if _PLACES_FIT:
        yield from _generic(node, tree)
        return
    data = node.source.data
    for found in STRING_OR_COMMENT.finditer(data, node.start_byte, node.end_byte):
        if found[1] is not None and b"f" in found[1].lower():
            start, end = quoted(data, *found.span())
            yield from _interpolations(node, start, end, 0)


def _interpolations(node: Node, start: int, end: int, depth: int) -> Iterator[Node]:
    """Make the expressions between curly brackets in the span, those in format specifications too."""
    data = node.source.data
    at = start
    while (at := data.find(b"{", at, end)) >= 0:
        if data[at + 1 : at + 2] == b"{" and depth == 0:
            at += 2
            continue
        stop = expression_end(data, at + 1, end)
        yield from _interpolation(node, at + 1, stop)
        at = stop
        if data[at : at + 1] in (b":", b"!"):
            closed = bracket_end(data, at, end)
            if depth < _DEPTH_MAX:
                yield from _interpolations(node, at, closed, depth + 1)
            at = closed


def _interpolation(node: Node, start: int, end: int) -> Iterator[Node]:
    source = node.source
    text = source.data[start:end]
    bare = text.rstrip()
    if bare.endswith(b"=") and bare[-2:-1] not in b"=!<>":
        text = bare[:-1]
    try:
        tree = _parsed(f"({text.decode()})", "eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    starts = [start - 1, *(start + match.end() for match in _LINE_END.finditer(text))]
    inside = Source(source.data, starts, source.breaks)
    yield Node(inside, "interpolation", start, end, lambda at, of: [_of(at, of)], tree)


# -- patterns of match ---------------------------------------------------------------------------------------------------


def _match(node: Node, tree: ast.Match) -> Iterator[Node]:
    subject = _of(node, tree.subject, "subject")
    yield subject
    for one in tree.cases:
        start, end = node.source.start(one.pattern), node.source.end(one.body[-1])
        yield Node(node.source, "case_clause", start, end, _case, one)


def _case(node: Node, tree: ast.match_case) -> Iterator[Node]:
    pattern = _case_pattern(node, tree.pattern)
    yield pattern
    floor = pattern.end_byte
    if tree.guard is not None:
        guard = _of(node, tree.guard, "guard")
        yield guard
        floor = guard.end_byte
    yield _block(node, tree.body, "consequence", floor)


def _case_pattern(node: Node, tree: ast.pattern) -> Node:
    start, end = node.source.start(tree), node.source.end(tree)
    return Node(node.source, "case_pattern", start, end, lambda at, of: [_of(at, of)], tree)


def _cases(node: Node, tree: Any) -> list[Node]:
    return [_case_pattern(node, part) for part in tree.patterns]


def _dotted(node: Node, tree: ast.expr) -> Node:
    start, end = node.source.start(tree), node.source.end(tree)
    return Node(node.source, "dotted_name", start, end, _dotted_parts)


def _dotted_parts(node: Node, _: object) -> list[Node]:
    found = _IDENTIFIER.finditer(node.source.data, node.start_byte, node.end_byte)
    return [_leaf(node, "identifier", one.span()) for one in found]


def _match_value(node: Node, tree: ast.MatchValue) -> list[Node]:
    return [_dotted(node, tree.value) if isinstance(tree.value, ast.Attribute) else _of(node, tree.value)]


def _match_as(node: Node, tree: ast.MatchAs) -> Iterator[Node]:
    if tree.pattern is not None:
        yield _case_pattern(node, tree.pattern)
    if tree.name is not None:
        yield _leaf(node, "identifier", _span_before(node, node.start_byte, node.end_byte))


def _match_star(node: Node, tree: ast.MatchStar) -> list[Node]:
    return [_leaf(node, "identifier", _span_before(node, node.start_byte, node.end_byte))] if tree.name else []


def _match_mapping(node: Node, tree: ast.MatchMapping) -> Iterator[Node]:
    for key, pattern in zip(tree.keys, tree.patterns, strict=True):
        yield _dotted(node, key) if isinstance(key, ast.Attribute) else _of(node, key)
        yield _case_pattern(node, pattern)
    if tree.rest is not None:
        end = node.source.data.rfind(tree.rest.encode(), node.start_byte, node.end_byte)
        yield _leaf(node, "identifier", _span_at(node, end) if end >= 0 else (node.end_byte,) * 2)


def _match_class(node: Node, tree: ast.MatchClass) -> Iterator[Node]:
    yield _dotted(node, tree.cls)
    yield from _cases(node, tree)
    for pattern in tree.kwd_patterns:
        yield Node(
            node.source, "keyword_pattern", node.source.start(pattern), node.source.end(pattern),
            lambda at, of: [_leaf(at, "other", (at.start_byte, at.start_byte)), _case_pattern(at, of)], pattern,
        )  # fmt: skip


# -- the table -----------------------------------------------------------------------------------------------------------

_OTHER: Final[tuple[str, Make | None]] = ("other", _generic)
_SHAPES: Final[dict[type, tuple[str, Make | None]]] = {
    ast.AnnAssign: ("assignment", _annotated),
    ast.Assert: ("assert_statement", _assert),
    ast.Assign: ("assignment", _assign),
    ast.AsyncFor: ("for_statement", _for),
    ast.AsyncFunctionDef: ("function_definition", _function),
    ast.AsyncWith: ("with_statement", _with),
    ast.Attribute: ("attribute", _attribute),
    ast.AugAssign: ("augmented_assignment", _augmented),
    ast.Await: ("await", _generic),
    ast.BinOp: ("binary_operator", _generic),
    ast.BoolOp: ("boolean_operator", _boolean),
    ast.Break: ("break_statement", None),
    ast.Call: ("call", _call),
    ast.ClassDef: ("class_definition", _class),
    ast.Continue: ("continue_statement", None),
    ast.Dict: ("dictionary", _generic),
    ast.DictComp: ("dictionary_comprehension", _comprehension),
    ast.ExceptHandler: ("except_clause", _handler),
    ast.For: ("for_statement", _for),
    ast.FormattedValue: ("interpolation", _generic),
    ast.FunctionDef: ("function_definition", _function),
    ast.GeneratorExp: ("generator_expression", _comprehension),
    ast.Global: ("global_statement", _outer_names),
    ast.If: ("if_statement", _if),
    ast.IfExp: ("conditional_expression", _conditional),
    ast.Import: ("import_statement", _import),
    ast.ImportFrom: ("import_from_statement", _import_from),
    ast.JoinedStr: ("concatenated_string", _joined),
    ast.Lambda: ("lambda", _lambda),
    ast.List: ("list", _generic),
    ast.ListComp: ("list_comprehension", _comprehension),
    ast.Match: ("match_statement", _match),
    ast.MatchAs: ("as_pattern", _match_as),
    ast.MatchClass: ("class_pattern", _match_class),
    ast.MatchMapping: ("dict_pattern", _match_mapping),
    ast.MatchOr: ("union_pattern", _cases),
    ast.MatchSequence: ("list_pattern", _cases),
    ast.MatchSingleton: ("none", None),
    ast.MatchStar: ("splat_pattern", _match_star),
    ast.MatchValue: ("union_pattern", _match_value),
    ast.Name: ("identifier", None),
    ast.NamedExpr: ("named_expression", _named_expression),
    ast.Nonlocal: ("nonlocal_statement", _outer_names),
    ast.Pass: ("pass_statement", None),
    ast.Set: ("set", _generic),
    ast.SetComp: ("set_comprehension", _comprehension),
    ast.Starred: ("list_splat", _generic),
    ast.Subscript: ("subscript", _subscript),
    ast.Try: ("try_statement", _try),
    ast.TryStar: ("try_statement", _try),
    ast.Tuple: ("tuple", _generic),
    ast.While: ("while_statement", _while),
    ast.With: ("with_statement", _with),
    ast.keyword: ("keyword_argument", _keyword),
}
if sys.version_info >= (3, 12):
    _SHAPES[ast.TypeAlias] = ("type_alias_statement", _type_alias)
