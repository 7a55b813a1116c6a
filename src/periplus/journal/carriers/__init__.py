"""Where copies of lineages are exchanged: a folder, refs of a git repository. See periplus.journal.exchange."""

from periplus.journal.carriers.carrier import Carrier, SignedHead
from periplus.journal.carriers.folder import FolderCarrier, StoreCarrier, is_folder_carrier, open_folder
from periplus.journal.carriers.gitrefs import GitCarrier, resolve_remote

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
