"""SHA-256 with a delayed import of ``hashlib``: loading OpenSSL takes longer than a short command hashes.

The first few small hashes use Python's built-in implementation. After that, and at once for large data, ``sha256`` of this
module is that of ``hashlib``. So refer to it through the module, as ``hashing.sha256``.
"""

from __future__ import annotations

__all__ = ["sha256"]

from typing import TYPE_CHECKING, Final

FEW: Final = 100
SMALL_BYTES: Final = 1 << 16

if TYPE_CHECKING:
    from hashlib import sha256
else:
    try:
        from _sha2 import sha256 as _own  # Python 3.12 and later
    except ImportError:
        try:
            from _sha256 import sha256 as _own
        except ImportError:  # a Python that was built without
            from hashlib import sha256 as _own

    _made = 0

    def sha256(data=b""):  # noqa: ANN001, ANN201 - type checkers see that of hashlib
        """Return a hash object over ``data`` (FIPS 180-4)."""
        global _made, sha256  # noqa: PLW0603 - the module is what is named where it is used
        _made += 1
        if _made <= FEW and memoryview(data).nbytes <= SMALL_BYTES:
            return _own(data)
        from hashlib import sha256

        return sha256(data)
