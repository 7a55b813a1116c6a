"""The shape of a row of the table of languages.

A row tells the extractor (`code.extraction`) by the node types of a grammar which nodes define names, bind local names, refer to
names, reach into members, call, import and extend. What no table can say is a small function of the row: how imports read, which
definitions are exported, what a type annotation names.
"""

from __future__ import annotations

__all__ = [
    "Access",
    "Bind",
    "Declaration",
    "Expected",
    "Extraction",
    "Language",
    "Local",
    "Naming",
    "Place",
    "Shape",
    "Unwrap",
]

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from periplus.base.named_tuple import NamedTuple

if TYPE_CHECKING:
    import tree_sitter

    from periplus.code.model import Role

Place: TypeAlias = str | int
"""A child of a node: the name of its field, its position among the named children, or ``=type`` for the first of that type."""


Unwrap: TypeAlias = "Callable[[Extraction, tree_sitter.Node], tuple[tree_sitter.Node | None, bool]]"
"""A function that finds the type that a type or a value stands for, and tells whether that is a list of it; None where there is none."""

Expected: TypeAlias = Any
"""Expected class of a value; the extractor's affair."""


class Naming(NamedTuple):
    """The rule by which a syntax node defines a name. An empty ``kind`` only opens a scope. ``fields`` lead to the parts of the
    name, by fields of the grammar from the node (``a/b``), or to the first node below of given types (``~x|y``);
    all but the last may be absent. With ``is_outer`` only nodes outside of functions count; inside they bind a local name.

    ``bases`` are the fields that hold the classes it extends, ``type`` that of its declared (a function's: returned) type, ``value``
    that of the value whose class it has. ``is_class`` definitions have members that ``this`` reaches. ``separator`` stands between
    the parts of a name that is one node. ``kinds`` gives a more exact kind by
    the type of the child in the field ``kind_field``. ``begin`` is called in the scope of the definition before its children are visited;
    those that it returns are not visited.
    """

    kind: str
    fields: tuple[str, ...] = ("name",)
    is_outer: bool = False
    not_names: frozenset[str] = frozenset()
    bases: tuple[Place, ...] = ()
    type: Place = ""
    value: Place = ""
    is_class: bool = False
    separator: str = ""
    kinds: Mapping[str, str] = {}
    kind_field: str = "type"
    begin: Callable[[Extraction, tree_sitter.Node], Sequence[tree_sitter.Node]] | None = None


class Bind(NamedTuple):
    """A node that binds the names in ``pattern`` in the scope around it (``is_inner``: in the scope that the node opens). ``value``
    and ``type`` are the fields from which their class is known, where the pattern is one name; ``steps`` lead
    from the value to what is bound.
    """

    pattern: Place
    value: Place = ""
    type: Place = ""
    steps: tuple[str, ...] = ()


class Access(NamedTuple):
    """A node that reaches for ``name`` in ``object`` (absent for a bare call), and then calls it (``step`` is ``()``) or takes an element
    of it (``[]``). Its other children are visited as they are. A call whose callee is one expression has ``name`` empty and the callee as
    ``object``. ``sigil`` is what is written before the name of the member and does not belong to it. With ``is_global`` a name without
    ``object`` is none of the scopes around (``::Name``). ``is_path``: no local variable can be its root. ``is_subscript``: it takes an
    element where its arguments stand in square brackets. ``is_type``: it reaches for a type. With ``is_merged`` a call of a call is one:
    ``f(x) { }``. element where its arguments stand in square brackets. ``is_loader`` where
    such a call may import a module (`Language.loader`), ``is_quoted`` where the name is written as a string.
    """

    object: Place
    name: Place = ""
    step: Literal["", "()", "[]"] = ""
    sigil: str = ""
    is_global: bool = False
    is_path: bool = False
    is_subscript: bool = False
    is_type: bool = False
    is_merged: bool = False
    is_loader: bool = False
    is_quoted: bool = False


class Local(NamedTuple):
    """A local name. Its class is that of ``type``, or of ``value``, or (``is_element``) of the elements of ``value``."""

    name: str
    value: tree_sitter.Node | None = None
    type: tree_sitter.Node | None = None
    is_element: bool = False


