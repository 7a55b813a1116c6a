"""Somebody who takes part in an exchange and writes whatever he likes into his own lineage, sealed and signed as it has to be."""

from __future__ import annotations

import json

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from periplus.base.ids import new_id
from periplus.journal.records.record import seal_line
from periplus.journal.records.segment import Header, encode_header, segment_name
from periplus.journal.storage.tree_head import SignedHead, TreeHead, encode_head, head_message
from periplus.merkle import Frontier

FIELDS = {"v": 2, "seq": 0, "ts": "2026-01-01T00:00:00.000Z", "writer": "mallory", "writer_id": "who_1", "pid": 1,
          "action": "create", "item_type": "decision", "item_id": "", "salt": "A" * 22 + "==", "payload": {"text": "h"},
          "durable": 0}  # fmt: skip


class HostilePeer:
    def __init__(self, store):
        self.store = store
        self.lineage = new_id("lin")
        self.lines = []
        self._key = Ed25519PrivateKey.generate()
        self._tree = Frontier()

    def says(self, **fields):
        """One more record; a field of None is left out."""
        record = FIELDS | {"seq": len(self.lines) + 1} | fields
        kept = {name: value for name, value in record.items() if value is not None}
        line, leaf = seal_line(json.dumps(kept, separators=(",", ":"), ensure_ascii=False)[:-1].encode())
        self.lines.append(line)
        self._tree.extend([leaf])

    def takes_out(self, *objects):
        """An audit record that names objects, whoever's they are."""
        said = {"lineage": self.lineage, "records": [], "objects": list(objects), "reason": "mine"}
        self.says(action="redact", item_type=None, item_id=None, payload=said)

    def puts(self, folder):
        """All of it, in the exchange folder ``folder``."""
        place = folder / "journal" / self.lineage
        place.mkdir(parents=True)
        (folder / "objects").mkdir(exist_ok=True)
        (folder / "exchange.json").write_text(json.dumps({"format": 1, "store": self.store}))
        header = encode_header(Header(2, 2, self.store, self.lineage, 1, ""))
        (place / segment_name(1)).write_bytes(b"".join([header, *self.lines]))
        head = TreeHead(self.store, self.lineage, self._tree.size, self._tree.root().hex())
        key = self._key.public_key().public_bytes_raw().hex()
        signed = SignedHead(1, head, key, self._key.sign(head_message(head)).hex())
        (place / "head.json").write_bytes(encode_head(signed))
        return folder
