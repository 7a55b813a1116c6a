"""Claims on real stores: who gets what, until when, and who is told what."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from cli_support import Shell
from periplus.base.clock import FixedClock, format_ms, parse_ms
from periplus.base.errors import ClaimedError, ConflictError, NotFoundError, RefusedError, UsageError
from periplus.base.ids import new_id
from periplus.base.process.process_marks import process_mark
from periplus.journal import Writer
from periplus.memory import Memory
from periplus.memory.claim_status import live_claims, scopes_of, session_id
from periplus.memory.coordination.claim_queue import wait_for
from periplus.memory.coordination.claims import TTL_S, Asked, acquire, renew
from periplus.project import Project
from support import ADA, BOB, Stop, StoppingFiles, record_count

HOUR = 3_600_000


def asked(*scopes, **more):
    return Asked(tuple(scopes), **more)


def states(project):
    return [claim.value["state"] for claim in project.journal.entities("claim")]


# -- who gets what ----------------------------------------------------------------------------------------------------


def test_an_exclusive_claim_shuts_others_out_and_says_who_holds_it(ada, bob, clock):
    taken = ada.work.claim(asked("src/auth", text="rewriting the login"))
    assert taken.is_new
    assert taken.claim.value["scopes"] == ["src/auth"]
    assert parse_ms(taken.claim.value["expires"]) == clock.now_ms() + TTL_S * 1000
    clock.advance(12 * 60_000)
    before = record_count(bob)
    with pytest.raises(ClaimedError) as caught:
        bob.work.claim(asked("docs", "src/**/x_*.py"))
    assert str(caught.value) == (
        "src/**/x_*.py overlaps src/auth, which is claimed by ada (exclusive, for 12 min, expires in 108 min: "
        f"rewriting the login) [{taken.claim.item_id}]"
    )
    assert caught.value.exit_code == 5
    assert caught.value.claims == (taken.claim.item_id,)
    assert "--wait" in caught.value.mend
    assert record_count(bob) == before
    assert bob.work.claim(asked("src/authors", "docs")).is_new


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second", "is_had"),
    [
        ("exclusive", "exclusive", False),
        ("exclusive", "shared", False),
        ("shared", "exclusive", False),
        ("shared", "shared", True),
    ],
)
def test_only_two_shared_claims_go_together(ada, bob, first, second, is_had):
    ada.work.claim(asked("src", mode=first))
    if is_had:
        assert bob.work.claim(asked("src/a.py", mode=second)).is_new
        return
    with pytest.raises(ClaimedError):
        bob.work.claim(asked("src/a.py", mode=second))
    assert bob.work.claim(asked("tests", mode=second)).is_new


def test_ones_own_claim_is_renewed_or_stands_beside_another(ada, clock):
    first = ada.work.claim(asked("src"))
    clock.advance(HOUR)
    again = ada.work.claim(asked("src/a.py", "src/*.js"))
    assert (again.claim.item_id, again.is_new) == (first.claim.item_id, False)
    assert parse_ms(again.claim.value["expires"]) == clock.now_ms() + TTL_S * 1000
    more = ada.work.claim(asked("src", "tests"))
    assert more.is_new
    shared = ada.work.claim(asked("src", mode="shared"))
    assert shared.is_new
    longer = ada.work.claim(asked("src", ttl_s=3 * TTL_S))
    assert longer.claim.value["ttl_s"] == 3 * TTL_S
    assert ada.work.claim(asked("src", ttl_s=60)).claim.value["expires"] == longer.claim.value["expires"]
    assert len(ada.work.claims()) == 3


def test_a_renewal_says_anew_what_all_of_it_is_for(ada):
    first = ada.work.claim(asked("src", text="turn the crank"))
    part = ada.work.claim(asked("src/a.py", text="oil one cog"))
    assert (part.is_new, part.claim.value["text"]) == (False, "turn the crank"), "it is of a part only"
    again = ada.work.claim(asked("src", text="oil the wheels"))
    assert (again.claim.item_id, again.claim.value["text"]) == (first.claim.item_id, "oil the wheels")
    assert ada.work.claim(asked("src")).claim.value["text"] == "oil the wheels"


def test_two_sessions_of_one_name_are_two_holders(ada, clock):
    one, two = ADA._replace(session="one"), ADA._replace(session="two")
    acquire(ada.journal, one, asked("src"))
    with pytest.raises(ClaimedError):
        acquire(ada.journal, two, asked("src/a.py"))
    assert acquire(ada.journal, ADA, asked("src/a.py")).is_new  # without a session: any of ada's
    assert live_claims(ada.journal, clock.now_ms())[0].value.get("session", "") in ("", session_id("one"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (Asked(()), "needs a scope"),
        (Asked(("../x",)), "leads out"),
        (Asked(("src",), "jealous"), "exclusive or shared"),
        (Asked(("src",), ttl_s=1), "10 to 604,800 seconds"),
        (Asked(("src",), text="AKIA" + "IOSFODNN7ABCDEFG"), "secret"),
        (Asked(tuple(f"f{n}" for n in range(101))), "101 scopes"),
    ],
)
def test_what_no_claim_can_be_changes_nothing(ada, wrong, said):
    before = record_count(ada)
    with pytest.raises((UsageError, RefusedError), match=said):
        ada.work.claim(wrong)
    assert record_count(ada) == before


def test_a_key_makes_a_claim_once(ada):
    first = ada.work.claim(asked("src"), key="k1")
    again = ada.work.claim(asked("src"), key="k1")
    assert again.claim.item_id == first.claim.item_id
    assert len(ada.work.claims()) == 1
    ada.remember(Memory("note", "not a claim"), key="k2")
    with pytest.raises(ConflictError, match="something else"):
        ada.work.claim(asked("src"), key="k2")


def test_a_claim_whose_scope_nobody_can_read_shuts_everybody_out(ada, bob):
    claim = ada.work.claim(asked("src")).claim
    ada.journal.mutate(lambda tx: tx.put("claim", claim.item_id, {**claim.value, "scopes": ["%{later"]}), ADA)
    with pytest.raises(ClaimedError):
        bob.work.claim(asked("docs"))


# -- until when -------------------------------------------------------------------------------------------------------


def test_a_claim_is_over_when_the_clock_says_so(ada, bob, clock):
    claim = ada.work.claim(asked("src")).claim
    clock.advance(TTL_S * 1000 - 1)
    with pytest.raises(ClaimedError):
        bob.work.claim(asked("src"))
    clock.advance(1)
    assert bob.work.claims() == []
    assert bob.work.check(["src/a.py"]).claims == ()
    assert bob.journal.get("claim", claim.item_id).value["state"] == "held"  # nobody wrote since
    assert bob.work.claim(asked("src")).is_new
    assert bob.journal.get("claim", claim.item_id).value["state"] == "expired"
    with pytest.raises(ClaimedError):
        ada.work.claim(asked("src"))


def test_a_claim_by_a_clock_that_is_ahead_says_so(ada, clock):
    """It held for as long as that clock is ahead, and nobody was told why, nor that somebody else's may be let go."""
    with Project(ada.root, BOB, clock=FixedClock(clock.now_ms() + 240 * HOUR)) as bob:
        claim = bob.work.claim(asked("src")).claim
    with pytest.raises(
        ClaimedError, match="expires in 242 h 0 min by a clock that is 240 h 0 min ahead of this one: "
    ) as caught:
        ada.work.claim(asked("src"))
    assert f"periplus claim release {claim.item_id} --force" in caught.value.mend
    clock.advance(240 * HOUR)
    with pytest.raises(ClaimedError, match="expires in 2 h 0 min: "):
        ada.work.claim(asked("src"))


