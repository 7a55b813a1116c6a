"""Carriers: places where copies of lineages are exchanged, either a folder or refs of a git repository. See periplus.journal.exchange.sync."""

from periplus.journal.carriers.carrier import Carrier
from periplus.journal.carriers.folder import FolderCarrier, is_folder_carrier, open_folder
from periplus.journal.carriers.git_refs import GitCarrier, resolve_remote
from periplus.journal.carriers.store import StoreCarrier
from periplus.journal.storage.tree_head import SignedHead

__all__ = [
    "Carrier",
    "FolderCarrier",
    "GitCarrier",
    "SignedHead",
    "StoreCarrier",
    "is_folder_carrier",
    "open_folder",
    "resolve_remote",
]
