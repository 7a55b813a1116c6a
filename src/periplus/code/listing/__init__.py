"""Files of a folder with the ids of their contents."""

from typing import TYPE_CHECKING

from periplus.base.lazy_package import lazily

if TYPE_CHECKING:
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
            "list_files": "file_list",
            **dict.fromkeys(
                ("FILES_MAX", "FileState", "IndexState", "Listing", "Stamp", "blob_id", "files_of", "is_settled"),
                "model",
            ),
        },
    )

__all__ = [
    "FILES_MAX",
    "FileState",
    "IndexState",
    "Listing",
    "Stamp",
    "blob_id",
    "files_of",
    "is_settled",
    "list_files",
]