class Shape(NamedTuple):
    """Properties of a definition that a function of a row tells, beyond name and kind.

    ``outer`` are the names around it where it stands outside of them (``A::b``): it is a member of what they name. ``whole`` is the node that
    wraps it. ``type`` and ``value`` are the nodes from which its class (a function's: that of what it returns) is known, ``body`` is where its
    signature ends; it may stand behind the node. ``is_global`` defines it in the scope of the file, ``is_shared`` in the scope around its
    parent as well. An ``is_leaf`` has no scope.
    """

    outer: tuple[str, ...] = ()
    whole: tree_sitter.Node | None = None
    type: tree_sitter.Node | None = None
    value: tree_sitter.Node | None = None
    body: tree_sitter.Node | None = None
    is_class: bool = False
    is_exported: bool | None = None
    is_global: bool = False
    is_shared: bool = False
    is_leaf: bool = False


class Declaration(NamedTuple):
    """A definition that a function of a row makes (`Extraction.declare_as`). ``outer`` is the definition that it is a member of, where it does
    not stand in it; -1 for the one around, -2 for none. ``path`` is what else stands before its name. Without ``is_bound`` its bare name does not stand for it. ``self`` says what
    the instance is inside: that of the surroundings, of the definition itself, of ``outer``, or nothing known. With ``is_generic`` its type may
    name parameters of its own; with ``binds_inside`` its name stands for it within it.
    """

    kind: str
    text: str = ""
    outer: int = -1
    value: tree_sitter.Node | None = None
    type: tree_sitter.Node | None = None
    bases: Sequence[tree_sitter.Node] = ()
    base_role: Literal["extends", "reference"] = "extends"
    is_class: bool = False
    is_bound: bool = True
    self: Literal["same", "own", "outer", "none"] = "same"
    is_generic: bool = False
    binds_inside: bool = False
    path: str = ""


