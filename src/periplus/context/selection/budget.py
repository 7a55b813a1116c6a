"""Pack a token budget with atoms that come best first.

Theory of operation. Atoms are read one by one from a ranked source, each with a score that is at most the one before.
Atoms that are neither taken nor refused yet wait in a pool. The next to be taken has the greatest *value*: its score
less ``diversity`` × its similarity to the most similar atom already taken (maximal marginal relevance: Carbonell and
Goldstein, 1998). Values only fall as atoms are taken, so the best of the pool is found lazily: it is evaluated again,
and put back if its value fell. As long as the best value is no less than the last score read, no unread atom can beat
it; so without near-duplicates no more atoms are read than are taken or refused.

Rules:

* the sum of the tokens taken, with those of the request itself, is at most the budget;
* an atom that does not fit is refused and the next is tried; a refused atom never comes back, because room only shrinks;
* atoms of one molecule are taken all or none, at the turn of the best of them, if all of them are available and fit into the whole
  budget together. Molecules that share atoms count as one, if possible; otherwise the first of an atom's molecules (by their order)
  that can be whole is kept whole. If none can, its atoms are taken one by one, and the molecule is reported as not whole;
* reading pauses while the budget is full or ``look_ahead`` atoms wait in the pool, and stops after ``look_ahead`` refusals in a row.
"""

from __future__ import annotations

__all__ = ["MOLECULE_GROUP_MAX", "Finder", "Packed", "Packer", "PlacedMolecule"]

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, NamedTuple, TypeAlias

from periplus.base.errors import UsageError
from periplus.context.model import Molecule, OrderKey, molecule_digest, order_key
from periplus.context.selection.reasons import Cause, NearDuplicate, Reason, Reasons, Scored
from periplus.context.selection.text_similarity import LikenessTable, Sketch, sketch
from periplus.context.selection.token_counters import TokenCounter

MOLECULE_GROUP_MAX: Final = 4_096
_MILLION: Final = 1_000_000

Finder: TypeAlias = Callable[[bytes], Scored | None]


class PlacedMolecule(NamedTuple):
    """A molecule with atoms in the selection. ``missing`` are its other atoms, without which it is not whole."""

    digest: bytes
    molecule: Molecule
    missing: tuple[bytes, ...]


class Packed(NamedTuple):
    taken: tuple[Scored, ...]
    molecules: tuple[PlacedMolecule, ...]
    near_duplicates: tuple[NearDuplicate, ...]
    tokens: int


@dataclass(slots=True)
class _Candidate:
    scored: Scored
    key: OrderKey
    tokens: int = -1  # not counted yet
    sketch: Sketch | None = None
    compared: int = 0  # number of taken atoms that it was compared with
    alike: int = -1  # index of the most similar taken atom
    similarity: int = 0

    @property
    def digest(self) -> bytes:
        return self.scored.entry.digest


class _Unit(NamedTuple):
    """Atoms that are taken together. ``is_whole`` if that keeps a molecule whole."""

    members: Sequence[_Candidate]
    tokens: int
    is_whole: bool


