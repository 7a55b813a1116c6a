"""`python -m independent_reader FOLDER`."""

import sys
from pathlib import Path

from .store import Store, told

_REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "entities.md"

if __name__ == "__main__":
    print(told(Store(Path(sys.argv[1]), _REFERENCE.read_text(encoding="utf-8"))))