class Extraction(Protocol):
    """The part of the extractor that the functions of a row call."""

    data: bytes
    whole: tree_sitter.Node
    """The outermost node of the definition that is being made."""

    def text(self, node: tree_sitter.Node) -> str:
        """Return the source of ``node``, at most 300 bytes of it."""

    def add_import(
        self,
        node: tree_sitter.Node,
        module: str,
        name: str = "",
        local: str = "",
        *,
        is_reexport: bool = False,
        is_inner: bool = False,
    ) -> None:
        """Note an import, bind ``local`` in the current scope, and note the reference at ``node``. ``is_inner`` where others cannot take
        the name from this file.
        """

    def add_export(self, name: str, local: str) -> None:
        """Note that others see the local name ``local`` as ``name``."""

    def add_package(self, name: str) -> bool:
        """Note the package or namespace of the file. Return False where it has another already."""

    def bind(
        self,
        name: str,
        value: tree_sitter.Node | None = None,
        type_: tree_sitter.Node | str | None = None,
        steps: tuple[str, ...] = (),
    ) -> None:
        """Bind a local name in the current scope; its class is that of ``value`` after ``steps``, or ``type_``: a node, or the dotted name
        of a class.
        """

    def bind_outer(self, node: tree_sitter.Node) -> None:
        """Bind the name ``node`` to what the definition of that name outside of the function returns, and refer to that."""

    def narrow(self, name: str, type_: tree_sitter.Node, inside: tree_sitter.Node | None) -> None:
        """Visit ``inside`` next, where ``name`` stands for an instance of ``type_``; without it, the rest of the scope."""

    def refer_text(self, text: str, byte: int) -> None:
        """Note a reference for each name of the dotted expression ``text``, which stands at ``byte``."""

    def bind_after(
        self,
        names: Sequence[Local],
        *before: tree_sitter.Node | None,
    ) -> None:
        """Bind local names that are seen after the nodes ``before``, not in them: what is bound already keeps its meaning there. ``before``
        are visited next.
        """

    def bind_in_order(self, clauses: Sequence[tuple[Sequence[Local], Sequence[tree_sitter.Node | None]]]) -> None:
        """Bind names as `bind_after` does, in each of ``clauses`` after those before it."""

    def bind_pattern(self, pattern: tree_sitter.Node) -> None:
        """Bind all names in ``pattern`` in the current scope; what it refers to besides is visited."""

    def bind_instance(self, name: str, *, is_class: bool = False) -> None:
        """Bind ``name`` to the instance of the class around, or to the class itself."""

    def bind_instance_of(self, name: str, class_name: str) -> None:
        """Bind ``name`` to the instance whose class, ``class_name``, has the code of the current scope."""

    def unbind(self, name: str) -> None:
        """Note that the current scope does not bind ``name``, whatever is assigned there."""

    def visit(self, *nodes: tree_sitter.Node | None) -> None:
        """Have ``nodes`` visited next, in this order."""

    def define(
        self,
        node: tree_sitter.Node,
        name: tree_sitter.Node,
        kind: str,
        *,
        text: str = "",
        body: tree_sitter.Node | None = None,
        whole: tree_sitter.Node | None = None,
        type_: tree_sitter.Node | str | None = None,
        value: tree_sitter.Node | None = None,
        bases: Sequence[tree_sitter.Node] = (),
        outer: str = "",
        first: tree_sitter.Node | None = None,
        inside: Sequence[tree_sitter.Node | None] = (),
        is_member: bool = False,
        is_class: bool = False,
        is_instance: bool = False,
        is_shared: bool = False,
    ) -> None:
        """Define what no row of the table says: ``name`` is the node of its name, ``text`` the name if it is not the node's text;
        ``body`` and ``inside`` are visited within it. ``whole`` is what the definition takes in (``node`` if absent), from ``first`` on,
        ``type_`` its type (a node, or a name joined by dots), ``value`` a value whose class it has, ``bases`` the classes it extends,
        ``outer`` the qualified name of what it is in besides the definition around. With ``is_member`` it belongs to the class around,
        not to the function between; with ``is_instance`` it is a value of that class, with ``is_shared`` its members are those of that class
        too. ``is_class``: it has members that ``this`` reaches, whatever its kind.
        """

    def assign(self, pattern: tree_sitter.Node, value: tree_sitter.Node | None) -> None:
        """Bind ``pattern`` to ``value``: a name, a member of the instance, or all names in it."""

    def mention(self, node: tree_sitter.Node, name: str, *, is_call: bool = False) -> None:
        """Note a reference at ``node`` to ``name`` (joined by dots), which is not written as a name."""

    def mention_inherited(self, node: tree_sitter.Node) -> None:
        """Note a call at ``node`` of the method of the bases that the method around overrides."""

    def mark(self, node: tree_sitter.Node, value: object = True) -> None:  # noqa: FBT002 - a value, no switch
        """Keep ``value`` for a node that is visited later."""

    def marked(self, node: tree_sitter.Node) -> object:
        """Return what was kept for ``node``, None if nothing."""

    def take_class_as_self(self) -> None:
        """Note that in the current scope the instance is the class around itself."""

    def open(self, node: tree_sitter.Node) -> None:
        """Open the scope that the table says for ``node``, and have its children visited in it."""

    def extend(self, *nodes: tree_sitter.Node) -> None:
        """Note the classes in ``nodes`` as bases of the definition around."""

    def refer(self, node: tree_sitter.Node) -> None:
        """Note the references of the expression ``node`` as the table says; its other parts are visited next."""

    def extend_named(self, name: str, node: tree_sitter.Node) -> None:
        """Note the types in ``node`` as bases of the class called ``name`` here."""

    def note_attribute(self, name: str, type_: tree_sitter.Node) -> None:
        """Note that the instances of the class around hold a value of a type under ``name``."""

    def refer_to(
        self, node: tree_sitter.Node, names: Sequence[str], *, is_call: bool, is_certain: bool, is_path: bool
    ) -> None:
        """Note a reference at ``node`` to a name and the steps from it; it is at most likely unless ``is_certain``. No local variable is the
        root of an ``is_path``.
        """

    def parse_inside(self, node: tree_sitter.Node) -> tree_sitter.Node | None:
        """Parse what ``node`` holds between its brackets as a file; None where that is none, or after INSIDE_MAX times."""

    def declare(self, type_: tree_sitter.Node) -> None:
        """Note the type of the definition around (a function's: the returned one)."""

    def open_scope(self, *, is_function: bool = False) -> None:
        """Open the scope of a block; it lasts for what is visited next."""

    def open_class(self, base: tree_sitter.Node | None) -> None:
        """Open the scope of a class without a name that extends ``base``."""

    def open_receiver(self, type_: tree_sitter.Node) -> None:
        """Note that the instance in the current scope is one of ``type_``, whose members need no ``this``."""

    def note_receiver(self, type_: tree_sitter.Node) -> None:
        """Note that the definition around is called as a member of values of ``type_``."""

    def refer_types(self, *nodes: tree_sitter.Node | None) -> None:
        """Note references to the types that ``nodes`` write, where types do not share the names of values."""

    @property
    def around(self) -> str:
        """Return the kind of the class whose body is visited; empty in functions and outside of classes."""

    def bind_module(self, name: str, level: int) -> None:
        """Bind ``name`` to the definition around (``level`` 0), or to the one around that (1); the file is called ``self``."""

    def reach(self, name: tree_sitter.Node, owner: tree_sitter.Node | None) -> None:
        """Note a reference to the member ``name`` of the class that ``owner`` names (None: of an unknown one)."""

    @property
    def doc(self) -> str:
        """Return the comment above the definition around; empty where there is none."""

    def define_shape(
        self, node: tree_sitter.Node, name: tree_sitter.Node, kind: str, said: str, shape: Shape = ...
    ) -> None:
        """Define ``said``, whose node is ``name``, with exactly this kind; what is visited next stands in it, but for a leaf."""

    def take_next(self, kind: str) -> tree_sitter.Node | None:
        """Return the node that would be visited next, where it is of this type; it is not visited then."""

    def refer_at(self, byte: int, name: str, *, is_call: bool = False) -> None:
        """Note a reference to ``name``, which stands at ``byte`` and is no node of its own."""

    @property
    def kind_around(self) -> str:
        """Return the kind of the definition around, empty for none."""

    @property
    def name_around(self) -> str:
        """Return the name of the definition around, empty for none."""

    @property
    def is_in_class(self) -> bool:
        """Return True inside of a class, its functions included."""

    @property
    def is_class_self(self) -> bool:
        """Return True where the instance is the class around itself."""

    def declare_as(
        self,
        node: tree_sitter.Node,
        name: tree_sitter.Node,
        shape: Declaration,
        inside: Sequence[tree_sitter.Node | None] | None = (),
    ) -> None:
        """Define ``node``, whose name is at ``name``, and have ``inside`` visited within it; None for nothing, so that what comes next does
        not stand in it.
        """

    def add_member(
        self, node: tree_sitter.Node, name: tree_sitter.Node, kind: str, type_: tree_sitter.Node | None
    ) -> None:
        """Define a member of the class whose method is around."""

    def open_function(
        self,
        *,
        has_self: bool = True,
        is_block: bool = False,
        is_signature: bool = False,
        node: tree_sitter.Node | None = None,
    ) -> None:
        """Open the scope of the function ``node`` for the nodes that are visited next (``is_block``: of a block, all whose names are local;
        ``is_signature``: of the type of a function).
        """

    def wrap(self, node: tree_sitter.Node) -> None:
        """Visit the children of ``node``, which belongs to the definition within it."""

    def wrapper_of(self, node: tree_sitter.Node) -> str:
        """Return the type of the node that wraps ``node``; empty for none."""

    def later(self, *tasks: Callable[[], None]) -> None:
        """Do ``tasks`` next, each when what the one before visits is done."""

    def refer_as(self, node: tree_sitter.Node, role: Role) -> None:
        """Note the references of the expression ``node``."""

    def refer_members(
        self,
        keys: Sequence[tuple[tree_sitter.Node, str]],
        value: tree_sitter.Node | None = None,
        type_: tree_sitter.Node | None = None,
        *,
        of: Expected | None = None,
    ) -> None:
        """Note references to the members ``keys`` of ``value``, ``type_`` or ``of``, and bind each to the local name beside it, if any."""

    def bind_hoisted(self, name: str, value: tree_sitter.Node | None, type_: tree_sitter.Node | None) -> None:
        """Bind a local name in the function around, whatever blocks stand between."""

    def bind_generic(self, name: str, constraint: tree_sitter.Node | None = None) -> None:
        """Bind a type parameter of the definition around, whose values are of the type ``constraint``."""

    def bind_expected(self, name: str, expected: Expected | None) -> None:
        """Bind a local name to a value of the class ``expected``."""

    def expect(
        self,
        node: tree_sitter.Node,
        *,
        type_: tree_sitter.Node | None = None,
        value: tree_sitter.Node | None = None,
        of: Expected | None = None,
        steps: tuple[str, ...] = (),
    ) -> None:
        """Note that the value ``node`` is expected to be of a type, or what is reached from ``value`` or ``of`` by ``steps``."""

    def expect_elements(self, node: tree_sitter.Node, value: tree_sitter.Node) -> None:
        """Note that the function ``node`` is called with the elements of ``value``."""

    def expect_parameter(self, node: tree_sitter.Node, type_: tree_sitter.Node) -> None:
        """Note that the first parameter of the function ``node`` is of ``type_``."""

    def expected(self, node: tree_sitter.Node) -> Expected | None:
        """Return what ``node`` is expected to be."""

    def expected_parameter(self, node: tree_sitter.Node, position: int) -> Expected | None:
        """Return what the parameter of the function ``node`` is expected to be."""

    def expected_return(self) -> Expected | None:
        """Return what the function around is expected to return."""

    def set_return(self, type_: tree_sitter.Node) -> None:
        """Note that the function whose scope was opened returns values of ``type_``."""

    def note_returned(self, value: tree_sitter.Node) -> None:
        """Note that the function around returns ``value``."""

    def note_parameter(self, step: str, type_: tree_sitter.Node) -> None:
        """Note the type of a parameter of the definition around: ``(0)`` of the first, ``(0)(1)`` of the second of the function that is the
        first, ``(*)`` of those that are left.
        """

    def note_value(self, name: str, value: tree_sitter.Node | None, type_: tree_sitter.Node | None) -> None:
        """Note that the instance around gets a value under ``name``."""

    def defined(self, name: str) -> int:
        """Return the index of the definition that ``name`` stands for here, as far as the walk has come; -1 for none."""

    def self_owner(self) -> int:
        """Return the index of the definition whose instance is around; -1 for none."""

    def mark_exported(self, name: str) -> None:
        """Note that others see the definition called ``name``."""

    def set_kind(self, index: int, kind: str) -> None:
        """Set the kind of a definition."""

    @property
    def is_class_body(self) -> bool:
        """Return True directly in a class."""

    @property
    def is_in_function(self) -> bool:
        """Return True inside of a function."""

    @property
    def modules(self) -> list[str]:
        """Return the names of the modules around, from the outside in."""

    def binds(self, name: str) -> bool:
        """Return True where the current scope itself binds ``name``."""

    @property
    def is_method(self) -> bool:
        """Return True in the scope of a function that stands directly in a class."""


