"""Relations of one entity: what it names, what names it, and a small graph of its neighbourhood.

The index answers who superseded an entity and which work belongs to it. Other relations that lead to an entity are found in the payloads
of a store that is not large; in a larger one the page says that they are not looked for.
"""

from __future__ import annotations

__all__ = ["Edge", "Neighbourhood", "Node", "neighbourhood_of", "picture_of"]

from collections import deque
from typing import TYPE_CHECKING, Final

from periplus.base.ids import is_id
from periplus.base.named_tuple import NamedTuple
from periplus.memory.entities.types import is_ended, row_of, rows_of, state_of
from periplus.web.pages.memory.fields import line_of, text_of
from periplus.web.pages.memory.references import entity_address
from periplus.web.rendering import graphs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from markupsafe import Markup

    from periplus.base.encoding.canonical import JSONValue
    from periplus.journal import Entity, Journal
    from periplus.project import Project

NODES_MAX: Final = 24  # of the picture
EDGES_MAX: Final = 60
STEPS_MAX: Final = 3  # from the entity to the farthest in the picture
OF_ONE_MAX: Final = 50
SCANNED_MAX: Final = 20_000  # entities of a store whose payloads are searched
_OWNERS: Final = (
    "plan",
    "step",
    "dispatch",
    "assignment",
    "claim",
    "loop",
    "thread",
    "ref",
    "item_id",
    "accepted_as",
    "trail",
)
_HELD_BY: Final = {"plan": "part of", "step": "for", "dispatch": "part of", "assignment": "asked in", "claim": "holds", "thread": "in the thread",
                   "ref": "about", "accepted_as": "accepted as", "trail": "recorded in", "loop": "part of", "item_id": "proposed from"}  # fmt: skip
_LINKED: Final = ("plan", "step", "dispatch", "assignment", "thread")
_LISTS: Final = {"depends_on": "depends on"}
_READ: Final = {
    "caused": "caused", "contradicts": "contradicts", "depends_on": "depends on", "part_of": "part of", "references": "references",
    "resolves": "resolves", "supersedes": "supersedes",
}  # fmt: skip


class Node(NamedTuple):
    """An entity in the neighbourhood; ``line`` is its text in short, ``is_here`` False where nothing has this id (any more)."""

    item_id: str
    item_type: str
    line: str
    state: str
    address: str
    is_here: bool = True
    is_ended: bool = False


class Edge(NamedTuple):
    """A relation, as it is read from ``source`` to ``target``."""

    source: str
    target: str
    kind: str


class Neighbourhood(NamedTuple):
    """``outgoing`` and ``incoming`` are the relations of the entity itself; ``nodes`` and ``edges`` are the picture. ``is_searched``
    is False where relations of other kinds that lead here were not looked for.
    """

    outgoing: tuple[tuple[Edge, Node], ...]
    incoming: tuple[tuple[Edge, Node], ...]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    is_searched: bool
    left_out: int


def neighbourhood_of(project: Project, entity: Entity) -> Neighbourhood:
    """Return the relations of an entity, and the graph around it."""
    view = _Relations(project.journal)
    outgoing, incoming = list(view.outgoing(entity)), list(view.incoming(entity.item_id))
    nodes, edges = view.around(entity)
    return Neighbourhood(
        tuple((edge, view.node(edge.target)) for edge in outgoing[:OF_ONE_MAX]),
        tuple((edge, view.node(edge.source)) for edge in incoming[:OF_ONE_MAX]),
        tuple(nodes), tuple(edges), view.is_searched, max(0, len(outgoing) - OF_ONE_MAX) + max(0, len(incoming) - OF_ONE_MAX),
    )  # fmt: skip


def picture_of(centre: str, near: Neighbourhood) -> Markup | None:
    """Return the graph of a neighbourhood; None where there is nothing but the entity itself."""
    if len(near.nodes) < 2:
        return None
    nodes = [
        _drawn(one, "current" if one.item_id == centre else "quiet" if one.is_ended or not one.is_here else "plain")
        for one in near.nodes
    ]
    links = [graphs.Link(one.source, one.target, text=one.kind) for one in near.edges]
    return graphs.layered_graph(nodes, links, label="Graph of the relations; the list below says the same")


def _drawn(node: Node, kind: str) -> graphs.Node:
    note = " · ".join(filter(None, (node.item_type or node.item_id, node.state)))
    return graphs.Node(node.item_id, node.line, note, "" if kind == "current" else node.address, kind)


