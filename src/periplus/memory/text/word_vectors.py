"""Search by meaning with a model of static word vectors on this machine: an optional extra, weighted so that it
lowers no measure.

A model is a folder that the user names: ``model.safetensors`` with a tensor ``embeddings`` (a row for each token, and
perhaps ``weights`` and ``mapping``), and ``tokenizer.json``, as model2vec writes them. A text's vector is the mean of
its tokens' vectors. Nothing here can fetch anything: files are read with ``tokenizers`` and ``safetensors``, which
the extra ``embeddings`` installs, and no name of a model is known.

Only memories have vectors; sessions and commits are long, and say a thing in many words. The vectors lie in the
index, are made when they are first asked for, are removed with their document, and are all made again for another
model. Words decide: their hits are ranked as without a model, and other hits join them with a small share of the
score of the best (``docs/decisions/0048-search-and-ranking.md``).
"""

from __future__ import annotations

__all__ = ["Meaning", "open_meaning"]

import os
import sqlite3
import stat
from collections.abc import Sequence
from typing import Any, Final

from periplus.base.errors import UsageError, environment_failure
from periplus.base.filesystem.file_systems import is_room_for_maps

NEAR_MAX: Final = 30
LIFT: Final = 0.2  # share of the best word match that a perfect match of meaning gets
NEAR_FROM: Final = 0.5  # standard deviations above the mean: less is chance
NEAR_OVER: Final = 2.0  # deviations above that at which a match counts as perfect
TENSORS: Final = "model.safetensors"
TOKENIZER: Final = "tokenizer.json"
# The files in a package that carries a model, by the package's name.
PACKAGES: Final = {"wordllama": ("weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json")}
_SAMPLE_BYTES: Final = 1 << 16
_MODEL_BYTES_MAX: Final = 4 << 30
_TOKENIZER_BYTES_MAX: Final = 256 << 20
_TOKENS_MAX: Final = 512
_DOCUMENTS_MAX: Final = 50_000  # the newest; older ones are found by words only
_DOCUMENTS_MIN: Final = 8
_AT_ONCE: Final = 500
_BUSY_S: Final = 0.2
# No trigger: an index with one is discarded when it is opened. Whatever removes a document removes its vector.
_TABLE: Final = "CREATE TABLE vectors (id INTEGER PRIMARY KEY, model TEXT NOT NULL, vector BLOB NOT NULL)"
_WITHOUT: Final = (
    "SELECT d.id, p.text FROM documents d JOIN passages p ON p.id = d.id LEFT JOIN vectors v ON v.id = d.id AND v.model = ?"
    " WHERE d.item_type <> 'trail' AND v.id IS NULL ORDER BY d.id DESC LIMIT ?"
)


def open_meaning(name: str) -> Meaning:
    """Open the model in ``folder``. Raises UsageError where there is none, or where the extra is not installed."""
    try:
        import numpy as np
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer
    except ImportError as error:
        raise _not_installed(error.name or "a package") from error
    tensors, tokens = _files_of(name)
    digest = _digest(tensors, tokens)
    try:
        held = load_file(tensors)
        tokenizer = Tokenizer.from_file(tokens)
    except Exception as error:  # third-party libraries on a file from an unknown source
        raise _no_model(name, str(error)) from error
    vectors = held.get("embeddings", held.get("embedding.weight"))
    if vectors is None or vectors.ndim != 2 or not vectors.size:
        raise _no_model(name, "there is no tensor 'embeddings' with rows")
    return Meaning(np, digest, vectors.astype(np.float32), held.get("mapping"), held.get("weights"), tokenizer)