class Packer:
    """One packing of one budget; used once. ``find`` returns atoms of molecules that have not been read yet, if it can."""

    def __init__(
        self,
        ranked: Iterator[Scored],
        *,
        budget_tokens: int,
        counter: TokenCounter,
        overhead_tokens: int,
        diversity: int,
        look_ahead: int | None,
        molecules: Sequence[Molecule],
        find: Finder | None,
        reasons: Reasons,
    ) -> None:
        self._ranked = ranked
        self._counter = counter
        self._overhead = overhead_tokens
        self._budget = max(budget_tokens - counter.request_tokens, 0)
        self._left = self._budget
        self._diversity = diversity
        self._look_ahead = look_ahead
        self._molecules = molecules
        self._find = find
        self._reasons = reasons
        self._holding: dict[bytes, list[int]] = {}
        for number, molecule in enumerate(molecules):
            for digest in molecule.atoms:
                self._holding.setdefault(digest, []).append(number)
        self._tangled: set[bytes] = set()  # atoms of groups of molecules that cannot be kept together
        self._apart: set[int] = set()  # molecules that cannot be kept whole
        self._pool: list[tuple[int, OrderKey, _Candidate]] = []
        self._waiting: dict[bytes, _Candidate] = {}  # the pool, by digest
        self._gone: set[bytes] = set()  # taken or refused
        self._taken: list[_Candidate] = []
        self._tokens_taken: dict[bytes, int] = {}
        self._table = LikenessTable()
        self._alike: list[_Candidate] = []
        self._score_read: int | None = None  # None when nothing is left to read
        self._refused_in_turn = 0

    def run(self) -> Packed:
        self._read()
        while self._left > 0:
            candidate = self._next()
            if candidate is None:
                break
            unit = self._unit(candidate)
            if unit.tokens <= self._left:
                self._take(unit, candidate)
            else:
                self._refuse(unit, candidate)
                if self._look_ahead is not None and self._refused_in_turn >= self._look_ahead:
                    break
        self._leave_the_rest()
        taken = tuple(candidate.scored for candidate in self._taken)
        spent = self._budget - self._left
        return Packed(
            taken, self._placed(), self._near_duplicates(), spent + self._counter.request_tokens if taken else 0
        )

    # reading

    def _read(self) -> bool:
        """Read one more atom into the pool; return False if there is none."""
        for scored in self._ranked:
            self._score_read = scored.score
            digest = scored.entry.digest
            if digest in self._gone or digest in self._waiting:
                continue  # already taken with its molecule
            candidate = _Candidate(scored, order_key(digest, scored.entry.atom))
            self._waiting[digest] = candidate
            heappush(self._pool, (-scored.score, candidate.key, candidate))
            return True
        self._score_read = None
        return False

    def _may_read(self) -> bool:
        return self._score_read is not None and (self._look_ahead is None or len(self._waiting) < self._look_ahead)

    def _next(self) -> _Candidate | None:
        """Take the candidate of greatest value out of the pool."""
        while True:
            while self._pool and self._pool[0][2].digest in self._gone:
                heappop(self._pool)
            if not self._pool:
                if self._may_read() and self._read():
                    continue
                return None
            if self._score_read is not None and -self._pool[0][0] < self._score_read and self._may_read():
                self._read()
                continue
            negative, key, candidate = heappop(self._pool)
            if candidate.digest not in self._holding and self._count(candidate) > self._left:
                return candidate  # it will be refused, whatever its value
            value = self._value(candidate)
            if value < -negative:
                heappush(self._pool, (-value, key, candidate))
                continue
            return candidate

    # values

    def _value(self, candidate: _Candidate) -> int:
        if self._diversity:
            self._compare(candidate)
        return candidate.scored.score - self._diversity * candidate.similarity // _MILLION

    def _compare(self, candidate: _Candidate) -> None:
        if candidate.compared == len(self._table):
            return
        if candidate.sketch is None:
            candidate.sketch = sketch(candidate.scored.entry.atom.content)
        found = self._table.most_alike(candidate.sketch, candidate.compared)
        candidate.compared = len(self._table)
        if found is not None and found[1] > candidate.similarity:
            if candidate.alike < 0:
                self._alike.append(candidate)
            candidate.alike, candidate.similarity = found

    def _count(self, candidate: _Candidate) -> int:
        if candidate.tokens < 0:
            counted = self._counter.count(candidate.scored.entry.atom.content)
            if counted < 0:
                raise UsageError(f"counter: {self._counter.name} counted {counted} tokens, a negative number")
            candidate.tokens = counted + self._overhead
        return candidate.tokens

    # molecules

    def _unit(self, first: _Candidate) -> _Unit:
        numbers = self._holding.get(first.digest)
        if numbers:
            group = self._group(first.digest)
            unit = self._together(group) if group else None
            if unit:
                return unit
            self._tangled.update(group)
            for number in numbers:
                if number in self._apart:
                    continue
                unit = self._together(self._molecules[number].atoms)
                if unit:
                    return unit
                self._apart.add(number)
        return _Unit((first,), self._count(first), is_whole=False)

    def _group(self, first: bytes) -> Sequence[bytes]:
        """Return the atoms of all molecules connected with ``first``; none if there are too many."""
        if first in self._tangled:
            return ()
        found = {first: None}
        todo = [first]
        seen: set[int] = set()
        while todo:
            for number in self._holding[todo.pop()]:
                if number in seen:
                    continue
                seen.add(number)
                new = [digest for digest in self._molecules[number].atoms if digest not in found]
                found.update(dict.fromkeys(new))
                todo += new
                if len(found) > MOLECULE_GROUP_MAX:
                    self._tangled.update(found)
                    return ()
        return tuple(found)

    def _together(self, digests: Sequence[bytes]) -> _Unit | None:
        """Return ``digests`` as one unit, or None if not all are available or they exceed the whole budget."""
        members: list[_Candidate] = []
        total = whole = 0
        for digest in digests:
            spent = self._tokens_taken.get(digest)
            if spent is None:
                member = self._member(digest)
                if member is None:
                    return None
                members.append(member)
                spent = self._count(member)
                total += spent
            whole += spent
            if whole > self._budget:
                return None
        return _Unit(sorted(members, key=_by_rank), total, is_whole=True)

    def _member(self, digest: bytes) -> _Candidate | None:
        if digest in self._gone:
            return None
        found = self._waiting.get(digest)
        if found is not None:
            return found
        if self._find is not None:
            scored = self._find(digest)
            if scored is None:
                return None
            candidate = _Candidate(scored, order_key(digest, scored.entry.atom))
            self._waiting[digest] = candidate
            heappush(self._pool, (-scored.score, candidate.key, candidate))
            return candidate
        while self._may_read() and self._read():
            found = self._waiting.get(digest)
            if found is not None:
                return found
        return None

    # taking and refusing

    def _take(self, unit: _Unit, first: _Candidate) -> None:
        self._refused_in_turn = 0
        for member in unit.members:
            if member is not first and self._diversity:
                self._compare(member)
            cause: Cause = "fits" if member is first else "molecule"
            self._reasons.add(self._reason(cause, member, first))
            self._left -= member.tokens
        for member in unit.members:
            self._leave_pool(member)
            self._taken.append(member)
            self._tokens_taken[member.digest] = member.tokens
            if self._diversity:
                self._table.add(member.sketch or sketch(member.scored.entry.atom.content))

    def _refuse(self, unit: _Unit, first: _Candidate) -> None:
        for member in unit.members:
            cause: Cause = "too_large" if member.tokens > self._budget else "no_room"
            self._reasons.add(self._reason("molecule_no_room" if unit.is_whole else cause, member, first))
            self._leave_pool(member)
            self._refused_in_turn += 1

    def _leave_pool(self, member: _Candidate) -> None:
        self._waiting.pop(member.digest, None)
        self._gone.add(member.digest)

    def _leave_the_rest(self) -> None:
        """Refuse the atoms that still wait when the budget is full."""
        for candidate in self._waiting.values():
            if self._reasons.is_told and self._diversity:
                self._compare(candidate)
            self._reasons.add(self._reason("budget_full", candidate, candidate))
        if self._look_ahead is None:
            for scored in self._ranked:
                if scored.entry.digest not in self._gone and scored.entry.digest not in self._waiting:
                    self._reasons.add(Reason("budget_full", scored))

    def _reason(self, cause: Cause, member: _Candidate, first: _Candidate) -> Reason:
        other = self._taken[member.alike].digest if member.alike >= 0 else b""
        if not other and member is not first:
            other = first.digest
        return Reason(cause, member.scored, max(member.tokens, 0), self._left, other, member.similarity)

    # result

    def _near_duplicates(self) -> tuple[NearDuplicate, ...]:
        return tuple(
            NearDuplicate(
                candidate.digest,
                self._taken[candidate.alike].digest,
                candidate.similarity,
                candidate.digest in self._tokens_taken,
            )
            for candidate in sorted(self._alike, key=lambda candidate: candidate.key)
        )

    def _placed(self) -> tuple[PlacedMolecule, ...]:
        numbers = {number for candidate in self._taken for number in self._holding.get(candidate.digest, ())}
        return tuple(
            PlacedMolecule(
                molecule_digest(molecule),
                molecule,
                tuple(digest for digest in molecule.atoms if digest not in self._tokens_taken),
            )
            for molecule in (self._molecules[number] for number in sorted(numbers))
        )


def _by_rank(candidate: _Candidate) -> tuple[int, OrderKey]:
    return (-candidate.scored.score, candidate.key)
