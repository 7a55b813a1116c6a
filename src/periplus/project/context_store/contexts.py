"""The contexts of a project: objects in the store's own folder of objects, refs as records of its journal.

Rules kept here:

* objects come first: a context is on the disk, with everything below it, before the record of a ref names it;
* a commit is the smallest delta: an atom without news is left out, and an empty delta is not written;
* derived files lie in ``cache/contexts``, and can be removed at any time.
"""

from __future__ import annotations

__all__ = ["DEFAULT_REF", "Committed", "Merged", "ProjectContexts", "RefState", "contexts_of"]

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from periplus.base.encoding.container import KIND_CONTEXT, kind_of
from periplus.base.encoding.digests import is_digest_text
from periplus.base.errors import ConflictError, DamageError, NotFoundError, PeriplusError, SecretFoundError, UsageError
from periplus.base.ids import typed_id
from periplus.base.named_tuple import NamedTuple
from periplus.context.deltas.atom_lookup import find, molecule_table
from periplus.context.deltas.log import AUTHOR_KEY, MESSAGE_KEY, TIME_KEY
from periplus.context.model import Context, Entry, Molecule, molecule_digest
from periplus.context.stores.refs import check_ref_name
from periplus.project.context_store.library import ProjectLibrary
from periplus.project.context_store.sources import is_outdated

if TYPE_CHECKING:
    from periplus.base.encoding.canonical import JSONValue
    from periplus.context.deltas.merge import Choice, Conflict, Resolution
    from periplus.context.model import Expansion
    from periplus.context.selection.filters import Filters
    from periplus.context.selection.search import Selection
    from periplus.project.context_store.lines import GivenAtom
    from periplus.project.store import ProjectStore

DEFAULT_REF: Final = "main"
MESSAGE_CHARACTERS_MAX: Final = 2_000
_COMMIT_TRIES: Final = 16
_BACK: Final = re.compile(r"(.+)~(\d{1,9})\Z", re.DOTALL)
_PREFIX: Final = re.compile(r"[0-9a-f]{4,64}\Z")


class Committed(NamedTuple):
    """``digest`` is where the ref points now, None for nowhere; the numbers of atoms that were new, annotated again,
    removed; of new molecules.
    """

    digest: bytes | None
    base: bytes | None
    ref: str
    changed: bool
    added: int
    annotated: int
    removed: int
    molecules: int
    live: int


class Merged(NamedTuple):
    """``outcome`` as in ``context.deltas.merge``, or kept: of a ref that a clone had ended; ``head`` is where the ref points
    now.
    """

    outcome: str
    head: bytes
    ref: str
    ours: bytes
    theirs: tuple[bytes, ...]
    conflicts: tuple[Conflict, ...]
    settled: tuple[Resolution, ...]


class RefState(NamedTuple):
    """``apart`` has every place where a clone left the ref, with writer and time; one, unless clones moved it apart.
    ``is_ended_apart``: a clone ended it, and another moved it meanwhile.
    """

    name: str
    target: bytes
    writer: str
    ts: str
    apart: tuple[tuple[bytes, str, str], ...]
    is_ended_apart: bool = False


def contexts_of(project: ProjectStore) -> ProjectContexts:
    """Return the contexts of the project, which are opened when they are first used."""
    if project.opened_contexts is None:
        project.opened_contexts = ProjectContexts(project)
    assert isinstance(project.opened_contexts, ProjectContexts)
    return project.opened_contexts