def test_its_holders_activity_moves_the_end_on_and_nobody_elses(ada, bob, clock):
    ada.work.claim(asked("src"))
    clock.advance(HOUR // 10)
    before = record_count(ada)
    ada.journal.mutate(lambda tx: renew(ada.journal, tx, ADA, clock.now_ms()), ADA)
    assert record_count(ada) == before  # hardly any of its time is gone
    clock.advance(HOUR)
    bob.journal.mutate(lambda tx: renew(bob.journal, tx, BOB, clock.now_ms()), BOB)
    assert record_count(ada) == before
    ada.journal.mutate(lambda tx: renew(ada.journal, tx, ADA, clock.now_ms()), ADA)
    clock.advance(TTL_S * 1000 - 1)
    assert len(bob.work.claims()) == 1
    clock.advance(2)
    assert bob.work.claims() == []
    ada.journal.mutate(lambda tx: renew(ada.journal, tx, ADA, clock.now_ms()), ADA)
    assert bob.work.claims() == [], "what is over is not brought back"


def test_who_holds_a_claim_releases_it_and_others_need_force(ada, bob):
    one, two = (ada.work.claim(asked(path)).claim for path in ("src", "tests"))
    theirs = bob.work.claim(asked("docs")).claim
    with pytest.raises(RefusedError, match="a claim of bob"):
        ada.work.release([one.item_id, theirs.item_id])
    assert states(ada) == ["held"] * 3
    done = ada.work.release([one.item_id[:12]], reason="done with it")
    assert [entity.value["state"] for entity in done.entities] == ["released"]
    assert bob.work.claim(asked("src")).is_new
    ada.work.release([theirs.item_id], force=True)
    assert {entity.item_id for entity in ada.work.release().entities} == {two.item_id}
    assert ada.work.release().receipt is None
    with pytest.raises(NotFoundError):
        ada.work.release(["clm_zzzz"])
    note = ada.remember(Memory("note", "no claim")).entity
    with pytest.raises(NotFoundError, match="is a note, not a claim"):
        ada.work.release([note.item_id])


# -- waiting ----------------------------------------------------------------------------------------------------------


def test_who_waits_gets_it_when_it_is_let_go(ada, bob, clock):
    ada.work.claim(asked("src"))
    looks = []
    resting = threading.Event()

    def rest(seconds):
        looks.append(seconds)
        resting.set()
        time.sleep(min(seconds, 0.05))
        return False

    def let_go():
        assert resting.wait(30)
        with Project(ada.root, ADA, clock=clock) as again:
            again.work.release()

    thread = threading.Thread(target=let_go)
    thread.start()
    done = wait_for(bob.journal, BOB, asked("src/x.py"), wait_s=60, wait=rest)
    thread.join()
    assert done.is_new
    assert looks, "it did not wait at all"


@pytest.mark.slow
def test_who_waits_gets_it_when_it_is_over_and_otherwise_is_told(ada, bob, clock):
    ada.work.claim(asked("src", ttl_s=10))
    told = []

    def rest(seconds):
        told.append(seconds)
        clock.advance(4_000)
        return False

    at = [0.0]

    def now():
        at[0] += 4.0 if told else 0.0
        return at[0]

    assert wait_for(bob.journal, BOB, asked("src"), wait_s=1000, wait=rest, now=now).is_new
    with pytest.raises(ClaimedError):
        wait_for(ada.journal, ADA, asked("src"), wait_s=0.05, wait=lambda seconds: time.sleep(seconds) or False)
    with pytest.raises(ClaimedError):
        wait_for(ada.journal, ADA, asked("src"), wait_s=3600, wait=lambda _: True)  # nobody reads the answer any more


# -- check ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_check_tells_claims_constraints_and_traps_of_a_path(ada, bob, tmp_path):
    (tmp_path / "src/auth").mkdir(parents=True)
    (tmp_path / "src/auth/x.py").write_text("x = 1\n")
    bob.work.claim(asked("src/auth"))
    bob.work.claim(asked("docs", mode="shared"))
    rule = ada.remember(Memory("constraint", "No passwords in logs", about=("src/auth/",))).entity
    trap = ada.remember(
        Memory("trap", "x is read twice", about=("src/auth/x.py",), extra={"severity": "critical"})
    ).entity
    ada.remember(Memory("trap", "of another file", about=("src/auth/y.py",)))
    over = ada.remember(Memory("trap", "long gone", about=("src/auth/x.py",))).entity
    ada.work.change_state([over.item_id], "resolved")
    found = ada.work.check(["src/auth/x.py", "docs/a.md", "lib"])
    assert [(one.path, one.entity.value["holder"], one.is_own) for one in found.claims] == [
        ("src/auth/x.py", "bob", False),
        ("docs/a.md", "bob", False),
    ]
    assert [one.path for one in found.blocked] == ["src/auth/x.py"]
    assert {one.entity.item_id for one in found.rules} == {rule.item_id, trap.item_id}
    assert not bob.work.check(["src/auth/x.py"]).blocked
    assert bob.work.check(["docs"]).rules == ()


def test_check_takes_every_path_that_a_memory_can_be_about(ada, bob, tmp_path):
    (tmp_path / "src").mkdir()
    names = ["src/a\nb.py", "src/\t", "src/\x1b[31m.py", "src/ "]
    for name in names:
        (tmp_path / name).write_text("x = 1\n")
        ada.remember(Memory("trap", f"of {name!r}", about=(name,)))
    bob.work.claim(asked("src"))
    found = ada.work.check(names)
    assert [one.path for one in found.blocked] == names
    assert {one.path for one in found.rules} == {*names}
    with pytest.raises(UsageError, match="line of text"):  # a claim is read by others, line by line
        bob.work.claim(asked(names[0]))
    with pytest.raises(UsageError, match="no path"):
        ada.work.check(["a\0b"])


def test_check_tells_rules_about_lines_of_a_file(ada, tmp_path):
    (tmp_path / "a.py").write_text("".join(f"x{at} = {at}\n" for at in range(30)))
    rule = ada.remember(Memory("trap", "ten is read twice", about=("a.py:10-12",))).entity
    assert [(one.path, one.entity.item_id, one.moved_from) for one in ada.work.check(["a.py"]).rules] == [
        ("a.py", rule.item_id, "")
    ]
    assert ada.work.check(["a.py2", "b.py"]).rules == ()


@pytest.mark.slow
@pytest.mark.parametrize("inside", ["", ":3-6", ":second"])
def test_check_tells_rules_about_what_moved_where_it_is_now(ada, tmp_path, inside):
    first = "def first(old, new):\n    while old:\n        old -= new\n    return old\n\n\n"
    second = "def second(one, two):\n    if one:\n        return two\n    return one\n"
    (tmp_path / "src").mkdir()
    (tmp_path / "lib").mkdir()
    text = second + first if inside == ":3-6" else first + second
    (tmp_path / "src/a.py").write_text(text)
    (tmp_path / "src/other.py").write_text(f"# nothing of second here\n{first * 2}")
    (tmp_path / "src/a.txt").write_text(text)
    rule = ada.remember(Memory("trap", "read twice", about=(f"src/a.py{inside}",), extra={"remedy": "once"})).entity
    over = ada.remember(Memory("trap", "long gone", about=(f"src/a.py{inside}",))).entity
    ada.work.change_state([over.item_id], "resolved")
    (tmp_path / "src/copy.py").write_text(text)
    asked_for = ["lib/b.py", "src/copy.py", "src/other.py", "src/a.txt", "src", "lib", "not/there.py"]

    def told():
        return [(one.path, one.entity.item_id, one.moved_from) for one in ada.work.check(asked_for).rules]

    assert told() == [], "a copy is not what the rule is about while that is where it was"
    (tmp_path / "src/copy.py").unlink()
    (tmp_path / "src/a.py").rename(tmp_path / "lib/b.py")
    assert told() == [("lib/b.py", rule.item_id, f"src/a.py{inside}")]
    if inside == ":second":  # its file may stay
        (tmp_path / "src/a.py").write_text(first)
        assert told() == [("lib/b.py", rule.item_id, "src/a.py:second")]
    (tmp_path / "lib/b.py").write_text(text.replace("one", "won").replace("old", "new"))
    assert told() == []


@pytest.mark.slow
def test_a_path_outside_keeps_no_rule_about_the_others_back(ada, tmp_path):
    rule = ada.remember(Memory("trap", "read twice", about=("a.py",))).entity
    shell = Shell(tmp_path, tmp_path)
    done = shell("check", "a.py", "nope/x", "../outside", "/etc/passwd")
    assert done.lines[0] == f"trap a.py: read twice [{rule.item_id}]"
    assert done.lines[1:] == [
        f"{path} is outside the project, so nothing is known about it." for path in ("../outside", "/etc/passwd")
    ]
    found = shell.json("check", "../outside", "lib")
    assert (found.paths, found.outside, found.blocked) == (["lib"], ["../outside"], False)


def test_check_sees_what_is_not_indexed_yet(ada, tmp_path):
    (tmp_path / "a.py").write_text("")
    entity = ada.remember(Memory("trap", "seen", about=("a.py",))).entity
    ada.journal.mutate(
        lambda tx: tx.put("trap", entity.item_id, {**entity.value, "text": "seen anew"}), ADA, project=False
    )
    (one,) = ada.work.check(["a.py"]).rules
    assert one.entity.value["text"] == "seen anew"
    with pytest.raises(UsageError, match="201 paths"):
        ada.work.check([f"f{number}" for number in range(201)])


# -- paths as they are typed ------------------------------------------------------------------------------------------


def test_scopes_are_typed_from_where_one_stands(ada, tmp_path):
    (tmp_path / "app/[id]").mkdir(parents=True)
    (tmp_path / "app/[id]/page.tsx").write_text("")
    (tmp_path / "Kit.framework").mkdir()
    work, here = ada.work, os.fspath(tmp_path / "app/[id]")
    for word, cwd, scope in [
        ("app", "", "app"),
        ("app/[id]/page.tsx", "", r"app/\[id\]/page.tsx"),
        ("page.tsx:Page", here, r"app/\[id\]/page.tsx:Page"),
        ("*.tsx", here, r"app/\[id\]/*.tsx"),
        ("../x*", here, "app/x*"),
        (".", here, r"app/\[id\]"),
        (os.path.join(here, "page.tsx"), "", r"app/\[id\]/page.tsx"),
        ("Kit.framework", "", "Kit.framework/"),
        ("src/a.py", "/", "src/a.py"),
        (".", "", "."),
    ]:
        assert work.scope(word, cwd=cwd) == scope, word
        acquired = work.claim(asked(work.scope(word, cwd=cwd)))
        assert scopes_of(acquired.claim)
    for word in ("../x", "/etc", "app/../../x"):
        with pytest.raises(UsageError, match="outside of the project"):
            work.scope(word)


# -- a crash in the middle --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_claim_is_there_whole_or_not_at_all_wherever_the_process_stops(tmp_path, clock):
    at = 0
    while True:
        folder = tmp_path / str(at)
        folder.mkdir()
        root = Project.init(os.fspath(folder), clock=clock).root
        with Project(root, BOB, clock=clock) as project:
            project.work.claim(asked("src", ttl_s=10))
        clock.advance(20_000)
        stopped = True
        try:
            with Project(root, ADA, clock=clock, files=StoppingFiles(at, 0.5)) as project:
                project.work.claim(asked("src/auth"))
            stopped = False
        except Stop:
            pass
        with Project(root, BOB, clock=clock) as project:
            found = project.work.claims()
            expired = [claim for claim in project.journal.entities("claim") if claim.value["state"] == "expired"]
            assert len(found) == len(expired) <= 1, "the new claim and the end of the old one are one batch"
            if found:
                with pytest.raises(ClaimedError):
                    project.work.claim(asked("src/auth/x.py"))
                project.work.release([found[0].item_id], force=True)
            assert project.work.claim(asked("src/auth/x.py")).is_new
        if not stopped:
            break
        at += 1
    assert at > 5


# -- the line ----------------------------------------------------------------------------------------------------------

EVE = Writer("eve", "who_0000000000000003", "", 3)


def stand(project, writer, clock, scope, place, **more):
    """A place in the line, as a waiting process writes it; by default it cannot be told whether that process lives."""
    now = clock.now_ms()
    value = {
        "v": 1, "text": "waits", "state": "waiting", "scopes": [scope], "mode": "exclusive", "holder": writer.name,
        "holder_id": writer.id, "ttl_s": 7200, "expires": format_ms(now + 60_000), "created": format_ms(now), "place": place, **more,
    }  # fmt: skip
    item_id = new_id("clm")
    project.journal.mutate(lambda at: at.put("claim", item_id, value), writer)
    return item_id


def test_who_comes_later_stands_behind_who_waits(ada, bob, clock):
    held = ada.work.claim(asked("src"))
    place = stand(ada, EVE, clock, "src/a.py", 1)
    ada.work.release([held.claim.item_id])
    before = record_count(bob)
    with pytest.raises(ClaimedError, match=rf"src overlaps src/a.py, which is waited for by eve .*{place}"):
        bob.work.claim(asked("src"))
    assert record_count(bob) == before
    assert bob.work.claim(asked("src/b.py")).is_new, "what nobody waits for is free"
    with Project(ada.root, EVE, clock=clock) as eve:
        taken = acquire(eve.journal, EVE, asked("src/a.py"), place=place)
        assert (taken.claim.item_id, taken.claim.value["state"], taken.is_new) == (place, "held", True)
    with pytest.raises(ClaimedError, match="claimed by eve"):
        bob.work.claim(asked("src"))


def test_a_place_ends_with_its_time_or_its_process(ada, bob, clock):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    mark = process_mark(child.pid, ada.journal.files)._asdict()
    dead = stand(ada, EVE, clock, "src", 1, process=mark)
    old = stand(ada, EVE, clock, "doc", 2)
    with pytest.raises(ClaimedError, match="waited for by eve"):
        bob.work.claim(asked("src"))
    assert [claim.item_id for claim in bob.work.waiting()] == [dead, old]
    child.kill()
    child.communicate()
    assert [claim.item_id for claim in bob.work.waiting()] == [old]
    assert bob.work.claim(asked("src")).is_new
    clock.advance(60_000)
    assert bob.work.waiting() == []
    assert bob.work.claim(asked("doc")).is_new
    assert {bob.show(one).value["state"] for one in (dead, old)} == {"expired"}


def test_who_waits_for_what_one_holds_keeps_one_from_nothing(ada, bob, clock):
    ada.work.claim(asked("src"))
    stand(ada, EVE, clock, ".", 1)
    with pytest.raises(ClaimedError, match="waited for by eve"):
        bob.work.claim(asked("doc"))
    assert ada.work.claim(asked("doc")).is_new, "else both would wait for each other"
    assert ada.work.claim(asked("src/a.py")).is_new is False, "what one has is renewed"
    lines = [line.text for section in ada.brief("anything").sections for line in section.lines]
    assert any("eve waits for you to release ." in line for line in lines)


def test_who_gives_up_leaves_the_line(ada, bob, clock):
    ada.work.claim(asked("src"))
    places = []

    def rest(seconds):
        places.extend(bob.work.waiting())
        return True

    with pytest.raises(ClaimedError):
        wait_for(bob.journal, BOB, asked("src"), wait_s=60, wait=rest)
    assert [claim.value["holder"] for claim in places] == ["bob"]
    assert ada.work.waiting() == []
    assert bob.show(places[0].item_id).value["state"] == "released"
    with pytest.raises(UsageError, match="a claim is taken by its own command"):
        bob.work.change_state([places[0].item_id], "held")


@pytest.mark.slow
def test_three_processes_are_served_in_their_order_and_a_killed_one_not_at_all(tmp_path):
    shell = Shell(tmp_path, tmp_path)
    shell("init")
    shell("claim", "take", "src", "--as", "ada")

    def waiting():
        return [claim.holder for claim in shell.json("claim", "list", code=0).waiting]

    line = []
    for name in ("bob", "eve", "dan"):
        line.append(shell.start("claim", "take", "src/a.py", "--wait", "300", "--as", name, stdout=subprocess.PIPE))
        while waiting() != [*["bob", "eve", "dan"][: len(line)]]:
            assert line[-1].poll() is None
    bob, eve, dan = line
    assert "waits for src/a.py since" in shell("claim", "list").out
    eve.send_signal(signal.SIGKILL)
    eve.communicate(timeout=60)
    shell("claim", "release", "--as", "ada")
    bob.communicate(timeout=120)
    assert dan.poll() is None
    shell.fails("claim", "take", "src", "--as", "zoe", code=5, wrong="claimed by bob")
    shell("claim", "release", "--as", "bob")
    dan.communicate(timeout=120)
    assert (bob.returncode, dan.returncode) == (0, 0)
    found = shell.json("claim", "list")
    assert ([claim.holder for claim in found.claims], found.waiting) == (["dan"], [])


@pytest.mark.slow
def test_a_stop_at_every_call_of_standing_in_line_leaves_nobody_waiting_for_long(tmp_path, clock):
    stops = 0
    for number in range(1, 200):
        folder = tmp_path / str(number)
        folder.mkdir()
        root = Project.init(os.fspath(folder), clock=clock).root
        with Project(root, ADA, clock=clock) as project:
            project.work.claim(asked("src"))
        stopped = False
        try:
            with Project(root, BOB, clock=clock, files=StoppingFiles(number)) as project:
                wait_for(project.journal, BOB, asked("src"), wait_s=60, wait=lambda _: True)
        except Stop:
            stopped = True
        except ClaimedError:
            pass
        stops += stopped
        with Project(root, ADA, clock=clock) as project:
            assert states(project).count("held") == 1
            project.work.release()
        clock.advance(61_000)
        with Project(root, EVE, clock=clock) as project:
            assert project.work.claim(asked("src")).is_new
        if not stopped:
            break
    assert 2 < stops < 199
