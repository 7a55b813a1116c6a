"""What README and the other pages say is run, and what they link to exists."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROGRAM = Path(sys.executable).with_name("periplus")


def commands_of(text):
    """The commands of a page's console blocks, each with the lines that the page shows for it."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def example():
    """The commands of the first real use."""
    return commands_of(README.partition("## The first five minutes")[2])


def plain(text):
    """Without what differs from run to run: ids, digests, dates, sizes in bytes."""
    text = re.sub(r"\b(dec|trl)_[0-9a-z]{16}\b", r"\1_ID", text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "DIGEST", text)
    text = re.sub(r"\b20\d\d-\d\d-\d\d\b", "DATE", text)
    return re.sub(r"\(\d,\d{3} bytes\)", "(SIZE)", text).replace("(plain Python)", "(native)")


@pytest.fixture
def shop(tmp_path):
    folder = tmp_path / "ada" / "shop"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "auth.py").write_text("def hash_password(password):\n    ...\n")
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for words in (["init", "-q"], ["add", "src"], ["commit", "-q", "-m", "Hash passwords with argon2id"]):
        subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.mark.slow
def test_the_first_real_use_is_real(shop):
    commands = example()
    assert len(commands) >= 8
    environment = {**os.environ, "HOME": str(shop.parent)}
    for command, shown in commands:
        if command.startswith("periplus "):
            words = [PROGRAM, *shlex.split(command)[1:]]
            done = subprocess.run(words, cwd=shop, env=environment, capture_output=True, text=True, timeout=60)
            assert (done.returncode, done.stderr) == (0, ""), command
            assert plain(done.stdout.replace(str(shop), "/home/ada/shop")) == plain("\n".join(shown) + "\n"), command
        else:
            assert command == 'echo "# changed" >> src/auth.py'
            with (shop / "src" / "auth.py").open("a") as file:
                file.write("# changed\n")


def test_the_python_example_is_real(shop):
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1].replace("/home/ada/shop", str(shop))
    subprocess.run([PROGRAM, "init"], cwd=shop, check=True, capture_output=True)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Run the migrations before the tests." in done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
            names = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in names, f"{page.name} links to {target}"


def test_pages_for_readers_are_short():
    """A page that is longer is two pages, or says what nobody needs."""
    assert len(README.splitlines()) <= 120
    assert len((ROOT / "CHANGELOG.md").read_text().splitlines()) <= 200
    assert len(list((ROOT / "docs" / "decisions").glob("0*.md"))) <= 64
    for page in (ROOT / "docs" / "guides").rglob("*.md"):
        assert len(page.read_text().split()) <= 900, page


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "architecture" / "index.html").exists()
