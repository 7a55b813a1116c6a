"""Source text as numbered lines of a page."""

from __future__ import annotations

from periplus.web.rendering.source import source_lines


def test_long_files_are_cut():
    made = source_lines("x = 1\n" * 1_000, "a.py", lines_max=400)
    assert made.left_out == 600
    assert made.html.count('class="line"') == 400
    wide = source_lines("y" * 50_000 + "\n<b>\u202e\x00", "unknown.zzz")
    assert "48,000 more characters" in wide.html
    assert "&lt;b&gt;[U+202E]␀" in wide.html


def test_each_line_has_its_number_whatever_a_lexer_does():
    for name in ("a.py", "a.html", "a.md", "a.json", "a.sh", "Makefile", "a.diff"):
        made = source_lines('\n\n"""open\n<script>\n\n', name, first_line=7)
        assert [f'id="L{number}"' in made.html for number in range(6, 13)] == [False, *[True] * 5, False], name
        assert "<script>" not in made.html