class ProjectContexts:
    """The contexts of ``project``. ``library`` is the store of them, and satisfies ``context.Store``."""

    def __init__(self, project: ProjectStore) -> None:
        self._project = project
        self.library = ProjectLibrary(project)
        self.table = self.library.table

    def close(self) -> None:
        """Close what is open."""
        self.library.close()

    # -- names -------------------------------------------------------------------------------------------------------

    def resolve(self, reference: str) -> bytes:
        """Return the context that a ref, a digest or the beginning of one names; ``~N`` behind it is the base N
        deltas before. Raises NotFoundError, UsageError for a beginning of several.
        """
        found = _BACK.match(reference)
        if found is None:
            return self._named(reference)
        digest, steps = self._named(found[1]), int(found[2])
        for step in range(steps):
            base = self.library.header(digest).base
            if base is None:
                raise NotFoundError(f"{found[1]} stands on {step} context{'s' if step != 1 else ''}, not on {steps}",
                                    mend=f"See `periplus context log {found[1]}`.")  # fmt: skip
            digest = base
        return digest

    def _named(self, reference: str) -> bytes:
        target = self.table.get(reference)
        if target is not None:
            return target
        typed, reference = reference, typed_id(reference)
        if not _PREFIX.match(reference):
            raise self._unknown(typed)
        candidates = (
            [bytes.fromhex(reference)] if is_digest_text(reference) else self.library.shelf.digests_like(reference)
        )
        found = [digest for digest in candidates if self._is_context(digest)]
        if len(found) > 1:
            raise UsageError(
                f"{len(found)} contexts have a digest that begins with {reference}", mend="Type more of it."
            )
        if not found:
            raise self._unknown(typed)
        return found[0]

    def _is_context(self, digest: bytes) -> bool:
        try:
            return kind_of(self.library.source.get(digest)) == KIND_CONTEXT
        except PeriplusError:
            return False  # not here, or damaged: the doctor reports it

    def _unknown(self, reference: str) -> NotFoundError:
        damage = self._project.journal.damage
        if damage is not None:
            return NotFoundError(
                f"no context is called {reference[:100]!r} among the readable records: {damage}",
                safe="Nothing was changed.",
                mend="Records are missing, and it may be in them: run `periplus doctor`.",
            )
        if reference == DEFAULT_REF and not self.table.all():
            return NotFoundError(
                "there are no contexts yet", mend="Make one: periplus context commit --from memory, or FILE.jsonl"
            )
        return NotFoundError(
            f"no context is called {reference[:100]!r}", mend="See `periplus context refs` and `periplus context log`."
        )

    def atom_named(self, expansion: Expansion, prefix: str) -> bytes:
        """Return the atom, or the molecule, of an expansion whose digest begins with ``prefix``. Raises
        NotFoundError, UsageError.
        """
        typed, prefix = prefix, typed_id(prefix)
        if not _PREFIX.match(prefix):
            raise UsageError(f"{typed[:80]!r} is not the beginning of a digest, which is 4 to 64 hexadecimal digits",
                             safe="Nothing was changed.")  # fmt: skip
        known = [*(entry.digest for entry in expansion.entries), *map(molecule_digest, expansion.molecules)]
        found = [digest for digest in known if digest.hex().startswith(prefix)]
        where = expansion.context.hex()[:12]
        if not found:
            raise NotFoundError(f"no atom in {where} has a digest that begins with {prefix}",
                                mend=f"See `periplus context expand {where}`.")  # fmt: skip
        if len(found) > 1:
            raise UsageError(
                f"{len(found)} atoms in {where} have a digest that begins with {prefix}", mend="Type more of it."
            )
        return found[0]

    def entries(self, context: bytes) -> Iterator[Entry]:
        """Yield the atoms of an expansion in their order, read as they are asked for."""
        return (Entry(row.key[2], row.atom, row.origin) for row in self.library.ordered_rows(context))

    def live(self, context: bytes) -> int:
        """Return the number of live atoms of a context; -1 where it is not here."""
        try:
            return self.library.header(context).live
        except (NotFoundError, DamageError):
            return -1

    # -- refs --------------------------------------------------------------------------------------------------------

    def refs(self) -> list[RefState]:
        """Return every ref with its last writer, by name."""
        states = []
        for name, target in self.table.all().items():
            entity = self.table.entity(name)
            assert entity is not None
            is_ended = self.table.is_ended_apart(name)
            states.append(RefState(name, target, entity.writer, entity.ts, self.table.places(name), is_ended))
        return states

    def set_ref(self, name: str, target: bytes | None, *, force: bool = False, why: str = "") -> bytes | None:
        """Point ``name`` to ``target``, None ends it; returns its former target. Raises ConflictError where
        ``target`` is not a descendant and nothing forces it, NotFoundError and UsageError for a context that is
        incomplete or damaged.
        """
        check_ref_name(name)
        standing = self.table.standing(name)
        before = standing[0] if standing else None
        if target is not None:
            self.library.admit(target)
        if target is None and before is None:
            raise NotFoundError(
                f"there is no ref {name!r}", safe="Nothing was moved.", mend="See `periplus context refs`."
            )
        if not force:
            self._check_forward(name, standing, target)
        self.library.source.settle()
        self.table.move(name, before, target, standing=standing, why=why)
        return before

    def _check_forward(self, name: str, standing: Sequence[bytes], target: bytes | None) -> None:
        if len(standing) > 1 and (target is None or not all(self.library.descends(target, one) for one in standing)):
            raise self.table.apart(name, standing)
        if standing and target is not None and not self.library.descends(target, standing[0]):
            raise ConflictError(
                f"{target.hex()[:12]} does not descend from {standing[0].hex()[:12]}, where the ref {name} is",
                safe="Nothing was moved.",
                mend="Merge the two with `periplus context merge`, or move the ref all the same with --force.",
            )

    # -- reading -----------------------------------------------------------------------------------------------------

    def select(
        self, context: bytes, *, query: str = "", budget_tokens: int, filters: Filters | None = None,
        is_matching_only: bool = False, explain: bool = False,
    ) -> Selection:  # fmt: skip
        """Return the atoms that fit a budget; see ``periplus.context.selection.search``."""
        from periplus.context.selection.filters import Filters
        from periplus.context.selection.search import RepeatableEntries, select

        def find_one(digest: bytes) -> Entry | None:
            return find(self.library, context, [digest]).get(digest)

        return select(
            RepeatableEntries(lambda: self.entries(context)), budget_tokens=budget_tokens, now_ms=self._project.journal.clock.now_ms(), query=query,
            filters=filters or Filters(), molecules=molecule_table(self.library, context).molecules(), find=find_one,
            is_matching_only=is_matching_only, explain=explain,
        )  # fmt: skip

    # -- committing --------------------------------------------------------------------------------------------------

    def commit(
        self,
        given: Sequence[GivenAtom],
        *,
        molecules: Sequence[Molecule] = (),
        removed: Sequence[str] = (),
        base: str = "",
        ref: str = DEFAULT_REF,
        message: str = "",
        is_all_memory: bool = False,
    ) -> Committed:
        """Commit what is new in this over the target of ``ref`` (or over ``base``: a context, or ``none``), and move
        the ref there.

        ``is_all_memory``: atoms that an earlier commit took from memory and that are missing now are removed, except
        those of memory that is unknown here. Raises UsageError naming the field, ConflictError where a ``base`` is
        given and the ref points elsewhere by now.
        """
        check_ref_name(ref)
        self._check_message(message)
        for tries_left in reversed(range(_COMMIT_TRIES)):
            standing = self.table.standing(ref)
            over = self._base_of(base, ref, standing)
            delta, counts = self._delta(over, given, molecules, removed, is_all_memory=is_all_memory)
            live = self.library.header(over).live if over is not None else 0
            if delta is None:
                return Committed(
                    over, over, ref, changed=False, added=0, annotated=0, removed=0, molecules=0, live=live
                )
            digest = self.library.commit(_with_metadata(delta, self.metadata(message)))
            try:
                self.table.move(ref, standing[0] if standing else None, digest, standing=standing, why=message)
            except ConflictError:
                if base or not tries_left:
                    raise
                continue  # another commit came first: commit the same on top of it
            return Committed(digest, over, ref, True, *counts, self.library.header(digest).live)
        raise AssertionError("the last try raises or returns")

    def _base_of(self, base: str, ref: str, standing: Sequence[bytes]) -> bytes | None:
        """Return the base of a commit to ``ref``. Raises ConflictError where that would not take the ref forward."""
        tip = standing[0] if standing else None
        over = tip if not base else None if base == "none" else self.resolve(base)
        if standing and over is None:
            raise ConflictError(f"the ref {ref} stands at {standing[0].hex()[:12]} already", safe="Nothing was committed.",
                                mend="Name another --ref for a context without a parent.")  # fmt: skip
        if standing and (over != tip or len(standing) > 1):
            self._check_forward(ref, standing, over)
        return over

    def _check_message(self, message: str) -> None:
        """Check before anything is written: the context is on the disk when the record that repeats its message is
        checked.
        """
        if len(message) > MESSAGE_CHARACTERS_MAX:
            raise UsageError(f"message: over {MESSAGE_CHARACTERS_MAX:,} characters", safe="Nothing was committed.")
        if self._project.journal.check_said is None:
            return  # somebody insists
        from periplus.base.text.secrets import find_secrets

        if find_secrets(message):
            raise SecretFoundError("the message holds what looks like a secret", safe="Nothing was committed.",
                                   mend="Leave it out; if it is not a secret, insist with --insist where the command has it.")  # fmt: skip

    def metadata(self, message: str) -> dict[str, JSONValue]:
        """Return the metadata of a commit: writer, time, message."""
        project = self._project
        said: dict[str, JSONValue] = {AUTHOR_KEY: project.writer.name, TIME_KEY: project.journal.clock.now_ms()}
        return {**said, MESSAGE_KEY: message} if message else said

    def merge(
        self,
        other: str = "",
        *,
        ref: str = DEFAULT_REF,
        choose: Mapping[str, Choice] | None = None,
        favour: Choice | None = None,
        message: str = "",
        dry_run: bool = False,
    ) -> Merged:
        """Merge ``other`` into ``ref``; without it the places where clones left the ref, which is kept where one of
        them ended it. ``choose`` decides for atoms in conflict, by the beginning of their digests, which side
        stands. With conflicts left nothing is changed.
        """
        self._check_message(message)
        standing = self.table.standing(ref)
        if not standing:
            raise NotFoundError(
                f"there is no ref {ref!r} to merge into",
                safe="Nothing was changed.",
                mend="See `periplus context refs`.",
            )
        theirs = standing[1:] if not other else (self.resolve(other),)
        if not theirs and self.table.is_ended_apart(ref):
            if not dry_run:
                self.table.move(
                    ref, standing[0], standing[0], standing=standing, why=message or "another clone had ended it"
                )
            return Merged("kept", standing[0], ref, standing[0], (), (), ())
        if not theirs:
            raise UsageError(f"the ref {ref} has one head: there is nothing to merge", safe="Nothing was changed.",
                             mend="Name a context to merge into it.")  # fmt: skip
        if other and len(standing) > 1:
            raise self.table.apart(ref, standing)
        message = message or (f"merge of {other}" if other else f"merge of what clones did to {ref}")
        from periplus.project.context_store.merge import merge_in

        done = merge_in(self.library, standing[0], theirs, choose or {}, favour, self.metadata(message))
        head = standing[0]
        if not done.conflicts and not dry_run:
            head = done.commit(self.library)
            if done.outcome == "fast-forward":  # nothing of theirs was read, and they may have arrived in part
                self.library.admit(head)
                self.library.source.settle()
            if done.outcome != "already" or len(standing) > 1:
                self.table.move(ref, standing[0], head, standing=standing, why=message)
        return Merged(done.outcome, head, ref, standing[0], theirs, done.conflicts, done.settled)

    def _delta(
        self, base: bytes | None, given: Sequence[GivenAtom], molecules: Sequence[Molecule], removed: Sequence[str],
        *, is_all_memory: bool,
    ) -> tuple[Context | None, tuple[int, int, int, int]]:  # fmt: skip
        names = {one.digest for one in given}
        held = {digest: entry.atom for digest, entry in find(self.library, base, names).items()}
        said = [(one.digest, one.over(held.get(one.digest))) for one in given]
        atoms = [(digest, atom) for digest, atom in said if atom != held.get(digest)]
        gone = self._gone(base, removed) if removed else set()
        if gone & names:
            raise UsageError(
                f"the atom {min(gone & names).hex()[:12]} is both given and removed", safe="Nothing was committed."
            )
        if is_all_memory and base is not None:
            rest = (one for one in self.entries(base) if one.digest not in names)
            gone |= {one.digest for one in rest if is_outdated(self._project, one.atom)}
        known = molecule_table(self.library, base) if molecules else ()
        new = [one for one in molecules if molecule_digest(one) not in known]
        if not atoms and not gone and not new:
            return None, (0, 0, 0, 0)
        anew = sum(digest in held for digest, _ in atoms)
        context = Context(base, tuple(atom for _, atom in atoms), tuple(new), tuple(sorted(gone)))
        return context, (len(atoms) - anew, anew, len(gone), len(new))

    def _gone(self, base: bytes | None, removed: Iterable[str]) -> set[bytes]:
        if base is None:
            raise NotFoundError("a context without a parent has nothing to remove", safe="Nothing was committed.")
        expansion = self.library.expand(base)
        return {self.atom_named(expansion, prefix) for prefix in removed}


def _with_metadata(context: Context, metadata: dict[str, JSONValue]) -> Context:
    import msgspec

    return msgspec.structs.replace(context, metadata=metadata)