class _Relations:
    """Relations of one journal, each entity looked up once."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._held: dict[str, Entity | None] = {}
        self._nodes: dict[str, Node] = {}
        self._types = {row.prefix: name for name, row in rows_of(journal.types).items()}
        row = journal.index.db.execute(
            "SELECT COUNT(*) FROM (SELECT 1 FROM heads LIMIT ?)", (SCANNED_MAX + 1,)
        ).fetchone()
        self.is_searched = int(row[0]) <= SCANNED_MAX

    def entity(self, item_id: str) -> Entity | None:
        if item_id not in self._held:
            self._held[item_id] = self._looked_up(item_id) if is_id(item_id) else None
        return self._held[item_id]

    def _looked_up(self, item_id: str) -> Entity | None:
        """Return the live entity with an id: of the type of its prefix or, which costs more, of any other type."""
        item_type = self._types.get(item_id.rpartition("_")[0])
        found = self._journal.as_read(item_type, item_id) if item_type is not None else None
        if found is not None or item_type is not None:
            return found
        keys = [key for key in self._journal.ids_with_prefix(item_id) if key[1] == item_id]
        return next((one for key in keys if (one := self._journal.as_read(*key)) is not None), None)

    def node(self, item_id: str) -> Node:
        if item_id not in self._nodes:
            self._nodes[item_id] = self._node(item_id)
        return self._nodes[item_id]

    def _node(self, item_id: str) -> Node:
        entity = self.entity(item_id)
        if entity is None:
            return Node(item_id, "", "not here", "", entity_address(item_id) if is_id(item_id) else "", is_here=False)
        value, row = entity.value, row_of(self._journal.types, entity.item_type)
        state = state_of(entity.item_type, value, row.default_state if row is not None else "")
        return Node(item_id, entity.item_type, line_of(text_of(value, item_id)), state, entity_address(item_id),
                    is_ended=is_ended(entity.item_type, state, self._journal.types))  # fmt: skip

    def outgoing(self, entity: Entity) -> Iterator[Edge]:
        """Yield what an entity names: by its relations, and by the fields that hold ids."""
        value, seen = entity.value, set[tuple[str, str]]()
        for kind, target in _named(value):
            if target != entity.item_id and (kind, target) not in seen:
                seen.add((kind, target))
                yield Edge(entity.item_id, target, kind)

    def incoming(self, item_id: str) -> Iterator[Edge]:
        """Yield what names an entity, as far as it is looked for."""
        seen = set[str]()
        for key in self._naming(item_id):
            other = self._journal.as_read(*key)
            if other is None or other.item_id == item_id or other.item_id in seen:
                continue
            seen.add(other.item_id)
            self._held[other.item_id] = other
            for edge in self.outgoing(other):
                if edge.target == item_id:
                    yield edge

    def around(self, entity: Entity) -> tuple[list[Node], list[Edge]]:
        """Return the nodes and edges of the picture, breadth first from the entity; none where it stands alone."""
        self._held[entity.item_id] = entity
        chosen, edges = {entity.item_id: 0}, dict[Edge, None]()
        waiting = deque([entity.item_id])
        while waiting and len(edges) < EDGES_MAX:
            item_id = waiting.popleft()
            held = self.entity(item_id)
            if held is None or chosen[item_id] >= STEPS_MAX:
                continue
            for edge in [*self.outgoing(held), *self.incoming(item_id)][:OF_ONE_MAX]:
                other = edge.target if edge.source == item_id else edge.source
                if other not in chosen and len(chosen) < NODES_MAX:
                    chosen[other] = chosen[item_id] + 1
                    waiting.append(other)
                if other in chosen:
                    edges[edge] = None
        return ([self.node(item_id) for item_id in chosen], list(edges)[:EDGES_MAX]) if edges else ([], [])

    def _naming(self, item_id: str) -> list[tuple[str, str]]:
        """Return type and id of the entities that may name ``item_id``."""
        db = self._journal.index.db
        fields = ("supersedes", *_LINKED)
        marks = ", ".join("?" * len(fields))
        where = f"value = ? AND field IN ({marks}) ORDER BY item_id LIMIT ?"
        named = f"SELECT item_type, item_id FROM links WHERE {where}"  # noqa: S608 - question marks
        rows = db.execute(named, (item_id, *fields, OF_ONE_MAX)).fetchall()
        if self.is_searched:
            naming = "deleted = 0 AND instr(payload, CAST(? AS BLOB)) > 0 LIMIT ?"
            rows += db.execute(f"SELECT item_type, item_id FROM heads WHERE {naming}", (item_id, OF_ONE_MAX)).fetchall()  # noqa: S608 - a constant
        keys = [(str(item_type), str(other)) for item_type, other in rows]
        return list(dict.fromkeys([*keys, *self._journal.unindexed()]))


def _named(value: Mapping[str, JSONValue]) -> Iterator[tuple[str, str]]:
    """Yield the relations that a payload has, with the ids that they lead to."""
    relations = value.get("relations")
    for one in relations if isinstance(relations, list) else ():
        if isinstance(one, dict) and isinstance(target := one.get("target"), str) and target:
            yield _READ.get(kind := str(one.get("kind", "")), kind), target
    for name in _OWNERS:
        held = value.get(name)
        if isinstance(held, str) and is_id(held):
            yield _HELD_BY[name], held
    for name, kind in _LISTS.items():
        held = value.get(name)
        for one in held if isinstance(held, list) else ():
            if isinstance(one, str) and is_id(one):
                yield kind, one
    about = value.get("about")
    for one in about if isinstance(about, list) else ():
        if (
            isinstance(one, dict)
            and one.get("kind") == "entity"
            and isinstance(ref := one.get("ref"), str)
            and is_id(ref)
        ):
            yield "about", ref
