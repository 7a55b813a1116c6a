"""The memory as a folder of Markdown: what stands in it, whose files they are, the same bytes for the same memory."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_support import Shell
from periplus.base.clock import FixedClock
from periplus.base.encoding.canonical import canonical
from periplus.base.errors import DamageError, RefusedError, UsageError
from periplus.base.ids import new_id
from periplus.journal import Entity, Writer
from periplus.memory import MEMORY_TYPES, Memory
from periplus.memory.coordination.handoffs import NewHandoff
from periplus.memory.coordination.plans import NewStep
from periplus.memory.markdown_export import Page, markdown_pages
from periplus.project import Project
from periplus.project.exchange.markdown_export import MANIFEST
from support import Stop, StoppingFiles

ADA = Writer("ada", "who_0000000000000001", "", 1)


@pytest.fixture
def clock():
    return FixedClock(step_ms=1)


@pytest.fixture
def project(tmp_path, clock):
    (tmp_path / "work").mkdir()
    root = Project.init(os.fspath(tmp_path / "work"), clock=clock).root
    with Project(root, ADA, clock=clock) as project:
        yield project


def bytes_of(folder):
    return {
        os.path.relpath(os.path.join(at, name), folder): Path(at, name).read_bytes()
        for at, _, names in os.walk(folder)
        for name in names
    }


def links_of(texts):
    """Where each link of each file leads, from the top."""
    return {
        (path, os.path.normpath(os.path.join(os.path.dirname(path), target)))
        for path, text in texts.items()
        for target in re.findall(r"(?<!\\)\]\(([^)]*)\)", text)
    }


def fill(project):
    tmp = os.path.join(project.folder, "auth.py")
    with open(tmp, "w", encoding="utf-8") as file:
        file.write("def login():\n    return 1\n")
    old = project.remember(Memory("decision", "Hash with bcrypt", ("auth",), ("auth.py",))).entity
    new = project.work.evolve(old.item_id, "Hash with argon2", {"rationale": "bcrypt cuts at 72 bytes"}).entities[0]
    trap = project.remember(
        Memory(
            "trap",
            "# The <b>cache</b> is [global](javascript:x) `a<b>[0]`\n- second line",
            extra={"remedy": "clear it"},
        )
    )
    project.work.link(trap.entity.item_id, "references", new.item_id)
    project.remember(Memory("lesson", "Run make lock", extra=None))
    made = project.work.make_plan(
        "Add rate limits", [NewStep("measure"), NewStep("limit", (1,))], rationale="we were down"
    )
    project.work.take()
    project.work.change_state([made.steps[0].item_id], "done")
    project.work.hand_off(
        NewHandoff("Half of it works", files=("auth.py",), unfinished=("limit logins",), plan=made.plan.item_id)
    )
    return old, new, trap.entity, made.plan


def test_it_reads_as_what_the_project_knows(project, tmp_path):
    old, new, trap, plan = fill(project)
    done = project.export_markdown(os.fspath(tmp_path / "book"))
    assert (done.entities, done.written, done.unchanged, done.removed) == (6, 7, 0, 0)
    found = {path: data.decode() for path, data in bytes_of(tmp_path / "book").items()}
    assert set(found) == {
        "README.md", MANIFEST, f"decisions/hash-with-bcrypt-{old.item_id}.md", f"decisions/hash-with-argon2-{new.item_id}.md",
        f"traps/the-b-cache-b-is-global-javascript-x-a-{trap.item_id}.md", f"plans/add-rate-limits-{plan.item_id}.md",
        *(path for path in found if path.startswith(("lessons/run-make-lock-les_", "handoffs/half-of-it-works-hof_"))),
    }  # fmt: skip
    texts = {path: text for path, text in found.items() if path.endswith(".md")}
    assert {target for _, target in links_of(texts)} <= set(texts), "every link leads to a page"
    assert {target for path, target in links_of(texts) if path == "README.md"} == set(texts) - {"README.md"}
    index = texts["README.md"]
    assert index.index("Hash with argon2") < index.index("No longer in force") < index.index("Hash with bcrypt")
    page = texts[f"decisions/hash-with-argon2-{new.item_id}.md"]
    for said in ("**accepted**", "by ada", "tags: auth", "> Hash with argon2", "## Why\n\n> bcrypt cuts at 72 bytes", "- `auth.py`",
                 f"- supersedes [Hash with bcrypt](../decisions/hash-with-bcrypt-{old.item_id}.md)", "- is referred to by [", "## History"):  # fmt: skip
        assert said in page, said
    assert "- is superseded by [Hash with argon2]" in texts[f"decisions/hash-with-bcrypt-{old.item_id}.md"]
    shown = texts[f"traps/the-b-cache-b-is-global-javascript-x-a-{trap.item_id}.md"]
    assert "> \\# The &lt;b>cache&lt;/b> is \\[global\\](javascript:x) `a<b>[0]`" in shown
    assert "> \\- second line" in shown
    steps = texts[f"plans/add-rate-limits-{plan.item_id}.md"]
    assert "- [x] measure (done by ada)\n- [ ] limit (todo)" in steps
    assert "(doing, 1 of 2 done)" in index


def test_the_same_memory_gives_the_same_bytes_and_only_what_changed_is_written(project, tmp_path, clock):
    _, new, _, _ = fill(project)
    book, other = os.fspath(tmp_path / "book"), os.fspath(tmp_path / "other")
    project.export_markdown(book)
    before = bytes_of(book)
    clock.advance(86_400_000)
    assert project.export_markdown(book)[2:] == (0, 7, 0)
    project.export_markdown(other)
    assert bytes_of(book) == before == bytes_of(other)
    with open(os.path.join(project.folder, "auth.py"), "w", encoding="utf-8") as file:
        file.write("def login():\n    return 2\n")
    assert project.export_markdown(book)[2:] == (3, 4, 0), "what is stale says so, on its page and on the first"
    assert b"## Needs review" in bytes_of(book)["README.md"]
    project.work.set_fields(new.item_id, {"text": "Hash with scrypt"})
    assert project.export_markdown(book)[2:] == (4, 3, 1)
    assert f"decisions/hash-with-argon2-{new.item_id}.md" not in bytes_of(book)
    project.undo(seqs=[project.show(new.item_id).seq])
    again = project.export_markdown(book)
    assert again.removed == 1
    assert f"decisions/hash-with-argon2-{new.item_id}.md" in bytes_of(book)


def test_only_its_own_files_are_replaced(project, tmp_path):
    _, new, _, _ = fill(project)
    book = tmp_path / "book"
    (book / "decisions").mkdir(parents=True)
    (book / "NOTES.md").write_text("mine")
    (book / "decisions" / "mine.md").write_text("mine")
    project.export_markdown(os.fspath(book))
    page = book / "decisions" / f"hash-with-argon2-{new.item_id}.md"
    page.write_text("changed by hand")
    project.remember(Memory("note", "Something new"))
    before = bytes_of(book)
    with pytest.raises(RefusedError, match="was changed since it was written") as caught:
        project.export_markdown(os.fspath(book))
    assert "--force" in caught.value.mend
    assert bytes_of(book) == before
    project.export_markdown(os.fspath(book), force=True)
    assert "changed by hand" not in page.read_text()
    assert ((book / "NOTES.md").read_text(), (book / "decisions" / "mine.md").read_text()) == ("mine", "mine")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "README.md").write_text("of somebody")
    with pytest.raises(RefusedError, match="was not written by an export"):
        project.export_markdown(os.fspath(foreign), force=True)
    assert bytes_of(foreign) == {"README.md": b"of somebody"}


def test_no_link_is_followed_and_no_list_is_believed_beyond_the_folder(project, tmp_path):
    fill(project)
    target, book = tmp_path / "target", tmp_path / "book"
    target.mkdir()
    (target / "README.md").write_text("kept")
    book.mkdir()
    (book / "decisions").symlink_to(target)
    with pytest.raises(RefusedError, match="is a link"):
        project.export_markdown(os.fspath(book))
    (book / "decisions").unlink()
    (book / "README.md").symlink_to(target / "README.md")
    with pytest.raises(RefusedError, match="is a link"):
        project.export_markdown(os.fspath(book))
    (book / "README.md").unlink()
    for files in (
        {"../target/README.md": ["00"]},
        {"/etc/x.md": ["00"]},
        {"a/b/c.md": ["0"]},
        {"x.txt": []},
        {"x.md": 3},
        [],
    ):
        (book / MANIFEST).write_text(json.dumps({"format": 1, "files": files}))
        with pytest.raises(DamageError, match="not the list"):
            project.export_markdown(os.fspath(book))
    (book / MANIFEST).write_text("{")
    with pytest.raises(DamageError):
        project.export_markdown(os.fspath(book))
    assert bytes_of(target) == {"README.md": b"kept"}
    with pytest.raises(UsageError, match="is not a folder"):
        project.export_markdown(os.fspath(target / "README.md"))


def test_a_stop_at_every_call_leaves_what_the_next_export_knows_as_its_own(project, tmp_path, clock):
    _, new, _, _ = fill(project)
    book, kept = tmp_path / "book", tmp_path / "kept"
    project.export_markdown(os.fspath(book))
    shutil.copytree(book, kept)
    project.work.set_fields(new.item_id, {"text": "Hash with scrypt"})
    whole = tmp_path / "whole"
    project.export_markdown(os.fspath(whole))
    stops = 0
    for number in range(200):
        shutil.rmtree(book)
        shutil.copytree(kept, book)
        stopped = False
        with Project(project.root, ADA, clock=clock) as again:
            again.journal.files = StoppingFiles(number, share=0.5)
            try:
                again.export_markdown(os.fspath(book))
            except Stop:
                stopped = True
        stops += stopped
        project.export_markdown(os.fspath(book))
        assert {p: d for p, d in bytes_of(book).items() if not p.endswith(".tmp")} == bytes_of(whole)
        if not stopped:
            break
    assert 5 < stops < 199


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=80)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(["decision", "trap", "note", "risk"]), TEXTS), max_size=5),
    TEXTS,
)
def test_whatever_texts_say_paths_stay_inside_and_pages_hold_what_they_should(said, name):
    pages = [
        Page(Entity(kind, f"{kind[:3]}_{number:016d}", "v", (), ("v",), 1, False,
                    canonical({"text": text, "state": "active", "tags": [text], "x": text}), "2026-01-01T00:00:00.000Z", text, "", "lin", 1), ())
        for number, (kind, text) in enumerate(said)
    ]  # fmt: skip
    files = markdown_pages(name, pages, MEMORY_TYPES)
    assert len(files) == len(pages) + 1
    for path, text in files.items():
        assert re.fullmatch(r"README\.md|[a-z_]+/[a-z0-9_-]{1,80}\.md", path)
        outside = re.sub(r"`[^`\n]*`", "", text)
        assert "<" not in outside.replace("&lt;", "")
        text.encode()
    assert {target for _, target in links_of(files)} <= set(files)
    assert files == markdown_pages(name, list(reversed(pages)), MEMORY_TYPES)
    assert new_id("dec") not in "".join(files)


def test_as_a_person_types_it(tmp_path):
    shell = Shell(tmp_path, tmp_path)
    shell("init")
    shell("remember", "Never log passwords", "--type", "constraint")
    done = shell("export", "--markdown", "book")
    assert "book: 1 entity; 2 files written, 0 unchanged, 0 removed" in done.out
    assert shell.json("export", "--markdown", "book").unchanged == 2
    assert "Never log passwords" in (tmp_path / "book" / "README.md").read_text()


def test_the_page_is_real(tmp_path):
    page = (Path(__file__).parent.parent / "docs" / "guides" / "markdown.md").read_text()
    folder = tmp_path / "shop"
    folder.mkdir()
    shell = Shell(folder, tmp_path)
    shell("init")
    for part in page.partition("```console\n")[2].partition("```")[0].split("$ periplus ")[1:]:
        command, _, shown = part.partition("\n")
        said = shell(*shlex.split(command)).out.replace(os.fspath(tmp_path), "/home/ada")
        assert re.sub(r"con_[0-9a-z]{16}", "ID", said) == re.sub(r"con_[0-9a-z]{16}", "ID", shown), command


def test_pages_do_not_go_to_standard_output(tmp_path):
    shell = Shell(tmp_path, tmp_path)
    shell("init")
    shell.fails("export", "--markdown", "-", code=2, wrong="--markdown writes a folder of pages")
    assert not os.path.lexists(tmp_path / "-")
    shell("export", "--markdown", "./-")
    assert (tmp_path / "-" / "README.md").is_file()
