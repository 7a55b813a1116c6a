"""What the people of a team do: each deed is a function of the team, the clone, and its chance; ``DEEDS`` says how often."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
from pathlib import Path
from typing import Any

from faulty_files import Fault, FaultyFiles
from support import remove_index
from team_backups import keep_backup, put_back, sync
from team_damage import rot
from team_support import LIMITS, SETTINGS_ARE_GITS, WITH_FAULTS, Clone, Deed, Done, Team

MEMORY = ("decision", "constraint", "trap", "lesson", "note")
STATES = ("accepted", "deferred", "rejected", "resolved", "superseded", "expired", "active", "doing", "done", "dropped")
BRANCHES = ("main", "main", "side", "other")
KINDS_OF_LINK = ("depends_on", "references", "contradicts", "caused", "resolves", "part_of")
LARGE = 70_000
CLONES_MAX = 5
MERGED = {"updated", "created"}  # what says when, and is another in each version
FAULTS = (errno.EIO, errno.ENOSPC, errno.EDQUOT, 0)


# -- memory ------------------------------------------------------------------------------------------------------------


def text_of(team: Team, chance: random.Random, *, large: bool = False) -> tuple[str, str]:
    """``(text, mark)``; now and then there is something in it that will be redacted."""
    mark = team.mark()
    words = f"The boiler {mark} {chance.choice(('leaks', 'is hot', 'is old', 'hums'))}"
    if chance.random() < 0.2:
        words += f" {team.mark('hush')}"
    if large and chance.random() < 0.15:
        words += " and so on" * (LARGE // 10 if chance.random() < 0.3 else 600)
    return words[:7900], mark


def known(team: Team, clone: Clone, *prefixes: str) -> list[str]:
    """The ids that this clone has heard of, in the order in which they were made."""
    found: set[str] = set()
    for path in [*clone.root.glob("journal/lin_*/*.jsonl"), *clone.root.glob("journal/lin_*/archive/*.jsonl")]:
        found |= set(re.findall(r'"item_id":"(\w+)"', path.read_text(errors="replace")))
    found |= {path.stem for path in (clone.root / "entities").rglob("*.json")}
    kinds = prefixes or ("dec", "con", "trp", "les", "not")
    return [item for item in team.items if item in found and item.startswith(kinds)]


def an_id(team: Team, clone: Clone, chance: random.Random, *prefixes: str) -> str | None:
    found = known(team, clone, *prefixes)
    return chance.choice(found) if found else None


def show(team: Team, clone: Clone, item: str) -> dict[str, Any] | None:
    done = team.call(clone, "show", item)
    return done.document["entity"] if done.code == 0 else None


def remember(team: Team, clone: Clone, chance: random.Random) -> None:
    text, mark = text_of(team, chance, large=True)
    words = ["remember", text, "--type", chance.choice(MEMORY)]
    old = an_id(team, clone, chance)
    if old is not None and chance.random() < 0.2:
        words += ["--supersedes", old]
    if chance.random() < 0.3:
        words += ["--about", f"code{chance.randrange(3)}.py"]
    acknowledged(team, clone, team.call(clone, *words), text, mark)


def acknowledged(team: Team, clone: Clone, done: Done, *texts: str) -> None:
    marks = {mark for text in texts for mark in re.findall(r"(?:mark|hush)\d{5}", text)}
    team.acknowledge(clone, done, *marks)


def write(team: Team, clone: Clone, chance: random.Random) -> None:
    """``set``, after which the entity is what was shown before but for the field, whatever others wrote and git brought."""
    item = an_id(team, clone, chance)
    if item is None:
        return
    before = show(team, clone, item)
    if before is None:
        return
    text, _ = text_of(team, chance)
    field = chance.choice(("text", "rationale") if item.startswith("dec") else ("text",))
    words = ["set", item, f"{field}={text}"]
    if chance.random() < 0.3:
        words += ["--expect", before["version"]]
    done = team.call(clone, *words)
    acknowledged(team, clone, done, text)
    if done.code != 0:
        assert before["conflicts"] or done.code == 3, f"{done} of {before}"
        return
    after = show(team, clone, item)
    assert after is not None
    assert after["conflicts"] == [], after
    assert without_times(after["value"]) == without_times({**before["value"], field: text}), (before, after)
    assert set(after["heads"]) == {after["version"]}, after


def without_times(value: dict[str, Any]) -> dict[str, Any]:
    return {key: part for key, part in value.items() if key not in MERGED}


def state(team: Team, clone: Clone, chance: random.Random) -> None:
    item = an_id(team, clone, chance, "dec", "con", "trp", "les", "pln", "stp", "hof")
    if item is not None:
        done = team.call(clone, "state", item, chance.choice(STATES), "--reason", text_of(team, chance)[0])
        team.acknowledge(clone, done)


def evolve(team: Team, clone: Clone, chance: random.Random) -> None:
    item = an_id(team, clone, chance)
    if item is not None:
        text, _ = text_of(team, chance)
        acknowledged(team, clone, team.call(clone, "evolve", item, text), text)


def merge_items(team: Team, clone: Clone, chance: random.Random) -> None:
    kind = chance.choice(("dec", "trp", "les"))
    items = known(team, clone, kind)
    if len(items) >= 2:
        text, _ = text_of(team, chance)
        acknowledged(team, clone, team.call(clone, "merge", *chance.sample(items, 2), "--text", text), text)


def split(team: Team, clone: Clone, chance: random.Random) -> None:
    item = an_id(team, clone, chance)
    if item is not None:
        texts = [text_of(team, chance)[0] for _ in range(2)]
        acknowledged(team, clone, team.call(clone, "split", item, *texts), *texts)


def link(team: Team, clone: Clone, chance: random.Random) -> None:
    items = known(team, clone)
    if len(items) >= 2:
        one, other = chance.sample(items, 2)
        team.acknowledge(clone, team.call(clone, "link", one, chance.choice(KINDS_OF_LINK), other))


def confirm(team: Team, clone: Clone, chance: random.Random) -> None:
    item = an_id(team, clone, chance)
    if item is not None:
        team.acknowledge(clone, team.call(clone, "confirm", item))


def plan(team: Team, clone: Clone, chance: random.Random) -> None:
    plans, steps = known(team, clone, "pln"), known(team, clone, "stp")
    text, _ = text_of(team, chance)
    way = chance.randrange(6)
    if way == 0 or not plans:
        more = text_of(team, chance)[0]
        acknowledged(
            team, clone, team.call(clone, "plan", "make", text, "--step", more, "--step", "1< last"), text, more
        )
    elif way == 1:
        acknowledged(team, clone, team.call(clone, "plan", "add", chance.choice(plans), text), text)
    elif way == 2:
        team.call(clone, "plan", "next")
    elif way == 3 and steps:
        team.call(clone, "plan", "done", chance.choice(steps), "--reason", text)
    elif way == 4:
        team.call(clone, "plan", chance.choice(("drop", "block")), chance.choice([*plans, *steps]), "--reason", text)
    else:
        team.call(clone, "plan", "show", chance.choice(plans))


def handoff(team: Team, clone: Clone, chance: random.Random) -> None:
    text, _ = text_of(team, chance)
    item = an_id(team, clone, chance, "hof")
    if item is None or chance.random() < 0.5:
        acknowledged(team, clone, team.call(clone, "handoff", "write", text), text)
    else:
        team.call(clone, "handoff", chance.choice(("accept", "close")), item)


def undo(team: Team, clone: Clone, chance: random.Random) -> None:
    """Of one's own last records, or of others'."""
    lines = list(clone.lines())
    lineages = sorted({lineage for lineage, _, _ in lines}, key=lambda name: (name != clone.lineage, name))
    if not lineages:
        return
    lineage = lineages[0] if chance.random() < 0.7 else chance.choice(lineages)
    last = max(seq for name, seq, _ in lines if name == lineage)
    if last:
        seq = max(1, last - chance.randrange(6))
        team.acknowledge(clone, team.call(clone, "undo", "--seq", f"{seq}", "--lineage", lineage))


def redact(team: Team, clone: Clone, chance: random.Random) -> None:
    """The entity keeps what else it says."""
    hushes = sorted(mark for mark in clone.marks() if mark.startswith("hush"))
    if not hushes:
        return
    hush = chance.choice(hushes)
    done = team.redact(clone, hush)
    if clone.is_in_the_middle():
        return
    if done.code == 0 and not any(hush in marks for _, _, marks in clone.lines()):
        team.call(clone, "status")
        left = [name for name, data in clone.files().items() if hush.encode() in data]
        assert not left, f"{clone.name} has {hush} in {left} behind its redaction"


def look(team: Team, clone: Clone, chance: random.Random) -> None:
    words = chance.choice((("status",), ("log", "--lineage", "all"), ("recall", "boiler"), ("brief", "the boiler"),
                           ("review",), ("plan", "list"), ("doctor",), ("blame", "ID"), ("changed", "--since", "1d")))  # fmt: skip
    item = an_id(team, clone, chance)
    if words == ("doctor",):
        check_doctor(team.call(clone, *words))
    elif words != ("blame", "ID"):
        team.call(clone, *words)
    elif item is not None:
        team.call(clone, "blame", item)


def check_doctor(done: Done) -> None:
    if done.code in (0, 1):
        wrong = [one for one in done.document["problems"] if one["severity"] == "error"]
        wrong = [one for one in wrong if not one["path"].endswith(SETTINGS_ARE_GITS)]
        assert not wrong, done


# -- stores --------------------------------------------------------------------------------------------------------------


def compact(team: Team, clone: Clone, chance: random.Random) -> None:
    del chance
    check_doctor(team.call(clone, "doctor", "--compact"))


def lose(team: Team, clone: Clone, chance: random.Random) -> None:
    """What is derived goes."""
    del team
    what = chance.choice(("index", "tiles", "entities", "remotes"))
    if what == "index":
        remove_index(clone.root)
    elif what == "entities" and not clone.is_in_the_middle():
        for path in clone.root.glob("entities/*/*.json"):
            if chance.random() < 0.5:
                path.unlink()
    else:
        shutil.rmtree(clone.root / ("journal/tree" if what == "tiles" else what), ignore_errors=True)


def without_archive(team: Team, clone: Clone, chance: random.Random) -> None:
    """The archive is on another disk for a while."""
    places = sorted(clone.root.glob("journal/lin_*/archive"))
    aside = team.folder / "aside"
    for place in places:
        (aside / place.parent.name).mkdir(parents=True)
        place.rename(aside / place.parent.name / "archive")
    team.is_archive_away = bool(places)
    for deed in chance.sample(WHILE_ARCHIVE_IS_AWAY, 2):
        deed(team, clone, chance)
    team.is_archive_away = False
    if chance.random() < 0.4:  # gives up nothing of it
        team.call(clone, "doctor", "--repair", codes=frozenset({0, 1, 3}))
    for place in places:
        place.mkdir(exist_ok=True)
        for path in (aside / place.parent.name / "archive").iterdir():
            path.rename(place / path.name)
    shutil.rmtree(aside, ignore_errors=True)


def copy(team: Team, clone: Clone, chance: random.Random) -> None:
    """``cp -r``: a store that writes a lineage of its own."""
    if len(team.clones) >= CLONES_MAX or chance.random() < 0.5:
        return
    other = team.add(f"{clone.name}{len(team.clones)}")
    shutil.copytree(clone.folder, other.folder, symlinks=True)
    other.holds |= clone.holds
    other.copied_from = other.lineage
    shutil.rmtree(other.folder / ".git" / "worktrees", ignore_errors=True)
    if chance.random() < 0.6:
        chance.choice((remember, write, sync, redact, edit))(team, chance.choice((clone, other)), chance)


def late(team: Team, clone: Clone, chance: random.Random) -> None:
    """Somebody new clones what was pushed."""
    if len(team.clones) < CLONES_MAX and chance.random() < 0.4:
        other = team.clone(f"dan{len(team.clones)}")
        chance.choice((remember, write, sync, edit))(team, other, chance)


# -- files of entities -----------------------------------------------------------------------------------------------


def edit(team: Team, clone: Clone, chance: random.Random) -> None:
    """A person edits a file; the next command takes it in, or says why not."""
    folder = clone.linked if clone.linked.is_dir() and chance.random() < 0.2 else clone.folder
    paths = sorted((folder / ".periplus" / "entities").glob("*/*.json"))
    paths = [path for item in team.items for path in paths if path.stem == item]
    if not paths:
        return
    path = chance.choice(paths)
    way = chance.random()
    if way < 0.1:
        path.write_text(path.read_text(errors="replace")[: chance.randrange(200)])
    elif way < 0.2:
        path.unlink()
    else:
        try:
            said = json.loads(path.read_text())
        except ValueError:
            return
        text, mark = text_of(team, chance)
        said["entity"]["text" if chance.random() < 0.7 else "remedy" if path.stem.startswith("trp") else "text"] = text
        if chance.random() < 0.5:
            said.pop("conflicts", None)
        path.write_text(json.dumps(said, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
        if chance.random() < 0.7:
            look_at_edit(team, clone, folder, path, text, mark)
        return
    if chance.random() < 0.5:
        team.call(clone, "status", cwd=folder)


def look_at_edit(team: Team, clone: Clone, folder: Path, path: Path, text: str, mark: str) -> None:
    done = team.call(clone, "status", cwd=folder)
    if done.code not in (0, 1):
        return
    said = done.document
    if said["waits"] or any(path.stem in left["path"] for left in said["left"]):
        return
    taken = [one["id"] for one in (*said["edited"], *said["adopted"])]
    assert path.stem in taken, f"the edit of {path} is not told: {done}"
    if mark in clone.marks():
        acknowledged(team, clone, done._replace(code=0), text)
    else:
        raise AssertionError(f"the edit of {path} is told and not there: {done}")


# -- git ---------------------------------------------------------------------------------------------------------------


def commit(team: Team, clone: Clone, chance: random.Random) -> None:
    del chance
    team.commit(clone)


def share(team: Team, clone: Clone, chance: random.Random) -> None:
    """Commit, pull and push, as people do."""
    team.commit(clone)
    pull(team, clone, chance)
    push(team, clone, chance)


def push(team: Team, clone: Clone, chance: random.Random) -> None:
    del team
    clone.git("push", "-q", "origin", f"HEAD:{chance.choice(BRANCHES)}")


def branch(team: Team, clone: Clone, chance: random.Random) -> None:
    del team
    name = chance.choice(BRANCHES)
    force = ["-f"] if chance.random() < 0.5 else []
    clone.git("checkout", "-q", *force, name) or clone.git("checkout", "-q", *force, "-b", name)


def old_commit(team: Team, clone: Clone, chance: random.Random) -> None:
    clone.git("checkout", "-q", "-f", f"HEAD~{chance.randrange(1, 4)}")
    if not (clone.root / "config.toml").exists():
        team.call(clone, "status")
        clone.git("checkout", "-q", "-f", "main")


def old_files(team: Team, clone: Clone, chance: random.Random) -> None:
    del team
    clone.git("checkout", "-q", f"HEAD~{chance.randrange(1, 4)}", "--", ".periplus/entities")


def stash(team: Team, clone: Clone, chance: random.Random) -> None:
    del team
    clone.git("stash", "-q", *(["-u"] if chance.random() < 0.3 and clone.is_settled else []))


def unstash(team: Team, clone: Clone, chance: random.Random) -> None:
    if not clone.git("stash", "pop", "-q"):
        settle(team, clone, chance)


def pull(team: Team, clone: Clone, chance: random.Random) -> None:
    way = chance.choice(("--ff-only", "--no-rebase", "--rebase"))
    other = chance.choice([one for one in team.clones if one is not clone])
    where = "origin" if chance.random() < 0.7 else os.fspath(other.folder)
    begin(team, clone, chance, "pull", "-q", "--no-edit", way, where, chance.choice(BRANCHES))


def merge_branch(team: Team, clone: Clone, chance: random.Random) -> None:
    begin(team, clone, chance, "merge", "--no-edit", chance.choice(("main", "side", "other", "origin/main")))


def rebase(team: Team, clone: Clone, chance: random.Random) -> None:
    begin(team, clone, chance, "rebase", chance.choice(("main", "side", "other", "origin/main")))


def cherry_pick(team: Team, clone: Clone, chance: random.Random) -> None:
    begin(team, clone, chance, "cherry-pick", chance.choice(("main", "side", "other", "origin/main")))


def revert(team: Team, clone: Clone, chance: random.Random) -> None:
    begin(team, clone, chance, "revert", "--no-edit", f"HEAD~{chance.randrange(3)}")


def reset(team: Team, clone: Clone, chance: random.Random) -> None:
    del team
    if chance.random() < 0.5 and clone.is_settled:
        clone.git("clean", "-q", "-fd")
    clone.git("reset", "-q", chance.choice(("--hard", "--hard", "--mixed")), f"HEAD~{chance.randrange(3)}")


def worktree(team: Team, clone: Clone, chance: random.Random) -> None:
    """A linked worktree comes, goes, moves, or somebody works in it."""
    place = clone.linked
    way = chance.random()
    if not place.is_dir():
        clone.git("worktree", "prune")
        clone.git("worktree", "add", "-q", "--detach", os.fspath(place), f"HEAD~{chance.randrange(3)}")
    elif way < 0.2:
        clone.git("worktree", "remove", "--force", os.fspath(place))
    elif way < 0.4:
        clone.git("checkout", "-q", "-f", "--detach", chance.choice(("main", "side", "other")), cwd=place)
    elif way < 0.8:
        text, _ = text_of(team, chance)
        done = team.call(clone, "remember", text, "--type", chance.choice(MEMORY), cwd=place)
        acknowledged(team, clone, done, text)
    else:
        team.call(clone, "status", cwd=place)


def begin(team: Team, clone: Clone, chance: random.Random, *words: str) -> None:
    """What git may end with a conflict: somebody works on in the middle of it, and it is settled now or later."""
    if clone.git(*words) or not clone.is_in_the_middle():
        return
    if chance.random() < 0.6:
        before = clone.files()
        for deed in chance.choices(IN_THE_MIDDLE, k=2):
            deed(team, clone, chance)
        assert clone.files() == before, "while git has not done its files are left alone"
    if chance.random() < 0.8:
        settle(team, clone, chance)


def settle(team: Team, clone: Clone, chance: random.Random) -> None:
    """Give up, take one side of everything and go on, or commit the marks of the conflict."""
    del team
    way = chance.random()
    side = chance.choice(("--ours", "--theirs"))
    for _ in range(12 if way < 0.65 else 0):
        if way > 0.1 and not clone.git("checkout", side, "--", "."):
            break  # one side has removed a file
        clone.add_all()
        if not clone.is_in_the_middle():
            return
        for what in ("merge", "rebase", "cherry-pick", "revert"):
            clone.git(what, "--continue")
    for what in ("merge", "rebase", "cherry-pick", "revert"):
        clone.git(what, "--abort")
    clone.git("reset", "-q", "--hard")
    config = clone.root / "config.toml"
    if config.exists() and "<<<<" in config.read_text():
        config.write_text(config.read_text().split("<<<<")[0] + LIMITS)


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def command(team: Team, clone: Clone, chance: random.Random) -> tuple[list[str], str, str]:
    """``(words, its text, where it synchronises with)`` of a command that writes."""
    text, _ = text_of(team, chance)
    item, items = an_id(team, clone, chance), known(team, clone, "dec", "trp")
    ways = [["remember", text, "--type", chance.choice(MEMORY)], ["plan", "make", text, "--step", "first"], ["doctor", "--compact"],
            ["handoff", "write", text], ["status"]]  # fmt: skip
    if item is not None:
        ways += [["set", item, f"text={text}"], ["evolve", item, text], ["split", item, text, "something else"],
                 ["link", item, "references", items[0] if items else item], ["state", item, "superseded"]]  # fmt: skip
    where = chance.choice(team.places(clone))
    ways += [["sync", "--with", where]] * 4 + [["sync", "--with", where, "--rebase"]] * 2
    words = chance.choice(ways)
    return words, text if text in " ".join(words) else "", where if words[0] == "sync" else ""


def killed(team: Team, clone: Clone, chance: random.Random) -> None:
    """The process is gone at some call; as often as not the same command comes again."""
    hushes = sorted(mark for mark in clone.marks() if mark.startswith("hush"))
    if hushes and chance.random() < 0.25:
        hush = chance.choice(hushes)
        (team.home / "secret").write_text(hush)
        team.release(hush)
        words, text, where = ["redact", "--secret-file", os.fspath(team.home / "secret"), "--reason", "mistake"], "", ""
    else:
        hush = ""
        words, text, where = command(team, clone, chance)
    at = int(chance.expovariate(1 / 25))
    done = team.kill(clone, *words, at=at, share=chance.choice((0.0, 0.4, 0.999, 1.0)))
    if done.code is None and chance.random() < 0.5:
        done = team.call(clone, *words)
    if done.code is None:
        return
    if hush:
        team.redacted(clone, hush, done)
    elif where:
        team.synced(clone, done, where)
    else:
        acknowledged(team, clone, done, text)


def fails(team: Team, clone: Clone, chance: random.Random) -> None:
    """The system refuses a call. Where the outcome is unknown the same command with the key finds out."""
    words, text, where = command(team, clone, chance)
    files = FaultyFiles(
        Fault(int(chance.expovariate(1 / 25)), error=chance.choice(FAULTS), is_lasting=chance.random() < 0.3)
    )
    done = team.call(clone, *words, files=files, codes=WITH_FAULTS)
    if done.code == 6:
        key = re.search(r"--key (\w+)", done.err)
        done = team.call(clone, *words, *(("--key", key[1]) if key else ()))
        assert done.code == 0 or not key, f"an outcome that is unknown stays so: {done}"
    if where:
        team.synced(clone, done, where)
    elif text:
        acknowledged(team, clone, done, text)
    if (
        files.failures and clone.is_settled
    ):  # what says how far it is durable may lag until the next write; others wait for it
        mark = team.mark()
        acknowledged(team, clone, team.call(clone, "remember", f"The disk is mended {mark}"), mark)


def truth(team: Team, clone: Clone, chance: random.Random) -> None:
    """A process of its own, with the clock and the chance of the system."""
    if chance.random() < 0.5:
        return
    text, _ = text_of(team, chance)
    done = team.process(clone, "remember", text, "--type", "lesson")
    acknowledged(team, clone, done, text)


IN_THE_MIDDLE: tuple[Deed, ...] = (remember, write, sync, look, undo, plan, compact, evolve, killed)
WHILE_ARCHIVE_IS_AWAY: tuple[Deed, ...] = (remember, state, evolve, plan, link)
DEEDS: dict[str, tuple[int, Deed]] = {
    "remember": (7, remember), "write": (10, write), "state": (3, state), "evolve": (3, evolve), "merge_items": (2, merge_items),
    "split": (2, split), "link": (2, link), "confirm": (1, confirm), "plan": (4, plan), "handoff": (2, handoff), "undo": (4, undo),
    "redact": (3, redact), "look": (3, look), "sync": (12, sync), "compact": (4, compact), "lose": (3, lose),
    "without_archive": (2, without_archive), "copy": (2, copy), "late": (1, late), "edit": (7, edit), "commit": (5, commit),
    "share": (8, share), "push": (3, push), "branch": (3, branch), "old_commit": (2, old_commit), "old_files": (3, old_files),
    "stash": (2, stash), "unstash": (3, unstash), "pull": (6, pull), "merge_branch": (3, merge_branch), "rebase": (3, rebase),
    "cherry_pick": (2, cherry_pick), "revert": (2, revert), "reset": (3, reset), "worktree": (4, worktree), "settle": (2, settle),
    "killed": (9, killed), "fails": (5, fails), "truth": (1, truth),
    "keep_backup": (4, keep_backup), "put_back": (6, put_back), "rot": (5, rot),
}  # fmt: skip
