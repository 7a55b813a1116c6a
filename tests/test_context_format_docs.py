"""docs/formats/context.md says what is: its example and its limits are those of the code."""

import re
from pathlib import Path

import pytest

from periplus.context import model, types, validation
from periplus.context.model import Context
from periplus.context.records import layout, pages
from periplus.context.records.record import atom, encode

pytestmark = pytest.mark.quick

PAGE = (Path(__file__).parents[1] / "docs" / "formats" / "context.md").read_text(encoding="utf-8")


def test_the_example_is_what_is_written():
    source = re.search(r"```python\n(Context\(.*?)```", PAGE, re.DOTALL)[1]
    context = eval(source, {"Context": Context, "atom": atom})  # our own page
    one = encode(context, depth=0, live=1)
    data = one.objects[0][1]
    shown = [line[6:] for line in re.search(r"```\n(0000  .*?)```", PAGE, re.DOTALL)[1].splitlines()]
    assert bytes.fromhex(" ".join(shown)) == data
    assert f"`{one.digest.hex()}`, the SHA-256 of these {len(data)} bytes" in PAGE


def test_the_limits_are_those_of_the_code():
    section = PAGE.partition("## Limits")[2].partition("\n## ")[0]
    table = dict(re.findall(r"^\| ([^|]+) \| ([\d,]+)(?: bytes)? \|$", section, re.MULTILINE))
    assert {name: int(value.replace(",", "")) for name, value in table.items()} == {
        "a record": layout.RECORD_BYTES_MAX,
        "a page or other object": pages.PAGE_BYTES_MAX,
        "content of an atom": validation.CONTENT_BYTES_MAX,
        "contents that other atoms of the same context have as well, in all": validation.REPEATED_BYTES_MAX,
        "source": validation.SOURCE_BYTES_MAX,
        "tags of an atom": model.TAGS_MAX,
        "a tag": validation.TAG_BYTES_MAX,
        "atoms of one context, removals of one context": validation.ATOMS_MAX,
        "molecules of one context": validation.MOLECULES_MAX,
        "atoms of a molecule": validation.MOLECULE_ATOMS_MAX,
        "relations of a molecule": validation.MOLECULE_RELATIONS_MAX,
        "pairs of a molecule": validation.MOLECULE_PAIRS_MAX,
        "metadata": validation.METADATA_BYTES_MAX,
        "contexts merged in": validation.MERGED_MAX,
        "a type's print": types.TYPE_BYTES_MAX,
        "a type's depth": types.TYPE_DEPTH_MAX,
        "a name or constraint in a type": types.NAME_BYTES_MAX,
        "parameters": types.PARAMETERS_MAX,
        "constraints": types.CONSTRAINTS_MAX,
    }
    assert f"up to 256 whose page has at most {layout.INLINE_BYTES_MAX:,} bytes | {pages.PAGE_ATOMS} |" in PAGE
    assert (
        f"| removals | up to {layout.INLINE_DIGESTS_MAX} | {pages.DIGESTS_PER_PAGE:,} | up to {layout.ROWS_INLINE_MAX} |"
        in PAGE
    )
    assert f"| {pages.MOLECULES_PER_PAGE} | up to {layout.ROWS_INLINE_MAX} |" in PAGE
    assert f"A content of more than {pages.CONTENT_INLINE_BYTES_MAX:,} bytes" in PAGE


def test_every_kind_of_object_stands_in_the_table():
    table = PAGE.partition("## Pages")[2].partition("## An example")[0]
    codes = {
        int(code, 16)
        for row in re.findall(r"^\| ([0-9 ·a-f]+?)(?: [a-z]+)? \|", table, re.MULTILINE)
        for code in row.split(" · ")
    }
    assert codes == set(pages.ObjectKind)