class Meaning:
    """A model, and the vectors that it gives for texts."""

    def __init__(self, np: Any, digest: str, vectors: Any, mapping: Any, weights: Any, tokenizer: Any) -> None:
        self.digest = digest
        self._np = np
        self._vectors, self._mapping, self._weights = vectors, mapping, weights
        self._tokenizer = tokenizer
        self._tokenizer.no_padding()
        self._unknown = _unknown_of(tokenizer)
        self._kept: tuple[tuple[object, ...], Any, Any] | None = None

    def vectors_of(self, texts: Sequence[str]) -> Any:
        """Return a row of length 1 for each text, zeros for a text without known tokens."""
        np = self._np
        found = np.zeros((len(texts), self._vectors.shape[1]), dtype=np.float32)
        for place, encoded in enumerate(self._tokenizer.encode_batch(list(texts), add_special_tokens=False)):
            tokens = np.asarray([one for one in encoded.ids[:_TOKENS_MAX] if one != self._unknown], dtype=np.int64)
            rows = tokens if self._mapping is None else self._mapping[tokens[tokens < len(self._mapping)]]
            if self._weights is not None:
                weights = self._weights[tokens[tokens < len(self._weights)]]
                rows, weights = rows[: len(weights)], weights[: len(rows)]
                taken = self._vectors[rows] * weights[:, None]
            else:
                taken = self._vectors[rows[rows < len(self._vectors)]]
            if len(taken):
                mean = taken.mean(axis=0)
                length = float(np.linalg.norm(mean))
                found[place] = mean / length if length else mean
        return found

    def near(self, path: str, db: sqlite3.Connection, question: str) -> dict[int, float]:
        """Return the memories nearest to ``question`` in meaning, with a nearness above 0 and up to 1. ``path`` is
        the index file, where vectors are kept; ``db`` a view of it that is being read.
        """
        np = self._np
        asked = self.vectors_of([question])[0]
        ids, matrix = self._of_documents(path, db)
        if not len(ids) or not asked.any():
            return {}
        alike = matrix @ asked
        spread = float(alike.std())
        if len(ids) < _DOCUMENTS_MIN or not spread:  # a few texts do not show what nearness is usual
            return {}
        nearness = ((alike - alike.mean()) / spread - NEAR_FROM) / NEAR_OVER
        best = np.argsort(-nearness, kind="stable")[:NEAR_MAX]
        return {int(ids[place]): min(1.0, float(nearness[place])) for place in best if nearness[place] > 0}

    def _of_documents(self, path: str, db: sqlite3.Connection) -> tuple[Any, Any]:
        """Return the numbers of documents, and their vectors as the rows of a matrix."""
        try:
            own = _connect(path)
            try:
                return self._kept_up(own)
            finally:
                own.close()
        except sqlite3.OperationalError:  # a read-only store, or one that is being written: computed for this call only
            select = "SELECT id, text FROM documents JOIN passages USING (id) WHERE item_type <> 'trail' ORDER BY id DESC LIMIT ?"
            found = db.execute(select, (_DOCUMENTS_MAX,)).fetchall()
            ids = self._np.asarray([row_id for row_id, _ in found], dtype=self._np.int64)
            return ids, self.vectors_of([text for _, text in found])

    def _kept_up(self, db: sqlite3.Connection) -> tuple[Any, Any]:
        np = self._np
        self._make_table(db)
        missing = db.execute(_WITHOUT, (self.digest, _DOCUMENTS_MAX)).fetchall()
        for begin in range(0, len(missing), _AT_ONCE):
            self._write(db, missing[begin : begin + _AT_ONCE])
        state = (db.execute("SELECT COUNT(*), MAX(id), TOTAL(id) FROM vectors").fetchone(),)
        if self._kept is None or self._kept[0] != state or missing:
            width = self._vectors.shape[1]
            asked = "SELECT id, vector FROM vectors WHERE LENGTH(vector) = ? ORDER BY id DESC LIMIT ?"
            rows = db.execute(asked, (2 * width, _DOCUMENTS_MAX)).fetchall()
            ids = np.asarray([row_id for row_id, _ in rows], dtype=np.int64)
            matrix = np.frombuffer(b"".join(data for _, data in rows), dtype=np.float16).reshape(len(rows), width)
            self._kept = (state, ids, matrix.astype(np.float32))
        return self._kept[1], self._kept[2]

    def _make_table(self, db: sqlite3.Connection) -> None:
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'vectors'").fetchone() is not None:
            stands = db.execute("SELECT 1 FROM vectors WHERE model <> ? LIMIT 1", (self.digest,)).fetchone() is None
            if stands:
                return
        db.execute("BEGIN IMMEDIATE")
        try:
            db.execute("DROP TABLE IF EXISTS vectors")  # of another model, or of documents that are gone
            db.execute(_TABLE)
        except BaseException:  # any error: roll back, then raise it again
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")

    def _write(self, db: sqlite3.Connection, documents: Sequence[tuple[int, str]]) -> None:
        vectors = self.vectors_of([text for _, text in documents]).astype(self._np.float16)
        rows = [
            (row_id, self.digest, vector.tobytes(), row_id)
            for (row_id, _), vector in zip(documents, vectors, strict=True)
        ]
        db.execute("BEGIN IMMEDIATE")
        try:
            db.executemany(
                "INSERT OR REPLACE INTO vectors SELECT ?, ?, ? WHERE EXISTS (SELECT 1 FROM documents WHERE id = ?)",
                rows,
            )
        except BaseException:  # any error: roll back, then raise it again
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")


