"""Patterns over what strangers wrote take no memory for what stands in a row: a repeated group is bounded, or taken up again."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support import PEAK

LONG = 2_000_000


@pytest.mark.parametrize(
    "work",
    [
        f"from periplus.agent.mcpclient.text_screening import clean; assert clean(chr(0x200b) * {LONG}) == ('⟨{LONG:,} unseen characters⟩', {LONG})",
        f"from periplus.agent.mcpclient.text_screening import clean; assert clean('a' + chr(27) + '[m' * {LONG // 2})[1] == 3",
        f"from periplus.base.text.secrets import find_secrets; list(find_secrets('-----BEGIN PRIVATE KEY-----' + '-a' * {LONG}))",
        f"from periplus.base.text.secrets import find_secrets; list(find_secrets('-----BEGIN PRIVATE KEY-----' + chr(10) * {LONG} + 'x' * 40))",
        f"from periplus.base.text.secrets import find_secrets; list(find_secrets('-----BEGIN PRIVATE KEY-----' + chr(92) * {LONG} + 'n' * 40))",
        f"from periplus.base.text.secrets import find_secrets; list(find_secrets('-----BEGIN PRIVATE KEY-----' + (chr(10) + 'x' * 16) * {LONG // 10}))",
        f"from periplus.server.mcp.message_lines import id_in; assert id_in(b'{{\"x\":\"' + b'{chr(92)}{chr(92)}n' * {LONG} + b'\",\"id\":7}}') == 7",
        f"from periplus.server.mcp.message_lines import id_in; assert id_in(b'{{\"id\":\"' + b'{chr(92)}{chr(92)}n' * {LONG}) is None",
    ],
)
def test_what_stands_in_a_row_takes_no_memory(work):
    code = f"{PEAK}\nimport periplus.agent.mcpclient.text_screening\nbefore = peak_bytes()\n{work}\nprint(peak_bytes() - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert int(done.stdout) < 50 * LONG // 4
