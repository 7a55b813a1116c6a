"""A reader of stores that shares nothing with Periplus but the pages of `docs/formats/`.

It was written from these pages alone, imports nothing of `periplus`, and only the standard library besides (for
signatures `cryptography`). Where a page does not say enough for it, that is a defect of the page. It checks everything
that the page of the journal says of a store, and works out what each entity is; `tests/test_independent_reader.py` holds
that against what the program says.

    python -m independent_reader FOLDER      # from tests/: what is in a store, and what is wrong in it
"""