def _files_of(name: str) -> tuple[str, str]:
    """Return the paths of the tensors and of the tokenizer. Raises UsageError for a package that is not installed."""
    if name not in PACKAGES:
        return os.path.join(name, TENSORS), os.path.join(name, TOKENIZER)
    from importlib.util import find_spec

    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise _not_installed(name)
    tensors, tokens = (os.path.join(os.path.dirname(spec.origin), part) for part in PACKAGES[name])
    return tensors, tokens


def _connect(path: str) -> sqlite3.Connection:
    """Open a connection to the index. Raises sqlite3.OperationalError, also where its log could not be mapped into
    memory.
    """
    if not is_room_for_maps(os.path.dirname(path)):
        raise sqlite3.OperationalError("no room is left for the log's map")
    return sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)


def _digest(tensors: str, tokens: str) -> str:
    """Return a digest that tells models apart: of the tokenizer, and of the size, beginning and end of the vectors."""
    from hashlib import sha256

    sum_ = sha256()
    for path, most in ((tokens, _TOKENIZER_BYTES_MAX), (tensors, _MODEL_BYTES_MAX)):
        try:
            with open(path, "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or not 0 < status.st_size <= most:
                    raise _no_model(
                        os.path.dirname(path), f"{os.path.basename(path)} is not a file, or has an unexpected size"
                    )
                sum_.update(f"{status.st_size};".encode())
                if path == tokens:
                    sum_.update(file.read(most))
                else:
                    sum_.update(file.read(_SAMPLE_BYTES))
                    file.seek(max(0, status.st_size - _SAMPLE_BYTES))
                    sum_.update(file.read(_SAMPLE_BYTES))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            raise _no_model(os.path.dirname(path), f"there is no {os.path.basename(path)}") from error
        except OSError as error:
            raise environment_failure(error, "read", path) from error
    return sum_.hexdigest()[:32]


def _not_installed(package: str) -> UsageError:
    return UsageError(
        f"embeddings need {package}, which is not installed", safe="Search by words works without them.",
        mend="pip install 'periplus[embeddings]', or unset PERIPLUS_EMBEDDINGS.",
    )  # fmt: skip


def _no_model(name: str, wrong: str) -> UsageError:
    return UsageError(
        f"{name} holds no model of word vectors: {wrong}", safe="Search by words works without them.",
        mend=f"Name a folder with {TENSORS} and {TOKENIZER} in PERIPLUS_EMBEDDINGS, or {' or '.join(PACKAGES)}, or unset it.",
    )  # fmt: skip


def _unknown_of(tokenizer: Any) -> int | None:
    import json

    model = json.loads(tokenizer.to_str())["model"]
    if isinstance(model.get("unk_id"), int):
        return int(model["unk_id"])
    found = tokenizer.token_to_id(model["unk_token"]) if model.get("unk_token") else None
    return found if found is None else int(found)