class Language(NamedTuple):
    """One language. ``wrappers`` belong to the definition within them, ``leading`` nodes to the one after them.

    Scopes: ``functions`` open that of a function, ``scopes`` that of a block; ``parameters`` are lists whose children are bound in the
    scope around them. ``has_implicit_this``: members of a class are in scope in its methods; with ``has_calls_of_self`` its functions are
    found by the class alone, not by the scopes around; without ``has_bare_members`` its members are not even in scope in its own body.
    ``marks_calls``: a field and a method of one name are two things, told by the call.

    References: ``names`` are the leaves that refer. Of ``enters`` only the given children are visited, of ``skips`` none.
    ``selves`` are node types or names of the instance, ``own_members`` node types of variables that belong to it, ``supers`` those of the
    instance as its bases see it. ``literals`` are values of the language itself: their members are not the project's, nor are ``builtins``;
    ``sigil`` begins the names of variables where they are used (definitions are named without it); with ``hides_globals`` they are local
    to the function that uses them, unless it says otherwise (`Extraction.unbind`); ``nulls`` tell nothing of a class. ``transparent`` nodes
    stand for one of their children, ``casts`` are values of the type in that place; ``type_wrappers`` stand for a child where a type is wanted, ``list_types`` are those whose elements have the
    type at the place; ``unwraps`` finds the type that a generic type stands for, and tells whether that is a list of it. ``identities`` are
    methods that give their receiver, or what it wraps. ``renamed`` gives members the names under which others define them (``new`` calls
    ``initialize``).

    ``own_selves`` are functions in which the instance around is out of reach. ``value_types`` are types written as a value that has
    them, ``typed_values`` values that may have their type written somewhere. ``loader`` returns the module that a call imports, empty for
    none; such calls begin with one of ``load_words``.

    ``special`` handles a node by a function; it visits the children itself. ``is_test`` takes the name, the kind and the text of
    decorators, annotations and modifiers before the definition, with its doc where there is a ``documented_type``. ``doc`` finds a
    docstring; without it, and where it finds none, the comment directly above is the doc; one of ``lead_words`` may stand between them.
    ``documented_type`` finds in the doc of a definition of a kind the name of its (a function's: returned) type, where the code declares
    none; dots join its parts. ``named_type`` takes a written type apart where its text does it better than its nodes: the name of a class,
    and the steps from it to the value; ``self_type`` names the class around. ``values`` gives for a node the expressions that may be its
    value, the likeliest first. With ``lists_exports`` the file exports what `Extraction.add_export` is told, and nothing else; with
    ``notes_unknown`` values of unknown classes that are put into instances are noted too. ``choose`` tells the language by the contents where the name of the file does not; ``prepare``
    blanks what the grammar cannot read, so that all offsets stay, and tells the names that it blanked with their offsets. ``repair`` gives
    another text of the same length for a file that the parser does not understand; the tree of what is understood better counts.

    ``has_member_scopes``: members of classes are in scope, and inherited ones hide what stands outside of the class. ``inferred`` are names
    in the place of a type that leave it to the value. ``called_names`` are leaves that, when called, name a method: methods do not share
    the names of variables; where ``has_called_values``, one that names no method may be any other name. With ``has_type_names`` types and
    values of one name stand side by side, with ``has_extensions`` files may add members to types of the language. ``paths`` are nodes whose
    names are steps from the first of them, ``name_wrappers`` stand around the name of a member, ``meta_members`` lead to values of the
    language. ``bodies`` are the nodes of bodies where the grammar has no field for them. ``annotations`` at the beginning of a definition
    are no part of its signature.
    """

    name: str
    extensions: tuple[str, ...]
    module: str
    entry: str
    definitions: Mapping[str, Naming]
    functions: frozenset[str]
    wrappers: frozenset[str] = frozenset()
    leading: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    parameters: frozenset[str] = frozenset()
    has_implicit_this: bool = False
    has_bare_members: bool = True
    marks_calls: bool = False
    has_calls_of_self: bool = False
    names: frozenset[str] = frozenset({"identifier"})
    binds: Mapping[str, tuple[Bind, ...]] = {}
    accesses: Mapping[str, Access] = {}
    transparent: Mapping[str, Place] = {}
    casts: Mapping[str, Place] = {}
    value_types: frozenset[str] = frozenset()
    typed_values: Mapping[str, Unwrap] = {}
    enters: Mapping[str, tuple[Place, ...]] = {}
    skips: frozenset[str] = frozenset()
    comments: frozenset[str] = frozenset({"comment"})
    literals: frozenset[str] = frozenset()
    nulls: frozenset[str] = frozenset()
    selves: frozenset[str] = frozenset({"this"})
    supers: frozenset[str] = frozenset({"super"})
    own_selves: frozenset[str] = frozenset()
    own_members: frozenset[str] = frozenset()
    type_wrappers: Mapping[str, Place] = {}
    list_types: Mapping[str, Place] = {}
    unwraps: Mapping[str, Callable[[Extraction, tree_sitter.Node], tuple[tree_sitter.Node | None, bool]]] = {}
    identities: frozenset[str] = frozenset()
    builtins: frozenset[str] = frozenset()
    sigil: str = ""
    hides_globals: bool = False
    renamed: Mapping[str, str] = {}
    special: Mapping[str, Callable[[Extraction, tree_sitter.Node], None]] = {}
    is_exported: Callable[[Extraction, tree_sitter.Node, str], bool] | None = None
    is_test: Callable[[str, str, str], bool] | None = None
    doc: Callable[[Extraction, tree_sitter.Node], tree_sitter.Node | None] | None = None
    documented_type: Callable[[str, str], str] | None = None
    named_type: Callable[[str], tuple[str, tuple[str, ...]] | None] | None = None
    self_type: str = ""
    values: Mapping[str, Callable[[tree_sitter.Node], Sequence[tree_sitter.Node]]] = {}
    lists_exports: bool = False
    notes_unknown: bool = False
    choose: Callable[[bytes], Language] | None = None
    prepare: Callable[[bytes], tuple[bytes, Sequence[tuple[int, str]]]] | None = None
    loader: Callable[[Extraction, tree_sitter.Node], str] | None = None
    load_words: tuple[bytes, ...] = ()
    filenames: tuple[str, ...] = ()
    interpreters: tuple[str, ...] = ()
    lead_words: frozenset[bytes] = frozenset({b""})
    has_member_scopes: bool = False
    inferred: frozenset[str] = frozenset()
    called_names: frozenset[str] = frozenset()
    has_called_values: bool = False
    has_extensions: bool = False
    has_type_names: bool = False
    name_wrappers: Mapping[str, Place] = {}
    paths: frozenset[str] = frozenset()
    meta_members: frozenset[str] = frozenset()
    bodies: frozenset[str] = frozenset()
    annotations: frozenset[str] = frozenset()
    repair: Callable[[bytes], bytes] | None = None
