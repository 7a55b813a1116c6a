"""A list to choose from: by arrows, by number and by searching, at terminals of any size."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios

import pytest

from cli_support import read_to_the_end
from periplus.cli.common.face import columns, visible
from periplus.tui.live_screen import Size
from periplus.tui.picker import Picker, pick, typed_keys

ROWS = [
    "night  2026-01-03  2 turns  fix the lamp",
    "day  2026-01-02  1 turn  歯車 turns",
    "dawn 12  2026-01-01  3 turns  oil",
]
WIDE = Size(100, 30)


def terminal_of(width):
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 12, width, 0, 0))
    return ours, its


def picked(*keys, rows=ROWS, selected=0):
    picker = Picker(rows, selected)
    for key in keys:
        picker.take(key)
    return picker


def shown(picker, size=WIDE):
    return picker.lines(size, visible)


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        (["enter"], 0), (["down", "enter"], 1), (["down", "down", "down", "enter"], 2), (["up", "enter"], 0), (["end", "enter"], 2),
        (["end", "home", "enter"], 0), (["page down", "enter"], 2), (["3", "enter"], 2), (["3", "backspace", "2", "enter"], 1),
        ([*"歯車", "enter"], 1), ([*"TURNS oil", "enter"], 2), ([*"day turn", "enter"], 1), ([*"12", "enter"], 2),
        ([*"oil", "clear", "up", "enter"], 1), ([*"turns", "down", "enter"], 1), ([*"nowhere", "enter"], None), (["escape"], None),
    ],
)  # fmt: skip
def test_a_row_is_chosen_by_arrows_a_number_or_words(keys, chosen):
    picker = picked(*keys)
    assert picker.chosen == chosen
    assert picker.is_over == (chosen is not None or "escape" in keys)


def test_the_list_says_what_is_found_and_what_to_do_where_nothing_is():
    assert shown(picked())[2:] == [f"> 1. {ROWS[0]}", f"  2. {ROWS[1]}", f"  3. {ROWS[2]}", "3 of 3"]
    assert shown(picked(*"oil"))[1:] == ["Search: oil", f"> 3. {ROWS[2]}", "1 of 3"]
    assert shown(picked(*"oilx"))[2:] == ["nothing matches; Backspace takes back what was typed"]
    assert shown(picked("down"), WIDE)[3].startswith("> 2.")


@pytest.mark.parametrize("size", [Size(1, 1), Size(10, 2), Size(20, 4), Size(40, 10), Size(100, 24)])
def test_no_line_is_wider_and_no_list_higher_than_the_terminal(size):
    many = [f"session {number} 歯車歯車歯車 {'very ' * 30}" for number in range(200)]
    for keys in ([], ["end"], ["page down"], [*"session 19"], ["1", "5", "0"]):
        picker = picked(*keys, rows=many)
        lines = shown(picker, size)
        assert len(lines) <= size.rows
        assert all(columns(line) <= size.columns for line in lines)
        if size.rows > 4:
            assert sum(line.startswith(">") for line in lines) == 1


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"\x1b[A\x1b[B\x1bOA\r\n", ["up", "down", "up", "enter", "enter"]),
        (b"jk q", ["j", "k", " ", "q"]),
        ("歯a".encode(), ["歯", "a"]),
        (b"\x1b", ["escape"]),
        (b"\x1b[99;5uX\x1b[Cx", ["X", "x"]),
        (b"\x7f\x08\x15\x04", ["backspace", "backspace", "clear", "escape"]),
        (b"\xff\xfe\x00\x07", []),
        ("\u202e\x9b".encode(), []),
    ],
)
def test_keys_are_named_and_characters_are_themselves(data, keys):
    assert list(typed_keys(data)) == keys


@pytest.mark.parametrize(("width", "typed", "chosen"), [(40, b"\x1b[B\r", 1), (100, b"oil\r", 2), (100, b"\x1b", None)])
def test_at_a_terminal_the_list_takes_the_other_screen_and_gives_it_back(width, typed, chosen):
    ours, its = terminal_of(width)
    before = termios.tcgetattr(its)

    def write(text):
        os.write(its, text.encode())
        if "3 of 3" in text:  # the list is shown: the person types
            os.write(ours, typed)

    found = pick(ROWS, write, visible, fd=its, out_fd=its)
    assert found == chosen
    assert termios.tcgetattr(its) == before
    os.close(its)
    text = read_to_the_end(ours).decode()
    os.close(ours)
    assert text.count("\x1b[?1049h") == text.count("\x1b[?1049l") == 1
    assert "\x1b[7m> 1. night" in text


def test_a_terminal_that_is_closed_ends_the_choice():
    ours, its = terminal_of(80)

    def write(text):
        if "3 of 3" in text:
            os.close(ours)

    assert pick(ROWS, write, visible, fd=its, out_fd=its) is None
    os.close(its)
