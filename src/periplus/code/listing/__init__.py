"""Files of a folder with the ids of their contents, and which of them are code that somebody wrote."""

from typing import TYPE_CHECKING

from periplus.base.lazy_package import lazily

if TYPE_CHECKING:
    from periplus.code.listing.attributes import Attributes, FileAttributes
    from periplus.code.listing.classification import ParseState, state_of_contents, state_of_path
    from periplus.code.listing.file_list import list_files
    from periplus.code.listing.model import (
        FILES_MAX,
        FileState,
        IndexState,
        Listing,
        Stamp,
        blob_id,
        files_of,
        is_settled,
    )
else:
    __getattr__ = lazily(
        __name__,
        {
            **dict.fromkeys(("Attributes", "FileAttributes"), "attributes"),
            **dict.fromkeys(("ParseState", "state_of_contents", "state_of_path"), "classification"),
            "list_files": "file_list",
            **dict.fromkeys(
                ("FILES_MAX", "FileState", "IndexState", "Listing", "Stamp", "blob_id", "files_of", "is_settled"),
                "model",
            ),
        },
    )

__all__ = [
    "FILES_MAX",
    "Attributes",
    "FileAttributes",
    "FileState",
    "IndexState",
    "Listing",
    "ParseState",
    "Stamp",
    "blob_id",
    "files_of",
    "is_settled",
    "list_files",
    "state_of_contents",
    "state_of_path",
]
