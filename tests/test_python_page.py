"""docs/guides/python.md is run: its examples one after the other, in a folder with a file of code; and what the package hands out."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from test_readme import ROOT

PAGE = (ROOT / "docs" / "guides" / "python.md").read_text()
CODE = "def hash_password(word):\n    return argon2id(word)\n"


def test_the_page_is_real(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) >= 7
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "auth.py").write_text(CODE)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(blocks)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "auth.py:hash_password changed" in done.stdout
    assert (tmp_path / "book" / "README.md").read_text().startswith("# What shop knows")
    assert (tmp_path / "shop.zip").exists()


def test_the_package_hands_out_what_it_names_and_loads_it_when_it_is_asked_for():
    code = (
        "import sys, periplus\n"
        "assert 'periplus.project' not in sys.modules and 'periplus.journal' not in sys.modules\n"
        "from periplus import Project, Writer\n"
        "assert Project.__module__ == 'periplus.project.project' and Writer.__module__ == 'periplus.journal.state.transaction'\n"
        "assert all(hasattr(periplus, name) for name in periplus.__all__)\n"
        "assert not hasattr(periplus, 'Nothing')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.slow
def test_what_the_page_imports_is_typed(tmp_path):
    """A type checker sees Project and Writer as what they are, through the lazy names too."""
    (tmp_path / "use.py").write_text(
        "from periplus import Project, Writer\n"
        "def use(project: Project) -> str:\n"
        "    writer: Writer = Writer.named('ada')\n"
        "    return project.work.plans()[0][0].item_id + writer.name + project.nothing\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-incremental", "--follow-imports=silent", "--python-executable", sys.executable, "use.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert re.findall(r"error: (.*)", done.stdout) == ['"Project" has no attribute "nothing"  [attr-defined]'], (
        done.stdout + done.stderr
    )
