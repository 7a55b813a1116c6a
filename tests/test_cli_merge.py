"""What a person sees of two clones that wrote to one memory apart."""

from __future__ import annotations

import shutil

from cli_support import Shell, fill
from periplus.journal import Writer
from periplus.project import Project


def test_a_conflict_is_shown_counted_marked_and_ended_by_a_write(tmp_path):
    shell = Shell(tmp_path / "project", tmp_path / "home")
    fill(shell, "the harbour is deep", "the reef is sharp")
    other = tmp_path / "clone"
    shutil.copytree(shell.folder, other)
    for folder, name, confidence in ((shell.folder, "ada", 80), (other, "bob", 40)):
        with Project.open(str(folder), Writer(name, "who_0000000000000000", "", 1)) as project:
            first = next(one for one in project.journal.entities("note") if "harbour" in one.value["text"])
            value = {**first.value, "confidence": confidence, "tags": [name]}
            project.journal.mutate(lambda t, i=first.item_id, v=value: t.put("note", i, v), project.writer)
            lineage = project.journal.lineage
    own = f".periplus/journal/{lineage}"
    shutil.copytree(other / own, shell.folder / own)
    assert f"1 in conflict: periplus show {first.item_id}" in shell("status").out
    assert shell.json("status").conflicts == [first.item_id]
    shown = shell("show", first.item_id).out
    assert "in conflict: confidence; the first is shown" in shown
    assert "by ada" in shown
    assert "by bob" in shown
    entity = shell.json("show", first.item_id).entity
    (conflict,) = entity.conflicts
    assert conflict.path == ["confidence"]
    assert {one.writer: one.value for one in conflict.values} == {"ada": 80, "bob": 40}
    assert sorted(entity.value["tags"]) == ["ada", "bob"]
    assert entity.value["confidence"] == conflict.values[0].value
    assert "in conflict: confidence" in shell("recall", "harbour").out
    assert shell.json("recall", "harbour").hits[0].conflicts == ["confidence"]
    assert "(in conflict: confidence)" in shell("brief", "harbour").out
    settled = f"periplus set {first.item_id} confidence=VALUE"
    assert settled in shown
    shell("set", first.item_id, f"confidence={entity.value['confidence']}")  # what is shown may be what is meant
    assert shell.json("show", first.item_id).entity.conflicts == []
    assert "in conflict" not in shell("status").out


def test_a_state_in_conflict_is_settled_by_the_one_that_is_shown_too(tmp_path):
    shell, other = Shell(tmp_path / "project", tmp_path / "home"), Shell(tmp_path / "other", tmp_path / "home")
    fill(shell, "the harbour is deep")
    shell("remember", "the reef is near", "--type", "trap")
    trap = shell.json("log", "--limit", "1").records[0].id
    shell("export", tmp_path / "s.zip")
    other.folder.mkdir()
    other("import", tmp_path / "s.zip")
    shell("state", trap, "resolved")
    other("state", trap, "expired")
    other("sync", "--with", shell.folder)
    shell("sync", "--with", other.folder)
    for one in (shell, other):
        shown = one.json("show", trap).entity
        assert [conflict.path for conflict in shown.conflicts] == [["state"]]
        assert f"periplus state {trap} STATE" in one("show", trap).out
    shell("state", trap, shown.value["state"])
    done = shell.json("show", trap).entity
    assert (done.conflicts, done.value["state"]) == ([], shown.value["state"])
    assert "Nothing changed." in shell("state", trap, shown.value["state"]).out
