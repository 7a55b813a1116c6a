"""``periplus skills`` and ``periplus plugins`` as a person types them."""

from __future__ import annotations

import json

import pytest

from agent_room import Place
from cli_support import Shell, decoded
from periplus.agent.models.scripted import answer, call
from periplus.agent.trust import Trust

COMMANDS = (call("shell", command="git init -q other"), call("shell", command="git -C other rev-parse --git-dir"))


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path)
    place.config = place.home / ".config" / "periplus"
    place.config.mkdir(parents=True)
    place.shell = Shell(place.root, place.home)
    return place


def document(place, *words, code=0):
    text = place.shell(*words, "--json", code=code).out
    decoded(text)
    return json.loads(text)


def test_what_a_session_did_becomes_a_skill_once_a_person_says_so(place):
    with place.session([answer("", *COMMANDS), "One.", answer("", *COMMANDS), "Two."]) as session:
        session.turn("Once")
        session.turn("Again")
    mined = document(place, "skills", "mine")  # the session's end suggested it
    assert (mined["session"], mined["skills"], mined["waiting"], mined["rejected"]) == ("s1", 0, 1, 0)
    assert place.shell("skills", "mine", "s1").lines[1:] == [
        "Suggested earlier and still open: 1 skill.",
        "Next: periplus skills list",
    ]
    listed = document(place, "skills", "list")
    assert (listed["skills"], listed["trusted"]) == ([], False)
    (candidate,) = listed["candidates"]
    assert candidate["commands"] == ["git init -q other", "git -C other rev-parse --git-dir"]
    assert candidate["seen"] == ["s1#1", "s1#2"]
    shown = place.shell("skills", "show", candidate["name"]).out
    assert "worked in    s1#1, s1#2" in shown
    assert "git -C other rev-parse --git-dir" in shown
    done = document(place, "skills", "accept", candidate["id"][:10], "--name", "other")
    assert (done["name"], done["state"], done["counts"]) == ("other", "accepted", False)
    assert (place.root / ".agents/skills/other/SKILL.md").read_text().startswith("---\nname: other\n")
    assert "was accepted already" in place.shell("skills", "refuse", candidate["id"], code=5).err
    assert place.shell("skills", "list", code=1).lines == ["There are no skills."]  # the folder is not trusted
    place.shell("trust", "give")
    listed = document(place, "skills", "list", "--all")
    assert [(one["name"], one["source"], one["used"]) for one in listed["skills"]] == [("other", "project", 0)]
    assert [one["state"] for one in listed["candidates"]] == ["accepted"]


def test_a_trusted_folder_stays_trusted_with_what_its_user_accepts(place):
    with place.session([answer("", *COMMANDS), "One.", answer("", *COMMANDS), "Two."]) as session:
        session.turn("Once")
        session.turn("Again")
    place.shell("trust", "give")
    place.shell("skills", "mine")
    name = document(place, "skills", "list")["candidates"][0]["name"]
    assert document(place, "skills", "accept", name)["counts"] is True
    assert Trust(str(place.config)).state(str(place.root)) == "trusted"
    with place.session([answer("", call("skill", name=name)), "Done."], trusted=True, name="s2") as session:
        session.turn("Use it")
    (skill,) = document(place, "skills", "list")["skills"]
    assert skill["used"] == 1
    assert skill["last"] > "2020"
    assert "used 1×" in place.shell("skills", "list").out


def test_one_for_all_projects_and_one_that_is_put_away(place):
    with place.session([answer("", *COMMANDS), "One.", answer("", *COMMANDS), "Two."]) as session:
        session.turn("Once")
        session.turn("Again")
    place.shell("skills", "mine")
    name = document(place, "skills", "list")["candidates"][0]["name"]
    assert place.shell("skills", "refuse", name, "--reason", "nobody needs it").out.startswith("Rejected")
    assert document(place, "skills", "mine", "s1", code=1)["rejected"] == 1
    assert document(place, "skills", "show", name)["candidate"]["reason"] == "nobody needs it"
    place.skill("mine", description="Mine.")
    place.skill("broken", head="a: &b\n")
    out = place.shell("skills", "list").out
    assert "mine  user, not used yet" in out
    assert "not used: " in out
    assert "SKILL.md:4" in out or "line 4" in out
    shown = document(place, "skills", "show", "mine")
    assert (shown["body"], shown["skill"]["source"], shown["candidate"]) == ("Do it well.", "user", None)


def test_plugins_are_listed_trusted_and_let_go(place):
    assert "You have no plugins" in place.shell("plugins", "list", code=1).out
    folder = place.config / "plugins" / "echo"
    folder.mkdir(parents=True)
    (folder / "plugin.toml").write_text(
        'name = "echo"\nversion = "1.0"\n[[tools]]\nname = "say"\ndescription = "Says."\ncommand = ["python3", "say.py"]\naccesses = ["read"]\n'
        '[[hooks]]\nseam = "before_step"\ncommand = ["./rule"]\n[[servers]]\nname = "s"\nurl = "https://x.example/"\nheaders = {Authorization = "hush"}\n'
    )
    (place.config / "plugins" / "odd").mkdir()
    (place.config / "plugins" / "odd" / "plugin.toml").write_text("nme = 1\n")
    out = place.shell("plugins", "list").out
    assert "echo 1.0  user, unknown" in out
    assert "tool say: python3 say.py, reaches: read" in out
    assert "hook before_step: ./rule" in out
    assert "nme: unknown field" in out
    assert "hush" not in out + place.shell("plugins", "list", "--json").out
    assert "is trusted in its current state" in place.shell("plugins", "trust", "echo").out
    assert document(place, "plugins", "trust", str(folder), "--unsandboxed")["plugins"][0]["unsandboxed"] is True
    assert [one["state"] for one in document(place, "plugins", "list")["plugins"]] == ["trusted", "broken"]
    (folder / "more").touch()
    assert [one["state"] for one in document(place, "plugins", "list")["plugins"]] == ["changed", "broken"]
    assert "cannot be" in place.shell("plugins", "trust", "odd", code=2).err
    place.shell("plugins", "untrust", "echo")
    assert "is not trusted" in place.shell("plugins", "untrust", "echo", code=1).err
    place.shell("plugins", "trust", "echo")
    (folder / "plugin.toml").unlink()
    (folder / "more").unlink()
    folder.rmdir()
    place.shell("plugins", "untrust", str(folder))


def test_a_projects_plugins_are_not_looked_at_before_it_is_trusted(place):
    folder = place.root / ".periplus-plugins" / "theirs"
    folder.mkdir(parents=True)
    (folder / "plugin.toml").write_text('name = "theirs"\nversion = "1"\n')
    out = place.shell("plugins", "list", code=1).out
    assert "theirs" not in out
    assert "ignored until you trust the folder" in out
    assert "there is no plugin" in place.shell("plugins", "trust", "theirs", code=1).err
    place.shell("trust", "give")
    assert document(place, "plugins", "list")["plugins"][0]["state"] == "unknown"
