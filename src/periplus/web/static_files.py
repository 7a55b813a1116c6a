"""Files of the page: its style and scripts, and the libraries that it carries, by a fixed table of names."""

from __future__ import annotations

__all__ = ["LICENCES", "VENDORED", "static_file"]

import os
from functools import cache
from typing import Final

from periplus.base.errors import EnvironmentFailure

_FOLDER: Final = os.path.join(os.path.dirname(__file__), "static")
_TYPES: Final = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
# Libraries that are carried as they were published, with the SHA-256 of each file; a test compares them.
VENDORED: Final[dict[str, str]] = {
    "vendor/htmx/htmx.min.js": "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",  # htmx.org 4.0.1
    "vendor/htmx/hx-sse.min.js": "18ef2761356ec1fe0bb6d92612315b37517a7c1e9856b661c5ae81fef239d103",
    "vendor/uplot/uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",  # uplot 1.6.32
    "vendor/uplot/uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
LICENCES: Final[dict[str, str]] = {
    "vendor/htmx/LICENSE": "d3d2456f76414f2456104660ebd65aff1c04cd7966b942bdabd63f3cdb316a38",
    "vendor/uplot/LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}
_OWN: Final = ("page.css", "page.js", "charts.js", "icon.svg")


@cache
def static_file(name: str) -> tuple[bytes, str] | None:
    """Return the bytes and the media type of a file of the page; None for any other name."""
    if name not in _OWN and name not in VENDORED:
        return None
    path = os.path.join(_FOLDER, *name.split("/"))
    try:
        with open(path, "rb") as file:
            return file.read(), _TYPES[name.rpartition(".")[2]]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EnvironmentFailure(f"{name} of the page is missing: {error}", mend="Install periplus again.") from error
