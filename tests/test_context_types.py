"""Types: one print for each, laws of unification, and hostile texts that cost a sentence."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.base.errors import FormatError, PeriplusError, UsageError
from periplus.context.types import (
    ANY,
    BOOL,
    CONSTRAINTS_MAX,
    CONTEXT,
    DICT,
    FLOAT,
    INT,
    LIST,
    NAME_BYTES_MAX,
    OPTION,
    PARAMETERS_MAX,
    RECORD,
    REF,
    STRING,
    TIMESTAMP,
    TYPE_BYTES_MAX,
    TYPE_DEPTH_MAX,
    UNION,
    VERSIONED,
    Kind,
    TypeSignature,
    _parse,
    _unify_short,
    is_subtype,
    nesting,
    parse,
    unify,
    unify_text,
)
from support import calls_made

pytestmark = pytest.mark.quick

names = st.sampled_from(["String", "Int", "List", "Foo", "Any", "Context", "日本", "a.b", "x-y_z", "List<T>"])
constraints = st.lists(st.sampled_from(["a", "b", "max: 5", "in [1]", "ü"]), max_size=2).map(tuple)


def built(make, *parts):
    """What ``make`` gives, or ANY where there is no such type: unions out of order and the like."""
    try:
        return make(*parts)
    except UsageError:
        return ANY


def wrapped(inner):
    return st.one_of(
        st.builds(LIST, inner),
        st.builds(DICT, inner, inner),
        st.builds(OPTION, inner),
        st.builds(REF, inner),
        st.builds(CONTEXT, inner),
        st.builds(VERSIONED, inner),
        st.lists(inner, min_size=1, max_size=3).map(lambda members: UNION(*members)),
        st.dictionaries(st.sampled_from(["a", "b", "Any", "Context"]), inner, max_size=2).map(RECORD),
        st.builds(
            lambda *parts: built(TypeSignature, *parts),
            names,
            st.sampled_from(Kind),
            st.lists(inner, max_size=2).map(tuple),
            constraints,
        ),
    )


leaves = st.sampled_from([STRING, INT, FLOAT, BOOL, TIMESTAMP, ANY]) | st.builds(
    lambda *parts: built(TypeSignature, *parts), names, st.sampled_from(Kind), st.just(()), constraints
)
signatures = st.recursive(leaves, wrapped, max_leaves=8)


@st.composite
def loosened(draw, signature):
    """A type that may well unify with ``signature``: parts of it become ANY, constraints come and go."""
    if draw(st.integers(0, 5)) == 0:
        return ANY
    parameters = tuple(draw(loosened(parameter)) for parameter in signature.parameters)
    extra = draw(st.sampled_from([(), (), ("a",), ("b", "z")])) if signature != ANY else ()
    try:
        return TypeSignature(signature.name, signature.kind, parameters, signature.constraints + extra)
    except UsageError:  # a union that is out of order now
        return signature


@st.composite
def relatives(draw):
    """Three types, of which most unify."""
    root = draw(signatures)
    return tuple(draw(loosened(root) | signatures) for _ in range(3))


@pytest.mark.slow
@given(signatures)
@settings(max_examples=300, deadline=None)
def test_print_and_value_are_one_to_one(signature):
    back = parse(str(signature))
    assert back == signature
    assert (back.name, back.kind, back.parameters, back.constraints) == (
        signature.name,
        signature.kind,
        signature.parameters,
        signature.constraints,
    )
    assert str(back) == str(signature)


@pytest.mark.slow
@given(st.text(alphabet="AB[]{},: \t\u00e9\ud800", max_size=12) | st.text(max_size=12))
@settings(max_examples=500, deadline=None)
def test_a_text_is_the_print_of_what_it_parses_to_or_an_error_with_its_place(text):
    try:
        found = str(parse(text))
    except FormatError as error:
        found, offset = None, error.offset
    if found is None:
        assert 0 <= offset <= len(text.encode(errors="surrogatepass"))
    else:
        assert found == text


@pytest.mark.slow
@given(relatives())
@settings(max_examples=400, deadline=None)
def test_the_laws_of_unification(three):
    a, b, c = three
    assert unify(a, a) == a
    assert unify(a, ANY) == a == unify(ANY, a)
    ab, ba = unify(a, b), unify(b, a)
    assert ab == ba
    if ab is not None:
        assert is_subtype(ab, a)
        assert is_subtype(ab, b)
        bc = unify(b, c)
        left, right = unify(ab, c), None if bc is None else unify(a, bc)
        if left is not None and right is not None:
            assert left == right
    assert is_subtype(a, a)
    assert is_subtype(a, ANY)
    if is_subtype(a, b) and is_subtype(b, c):
        assert is_subtype(a, c)
    if is_subtype(a, b) and is_subtype(b, a):
        assert a == b
    assert unify_text(str(a), str(b)) == (None if ab is None else str(ab))


def test_unions_apart_unification_is_associative_wherever_one_side_is_defined():
    some = [STRING, ANY, LIST(ANY), LIST(INT), LIST(TypeSignature("Int", constraints=("c",))), DICT(ANY, INT),
            DICT(STRING, ANY), TypeSignature("Int", constraints=("a",)), INT, CONTEXT(ANY), CONTEXT(STRING)]  # fmt: skip

    def meet(a, b):
        return None if a is None or b is None else unify(a, b)

    defined = 0
    for a in some:
        for b in some:
            for c in some:
                left, right = meet(meet(a, b), c), meet(a, meet(b, c))
                assert left == right
                defined += left is not None
    assert defined > 100


@pytest.mark.parametrize(
    ("a", "b", "common"),
    [
        (LIST(ANY), LIST(STRING), "List[String]"),
        (DICT(STRING, ANY), DICT(ANY, INT), "Dict[String, Int]"),
        (LIST(INT), LIST(STRING), None),
        (LIST(INT), OPTION(INT), None),
        (INT, TypeSignature("Int", Kind.CONSTRAINT), None),
        (LIST(INT), TypeSignature("List"), None),
        (TypeSignature("Int", constraints=("b",)), TypeSignature("Int", constraints=("a", "c")), "Int{a, b, c}"),
        (RECORD({"b": ANY, "a": INT}), RECORD({"a": ANY, "b": STRING}), "Record[a[Int], b[String]]"),
        (RECORD({"a": INT}), RECORD({"b": INT}), None),
        (UNION(INT, STRING), UNION(STRING, INT), "Union[Int, String]"),
        (UNION(INT, LIST(ANY)), UNION(INT, LIST(BOOL)), "Union[Int, List[Bool]]"),
        # The common form of these would have its members out of order, so there is none.
        (parse("Union[Any, B{a}]"), parse("Union[B{e}, B{f}]"), None),
    ],
)
def test_unification_by_example(a, b, common):
    found = unify(a, b)
    assert (None if found is None else str(found)) == common


def test_a_type_prints_as_the_specification_writes_it():
    assert str(STRING) == "String"
    assert str(DICT(STRING, UNION(INT, BOOL, LIST(ANY)))) == "Dict[String, Union[Bool, Int, List[Any]]]"
    assert str(RECORD({"size": INT, "name": STRING})) == "Record[name[String], size[Int]]"
    assert str(RECORD({})) == "Record:arrow"
    assert str(CONTEXT(STRING)) == "Context[String]"
    assert CONTEXT(STRING).kind is Kind.CONTEXT
    assert (
        str(TypeSignature("Positive", Kind.CONSTRAINT, (INT,), ("> 0", "< 9"))) == "Positive:constraint[Int]{< 9, > 0}"
    )
    assert UNION(INT) == INT
    assert UNION(UNION(INT, STRING), BOOL, INT) == UNION(STRING, BOOL, INT)
    assert str(VERSIONED(REF(OPTION(TIMESTAMP)))) == "Versioned[Ref[Option[Timestamp]]]"


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("", 0), ("[", 0), ("List[", 5), ("List[]", 5), ("List[Int", 8), ("List[Int,Int]", 8), ("List[Int , Int]", 5),
        ("List [Int]", 0), ("List[Int]]", 9), ("List[Int] ", 9), ("Int{}", 4), ("Int{b, a}", 7), ("Int{a, a}", 7),
        ("Int{a,b}", 5), ("Int{ a}", 0), ("Int{a", 5), ("Int:star", 0), ("List:arrow[Int]", 0), ("Context:context", 0),
        ("Int:", 4), ("Int:nothing", 4), ("Int{a}[b]", 6), ("Union[Int]", 0), ("Union[String, Int]", 0),
        ("Union[Int, Union[Bool, String]]", 0), ("Record[String]", 0), ("Record[b[Int], a[Int]]", 0), ("é[Int", 6),
        ("A\x00B", 0), ("A\u200bB", 0), ("é\ud800", 2), ("List[\ud800]", 5), ("A\nB", 0), ("\u202eA", 0),
        ("N" * (NAME_BYTES_MAX + 1), 0), ("A{" + "c" * (NAME_BYTES_MAX + 1) + "}", 0),
    ],
)  # fmt: skip
def test_what_is_no_type_is_refused_with_its_place(text, offset):
    with pytest.raises(FormatError) as caught:
        parse(text)
    assert caught.value.offset == offset


def test_nesting_of_any_depth_costs_a_sentence():
    deep = "L[" * (TYPE_DEPTH_MAX - 1) + "Int" + "]" * (TYPE_DEPTH_MAX - 1)
    assert parse(deep).depth == TYPE_DEPTH_MAX
    assert str(unify(parse(deep), parse(deep.replace("Int", "Any")))) == deep
    with pytest.raises(FormatError, match="nested deeper than 64 levels"):
        parse("L[" + deep + "]")
    with pytest.raises(FormatError, match="nested deeper than 64 levels"):
        parse("L[" * 1_300 + "Int" + "]" * 1_300)
    with pytest.raises(UsageError, match="nested deeper than 64 levels"):
        LIST(parse(deep))

    def refuse(text):
        with contextlib.suppress(FormatError):
            parse(text)

    refuse("[" * 5_000)  # what is imported for a message is imported
    little = calls_made(lambda: refuse("[" * 5_000))
    for text in ("List[" * 10_000 + "Int" + "]" * 10_000, "[" * 10_000, "L[" * 2_000_000, "A{" + "a, " * 10_000_000):
        with pytest.raises(FormatError, match="over 4,096 bytes"):
            parse(text)
        assert calls_made(lambda text=text: refuse(text)) == little  # it is refused before it is looked at


@given(signatures)
@settings(max_examples=100, deadline=None)
def test_the_nesting_of_a_print_is_the_depth_of_its_type(signature):
    assert nesting(str(signature)) == signature.depth


def test_brackets_side_by_side_and_in_constraints_nest_nothing():
    wide = "Record[" + ", ".join(f"f{place:03}[Int{{in [[[1]}}]" for place in range(100)) + "]"
    assert nesting(wide) == parse(wide).depth == 3
    assert nesting("L[" * 10_000) == 10_001


def test_strangers_cannot_fill_the_memory_with_types():
    before = (_parse.cache_info().currsize, _unify_short.cache_info().currsize)
    for place in range(50):
        text = "Record[" + ", ".join(f"f{place:02}{n:02}[Int]" for n in range(20)) + "]"
        assert unify_text(text, "Any") == text == str(parse(text))
    assert (_parse.cache_info().currsize, _unify_short.cache_info().currsize) <= (before[0] + 1, before[1])
    assert _parse.cache_info().maxsize <= 1_024


def test_the_limits_hold_for_types_that_are_built():
    grown = STRING
    for _ in range(8):
        grown = DICT(grown, grown)
    assert len(str(grown)) <= TYPE_BYTES_MAX < 2 * len(str(grown))
    with pytest.raises(UsageError, match="over 4,096 bytes"):
        DICT(grown, grown)
    with pytest.raises(UsageError, match="at most 256 parameters and 64 constraints"):
        TypeSignature("F", parameters=(INT,) * (PARAMETERS_MAX + 1))
    with pytest.raises(UsageError, match="at most 256 parameters and 64 constraints"):
        TypeSignature("F", constraints=tuple(map(str, range(CONSTRAINTS_MAX + 1))))
    wide = tuple(TypeSignature("語" * 80 + str(n)) for n in range(17))
    with pytest.raises(UsageError, match="over 4,096 bytes"):
        TypeSignature("F", parameters=wide)
    assert TypeSignature("Record", Kind.CONTEXT, (INT,)).parameters == (INT,)
    half = [TypeSignature("F", constraints=tuple(f"{side}{n}" for n in range(40))) for side in "ab"]
    assert unify(*half) is None
    for name in ("", "a b", "a,b", "a[", 7, None):
        with pytest.raises(PeriplusError):
            TypeSignature(name)
    for constraint in ("", " a", "a,b", "{", 7):
        with pytest.raises(PeriplusError):
            TypeSignature("A", constraints=(constraint,))
    for wrong in ({"kind": "star"}, {"parameters": ("Int",)}, {"constraints": "abc"}, {"constraints": (None,)}):
        with pytest.raises(UsageError):
            TypeSignature("A", **wrong)
    with pytest.raises(UsageError, match="at least one member"):
        UNION()
    with pytest.raises(FormatError, match="a type is text"):
        parse(7)


def test_a_signature_does_not_change():
    with pytest.raises(AttributeError):
        INT.name = "Other"
    assert len({INT, parse("Int"), TypeSignature("Int")}) == 1
    assert INT != "Int"
