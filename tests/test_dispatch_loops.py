"""Loops: the table, and gates that open for evidence and for nothing else."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from periplus.base.errors import FormatError, UsageError
from periplus.dispatch.handover.result_file import Finding, Result
from periplus.dispatch.handover.work_prompt import Work, work_prompt
from periplus.dispatch.loops.artifacts import (
    Answer,
    Answers,
    Cause,
    Conclusion,
    Critique,
    Critiques,
    Hypotheses,
    Isolation,
    Proposal,
    Questions,
    Repair,
    Report,
    Reproduction,
    Sourced,
    Sources,
    Synthesis,
    Use,
    Verdict,
    is_url,
    named_command,
    named_places,
    parse_artifact,
    parse_place,
    review_of,
)
from periplus.dispatch.loops.evidence import Changed, CommandRun, Evidence, Handed, Place, is_in_trace, trace_places
from periplus.dispatch.loops.gates import findings_of
from periplus.dispatch.loops.material import material_for
from periplus.dispatch.loops.substance import are_alike, distinct_words, has_substance
from periplus.dispatch.loops.table import LOOPS, Gate, next_phase, phase_of
from periplus.dispatch.roles.roles import find_roles

PHASES = [(kind, phase) for kind, phases in LOOPS.items() for phase in phases]
ALL = pytest.mark.parametrize(("kind", "phase"), PHASES, ids=lambda one: getattr(one, "name", one))


def put(evidence, phase, agent, artifact):
    return evidence._replace(artifacts=(*evidence.artifacts, Handed(phase, agent, artifact)))


def opened(kind, phase, evidence, following):
    assert next_phase(kind, phase, evidence) == Gate(satisfied=True, missing=(), phase=following)


def shut(kind, phase, evidence, *said):
    gate = next_phase(kind, phase, evidence)
    assert (gate.satisfied, gate.phase) == (False, "")
    assert all(any(words in one for one in gate.missing) for words in said), gate.missing


# -- the table ---------------------------------------------------------------------------------------------------------------


def test_the_table_has_the_loops_of_the_field():
    assert {kind: [one.name for one in phases] for kind, phases in LOOPS.items()} == {
        "review": ["findings", "answer", "verdict"],
        "ideation": ["proposals", "critiques", "synthesis"],
        "debug": ["reproduce", "hypotheses", "isolate", "fix"],
        "research": ["questions", "findings", "synthesis"],
    }


@ALL
def test_each_phase_has_a_role_that_ships_and_a_prompt(kind, phase):
    names = {one.name for one in find_roles([]).roles}
    assert phase.role in names | {""}
    prompt = work_prompt(
        Work("run_1", "b", phase.order, answer=phase.answer, artifact=phase.schema, is_read_only=phase.is_read_only)
    )
    assert phase.schema in prompt
    assert (
        ("Commit your work" in prompt)
        == (phase.role in {"implementer", "tester"})
        != ("hange nothing" in phase.order or phase.role == "reviewer")
    )
    if phase.role:
        assert find_roles([]).named(phase.role).answer == phase.answer


@ALL
def test_no_gate_opens_without_evidence(kind, phase):
    shut(kind, phase.name, Evidence())
    shut(kind, phase.name, Evidence(oracle=("make",), author="ada", agents=2))


PADDING = [
    "",
    "TODO",
    "n/a",
    "… … …",
    "lorem ipsum dolor sit",
    "foo bar baz",
    "test " * 500,
    "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17",
]


def padded(kind, text):
    """An artifact of a kind with a text in each of its fields, as often as a gate may want it."""
    number = [1, 2, 3]
    made = {
        Verdict: [Verdict("approve", (), (text,), (1, 2, 3)), Verdict("changes", (Finding("blocking", text),) * 3)],
        Answers: [Answers(tuple(Answer(at, "declined", text) for at in number)), Answers(())],
        Proposal: [Proposal(text, text)],
        Critiques: [Critiques(tuple(Critique(at, text) for at in number)), Critiques(())],
        Synthesis: [Synthesis(text, tuple(Use(at, "taken", text) for at in number)), Synthesis(text, ())],
        Reproduction: [Reproduction((text,), text)],
        Hypotheses: [Hypotheses((Cause(text, text),) * 3), Hypotheses(())],
        Isolation: [Isolation(text, 1, text)],
        Repair: [Repair(text)],
        Questions: [Questions((text,) * 3), Questions(())],
        Sources: [Sources(tuple(Sourced(at, text, (text,)) for at in number)), Sources(())],
        Report: [Report(tuple(Conclusion(at, text, (at,)) for at in number)), Report(())],
    }
    return made[kind]


@ALL
@pytest.mark.parametrize("text", PADDING, ids=range(len(PADDING)))
def test_an_empty_or_padded_artifact_opens_no_gate(kind, phase, text):
    """All other evidence is there and good: earlier phases, a passing check, a diff, a command that failed and passes."""
    for artifact in padded(phase.artifact, text):
        evidence = GOOD[kind, phase.name]
        kept = tuple(one for one in evidence.artifacts if one.phase != phase.name)
        given = evidence._replace(artifacts=kept)
        opened(kind, phase.name, evidence, FOLLOWING[kind, phase.name])
        for agent in ("ada", "bob", "cyd"):
            given = put(given, phase.name, agent, artifact)
        shut(kind, phase.name, given)


@ALL
def test_a_gate_opens_for_artifacts_of_its_own_kind_and_phase_only(kind, phase):
    good = GOOD[kind, phase.name]
    moved = tuple(one._replace(phase="elsewhere") if one.phase == phase.name else one for one in good.artifacts)
    shut(kind, phase.name, good._replace(artifacts=moved))
    wrong = (
        Repair("An honest and long account of it.") if phase.artifact is not Repair else Questions(("Who owns locks?",))
    )
    swapped = tuple(one._replace(artifact=wrong) if one.phase == phase.name else one for one in good.artifacts)
    shut(kind, phase.name, good._replace(artifacts=swapped))


def test_a_loop_or_phase_that_there_is_not_is_told():
    with pytest.raises(UsageError, match="no phase 'fix'"):
        next_phase("review", "fix", Evidence())
    with pytest.raises(UsageError, match="no loop 'dance'"):
        phase_of("dance", "fix")


# -- evidence that opens ----------------------------------------------------------------------------------------------------

LOST = Finding("blocking", "A write is lost when the disk is full.", "src/a.py", 4)
TASTE = Finding("minor", "The name says little about it.", "src/a.py", 9)
CHANGE = Evidence(changed=(Changed("src/a.py", 1, 20), Changed("src/gone.py", 0, 0)), author="ada", oracle=("make",), tip="t1", tip_before="t1",
                  places=(Place("src/a.py", 4, exists=True), Place("src/a.py", 99, exists=True), Place("src/b.py", 3, exists=False)))  # fmt: skip
REVIEWED = put(CHANGE, "findings", "bob", Verdict("changes", (TASTE, LOST)))
ANSWERED = put(REVIEWED, "answer", "ada", Answers((Answer(1, "fixed", "The write is checked now."),)))._replace(
    tip="t2", commands=(CommandRun("answer", ("make",), 0, "", "t2"),)
)
JUDGED = put(ANSWERED, "verdict", "bob", Verdict("approve", (), ("src/a.py:4",), (1,)))

IDEAS = (
    Proposal("A queue", "Keep a queue of requests on disk, drained by one worker, with a lease for each entry and a clock that never runs backwards."),
    Proposal("A log", "Append every request to a log and let readers hold cursors; compaction removes entries that all cursors have passed."),
    Proposal("Polling", "Clients poll an endpoint with their last version; servers answer changes since then or nothing, without any state between."),
)  # fmt: skip
PROPOSED = Evidence()
for _who, _idea in zip(("ada", "bob", "cyd"), IDEAS, strict=True):
    PROPOSED = put(PROPOSED, "proposals", _who, _idea)
CRITICISED = put(PROPOSED, "critiques", "ada", Critiques((Critique(2, "Cursors of dead readers stop compaction for ever, and disks fill."),
                                                          Critique(3, "Polling costs a request per client each second while nothing happens."))))  # fmt: skip
CRITICISED = put(
    CRITICISED,
    "critiques",
    "bob",
    Critiques((Critique(1, "Leases need clocks that agree, which laptops do not have at all."),)),
)
JOINED = put(CRITICISED, "synthesis", "cyd", Synthesis(
    "Use the log with cursors that expire after a day, so compaction always makes progress; no leases, and no polling by idle clients.",
    (Use(1, "left", "leases need agreeing clocks"), Use(2, "taken", "cursors survive restarts"), Use(3, "left", "idle traffic costs money"))))  # fmt: skip

TRACE = 'Traceback (most recent call last):\n  File "/home/x/src/cache.py", line 40, in get\n    return held[key]\nKeyError: stale entry'
COMMAND = ("pytest", "-q", "tests/test_cache.py::test_stale")
REPRODUCED = put(Evidence(tip="t1"), "reproduce", "ada", Reproduction(COMMAND, "KeyError: stale entry"))._replace(
    commands=(CommandRun("reproduce", COMMAND, 1, TRACE, "t1"),)
)
SUPPOSED = put(REPRODUCED, "hypotheses", "bob", Hypotheses((
    Cause("The cache drops an entry while a reader holds its key.", "Hold the lock around both calls and run it."),
    Cause("Two writers race on the same slot.", "Run with one writer thread only."))))  # fmt: skip
ISOLATED = put(SUPPOSED, "isolate", "bob", Isolation("src/cache.py:44", 1, "With the lock held it passes."))._replace(
    places=(Place("src/cache.py", 44, exists=True),)
)
FIXED = put(ISOLATED, "fix", "ada", Repair("The entry is read under the lock."))._replace(
    tip="t2", changed=(Changed("src/cache.py", 38, 45), Changed("tests/test_cache.py", 1, 9)), oracle=("make",),
    commands=(*ISOLATED.commands, CommandRun("fix", COMMAND, 0, "", "t2"), CommandRun("fix", ("make",), 0, "", "t2")),
)  # fmt: skip

ASKED = put(Evidence(), "questions", "ada", Questions(("How are claims expired?", "Which clock decides about leases?")))
FOUND = put(
    ASKED, "findings", "bob", Sources((Sourced(1, "Readers compare the clock.", ("src/claims.py:12",)),))
)._replace(places=(Place("src/claims.py", 12, exists=True),))
FOUND = put(
    FOUND,
    "findings",
    "cyd",
    Sources((Sourced(2, "The monotonic clock of the host.", ("https://docs.python.org/3/library/time.html",)),)),
)
CONCLUDED = put(
    FOUND,
    "synthesis",
    "ada",
    Report((Conclusion(1, "Expiry is decided by every reader.", (1,)), Conclusion(2, "No source answers it.", ()))),
)

GOOD = {
    ("review", "findings"): REVIEWED, ("review", "answer"): ANSWERED, ("review", "verdict"): JUDGED,
    ("ideation", "proposals"): PROPOSED, ("ideation", "critiques"): CRITICISED, ("ideation", "synthesis"): JOINED,
    ("debug", "reproduce"): REPRODUCED, ("debug", "hypotheses"): SUPPOSED, ("debug", "isolate"): ISOLATED, ("debug", "fix"): FIXED,
    ("research", "questions"): ASKED, ("research", "findings"): FOUND, ("research", "synthesis"): CONCLUDED,
}  # fmt: skip
FOLLOWING = {(kind, phase.name): following for kind, phases in LOOPS.items()
             for phase, following in zip(phases, [*(one.name for one in phases[1:]), ""], strict=True)}  # fmt: skip


# -- review ------------------------------------------------------------------------------------------------------------------


def test_the_author_does_not_review_the_own_work():
    own = put(CHANGE, "findings", "ada", Verdict("changes", (LOST,)))
    shut("review", "findings", own, "0 of 1 reviews by another agent")
    verdict = put(ANSWERED, "verdict", "ada", Verdict("approve", (), ("src/a.py:4",), (1,)))
    shut("review", "verdict", verdict, "no verdict on the answers by another agent")


def test_several_reviewers_are_several_agents():
    one = REVIEWED._replace(agents=2)
    assert next_phase("review", "findings", one).satisfied  # the table asks for one
    assert phase_of("review", "findings").agents == 1


def test_an_approval_looks_at_each_changed_file():
    shut("review", "findings", put(CHANGE, "findings", "bob", Verdict("approve")), "names no place")
    elsewhere = Verdict("approve", (), ("src/b.py:3",))
    shut("review", "findings", put(CHANGE, "findings", "bob", elsewhere), "names no place that was looked at")
    unchanged = Verdict("approve", (), ("src/a.py:99",))
    shut("review", "findings", put(CHANGE, "findings", "bob", unchanged), "looked at in src/a.py")
    opened("review", "findings", put(CHANGE, "findings", "bob", Verdict("approve", (), ("src/a.py:4",))), "")


def test_a_blocking_finding_has_a_place_that_exists():
    for path, line in (("src/b.py", 3), ("src/a.py", 0), ("", 0)):
        shut("review", "findings", put(CHANGE, "findings", "bob", Verdict("changes", (Finding("blocking", LOST.text, path, line),))), "no place that exists")  # fmt: skip


def test_answers_are_by_number_with_blocking_findings_first():
    assert findings_of(REVIEWED) == (LOST, TASTE)
    only_minor = put(REVIEWED, "answer", "ada", Answers((Answer(2, "declined", "It is a matter of taste."),)))
    shut("review", "answer", only_minor, "blocking finding 1 has no answer", "check has not passed")
    shut("review", "answer", ANSWERED._replace(tip_before="t2"), "no new commit")
    failed = ANSWERED._replace(commands=(CommandRun("answer", ("make",), 0, "", "t1"),))
    shut("review", "answer", failed, "check has not passed on the present commit")


def test_a_second_round_wants_new_answers_and_a_new_verdict():
    again = put(ANSWERED, "verdict", "bob", Verdict("changes", (LOST,)))
    opened("review", "verdict", again, "answer")
    shut("review", "answer", again, "answered nothing")
    later = put(again, "answer", "ada", Answers((Answer(1, "declined", "The disk has a reserve for that."),)))
    opened("review", "answer", later, "verdict")
    shut("review", "verdict", later, "no verdict on the answers")
    shut(
        "review",
        "verdict",
        put(later, "verdict", "bob", Verdict("approve")),
        "finding 1 is not called settled",
        "names no place",
    )
    opened("review", "verdict", put(later, "verdict", "bob", Verdict("approve", (), ("src/a.py:4",), (1,))), "")


def test_a_verdict_that_approves_what_blocks_is_none():
    shut(
        "review",
        "verdict",
        put(ANSWERED, "verdict", "bob", Verdict("approve", (LOST,), (), (1,))),
        "has blocking findings",
    )


# -- ideation ----------------------------------------------------------------------------------------------------------------


def test_proposals_come_from_as_many_agents_and_differ():
    two = PROPOSED._replace(artifacts=PROPOSED.artifacts[:2])
    shut("ideation", "proposals", two, "2 of 3 proposals", "2 of 3 different agents")
    opened("ideation", "proposals", two._replace(agents=2), "critiques")
    copied = put(
        two,
        "proposals",
        "cyd",
        Proposal("Another", IDEAS[0].text + " Yes."),
    )
    shut("ideation", "proposals", copied, "proposals 1 and 3 say the same")
    same = put(two, "proposals", "bob", IDEAS[2])
    shut("ideation", "proposals", same, "2 of 3 different agents")


def test_a_critique_names_a_proposal_of_another():
    own = put(
        PROPOSED,
        "critiques",
        "ada",
        Critiques(tuple(Critique(at, one.text[::-1] + one.text) for at, one in enumerate(IDEAS, 1))),
    )
    shut("ideation", "critiques", own, "proposal 1 has no critique")
    unknown = put(CRITICISED, "critiques", "cyd", Critiques((Critique(4, "It would not work under load at all."),)))
    shut("ideation", "critiques", unknown, "proposal 4, which there is not")
    shut("ideation", "critiques", Evidence(), "no proposal")


def test_a_synthesis_refers_to_each_proposal_and_takes_one():
    text = "Use the log with cursors that expire after a day, so compaction always makes progress; no leases and no polling by idle clients."
    uses = (Use(1, "left", "leases need agreeing clocks"), Use(2, "left", "cursors of dead readers"))
    shut(
        "ideation",
        "synthesis",
        put(CRITICISED, "synthesis", "cyd", Synthesis(text, uses)),
        "proposal 3 is taken or left",
        "takes nothing",
    )


# -- debug -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"exit_code": 0}, "passes"),
        ({"exit_code": None}, "time limit"),
        ({"exit_code": 127}, "could not be started"),
        ({"output": "another failure"}, "does not show the symptom"),
        ({"argv": ("pytest",)}, "has not run"),
        ({"phase": "fix"}, "has not run"),
    ],
)
def test_a_reproduction_is_a_command_that_was_seen_to_fail(changed, said):
    run = REPRODUCED.commands[0]._replace(**changed)
    shut("debug", "reproduce", REPRODUCED._replace(commands=(run,)), said)


def test_a_command_that_prints_its_own_symptom_reproduces_nothing():
    argv = ("sh", "-c", "echo KeyError: stale entry; exit 1")
    fake = put(Evidence(), "reproduce", "ada", Reproduction(argv, "KeyError: stale entry"))
    shut(
        "debug", "reproduce", fake._replace(commands=(CommandRun("reproduce", argv, 1, TRACE),)), "contains the symptom"
    )


def test_hypotheses_are_two_that_differ_with_a_test_each():
    first = Cause("The cache drops an entry while a reader holds its key.", "Hold the lock and run it.")
    for others, said in (
        ((), "1 of 2"),
        ((Cause("Two writers race on the slot.", ""),), "1 of 2"),
        ((Cause("Two writers race on the slot.", "Two writers race on the slot."),), "1 of 2"),
        (
            (Cause("The cache drops the entry while its reader holds a key.", "Run with one writer only."),),
            "same cause",
        ),
        ((Cause("Two writers race on the slot.", "Run it, and hold the lock."),), "same test"),
    ):
        shut("debug", "hypotheses", put(REPRODUCED, "hypotheses", "bob", Hypotheses((first, *others))), said)


@pytest.mark.parametrize(
    ("place", "more", "said"),
    [
        ("src/cache.py:44", {"places": ()}, "does not exist"),
        ("src/cache.py:300", {"places": (Place("src/cache.py", 300, exists=True),)}, "neither in the trace"),
        ("src/other.py:40", {"places": (Place("src/other.py", 40, exists=True),)}, "neither in the trace"),
        ("src/cache.py", {}, "no place of the form"),
        ("../cache.py:44", {}, "no place of the form"),
    ],
)
def test_an_isolated_place_exists_and_is_near_the_failure(place, more, said):
    given = put(SUPPOSED, "isolate", "bob", Isolation(place, 1, "With the lock held it passes."))
    shut("debug", "isolate", ISOLATED._replace(artifacts=given.artifacts)._replace(**more), said)


def test_an_isolated_place_may_be_in_the_diff_instead():
    given = put(SUPPOSED, "isolate", "bob", Isolation("src/other.py:7", 3, "With the lock held it passes."))
    given = given._replace(places=(Place("src/other.py", 7, exists=True),), changed=(Changed("src/other.py", 5, 9),))
    shut("debug", "isolate", given, "no hypothesis 3")
    second = given.artifacts[-1]._replace(artifact=Isolation("src/other.py:7", 2, "With the lock held it passes."))
    opened("debug", "isolate", given._replace(artifacts=(*given.artifacts[:-1], second)), "fix")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"commands": ISOLATED.commands}, "has not passed"),
        ({"commands": (*ISOLATED.commands, CommandRun("fix", COMMAND, 1, "", "t2"), CommandRun("fix", ("make",), 0, "", "t2"))}, "has not passed"),
        ({"commands": (*ISOLATED.commands, CommandRun("fix", COMMAND, 0, "", "t1"), CommandRun("fix", ("make",), 0, "", "t2"))}, "has not passed on the present"),
        ({"commands": (*ISOLATED.commands, CommandRun("fix", COMMAND, 0, "", "t1")), "tip": "t1", "oracle": ()}, "on the commit on which it failed"),
        ({"commands": (*ISOLATED.commands, CommandRun("fix", COMMAND, 0, "", "t2"))}, "the plan's check has not passed"),
        ({"changed": ()}, "nothing was changed"),
        ({"changed": (Changed("tests/test_cache.py", 1, 9),)}, "only files that the command itself names"),
    ],
)  # fmt: skip
def test_a_fix_is_the_same_command_that_passes_after_a_change(more, said):
    shut("debug", "fix", FIXED._replace(**more), said)


# -- research ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    ["", "src/claims.py", "src/claims.py:13", "see the code", "file:///etc/passwd", "https://", "javascript:alert(1)"],
)
def test_a_source_is_a_place_that_exists_or_an_address(source):
    given = FOUND._replace(
        artifacts=(
            *FOUND.artifacts[:2],
            Handed("findings", "cyd", Sources((Sourced(2, "The monotonic clock of it.", (source,)),))),
        )
    )
    shut("research", "findings", given, "finding 2: the source")


def test_findings_answer_questions_that_there_are():
    given = put(
        ASKED,
        "findings",
        "bob",
        Sources(
            (
                Sourced(7, "Readers compare the clock.", ("https://example.org/a",)),
                Sourced(1, "Readers compare it all.", ()),
            )
        ),
    )
    shut(
        "research",
        "findings",
        given,
        "question 7, which there is not",
        "finding 2 has no source",
        "question 2 has no finding",
        "1 of 2 different agents",
    )


def test_conclusions_rest_on_findings_for_their_question():
    wrong = Report(
        (Conclusion(1, "Expiry is decided by every reader.", (2, 9)), Conclusion(2, "No source answers it.", ()))
    )
    shut(
        "research",
        "synthesis",
        put(FOUND, "synthesis", "ada", wrong),
        "finding 2, which does not",
        "finding 9, which does not",
    )
    nothing = Report((Conclusion(1, "It stays quite open."), Conclusion(2, "Nobody knows about this.")))
    shut("research", "synthesis", put(FOUND, "synthesis", "ada", nothing), "no conclusion rests on a finding")


# -- one fault in each -------------------------------------------------------------------------------------------------------


def answered(*answers, **more):
    """Two blocking findings, answered by the author."""
    two = put(
        CHANGE,
        "findings",
        "bob",
        Verdict("changes", (LOST, Finding("blocking", "A reader may see half of it.", "src/a.py", 4))),
    )
    two = put(two, "answer", "ada", Answers(answers))
    return two._replace(tip="t2", commands=(CommandRun("answer", ("make",), 0, "", "t2"),), **more)


def instead(evidence, artifact):
    """Replace the last artifact."""
    return evidence._replace(artifacts=(*evidence.artifacts[:-1], evidence.artifacts[-1]._replace(artifact=artifact)))


FINE = Answer(1, "fixed", "The write is checked now.")
TEXT = JOINED.artifacts[-1].artifact.text
USES = JOINED.artifacts[-1].artifact.uses
REASON = "With the lock held it passes."


@pytest.mark.parametrize(
    ("kind", "phase", "evidence", "said"),
    [
        ("review", "findings", put(CHANGE, "findings", "bob", Verdict("changes", ())), "has no finding"),
        ("review", "findings", put(CHANGE, "findings", "bob", Verdict("changes", (Finding("minor", "TODO"),))), "finding 1 says nothing"),
        ("review", "answer", answered(FINE), "blocking finding 2 has no answer"),
        ("review", "answer", answered(Answer(1, "declined", "The task does not ask for it."), Answer(2, "declined", "The task does not ask for it.")), "same words"),
        ("review", "answer", answered(FINE, Answer(2, "fixed", "n/a")), "blocking finding 2 has no answer"),
        ("review", "verdict", put(CHANGE, "verdict", "bob", Verdict("approve", (), ("src/a.py:4",))), "no verdict on the answers"),
        ("review", "verdict", put(ANSWERED, "verdict", "bob", Verdict("changes", ())), "has no finding"),
        ("ideation", "critiques", put(CRITICISED, "critiques", "cyd", Critiques((Critique(1, "Leases are slow and costly."), Critique(2, "Leases are costly and slow.")))),
         "two critiques of cyd"),
        ("ideation", "critiques", instead(CRITICISED, Critiques((Critique(1, "It is bad."),))), "proposal 1 has no critique of substance"),
        ("ideation", "critiques", instead(CRITICISED, Critiques((Critique(2, "Leases need clocks that agree, which laptops do not have."),))), "proposal 1 has no critique"),
        ("ideation", "synthesis", instead(JOINED, Synthesis("Use the log.", USES)), "no synthesis of substance"),
        ("ideation", "synthesis", instead(JOINED, Synthesis(TEXT, (*USES, Use(4, "taken", "it fits well here")))), "names proposal 4"),
        ("ideation", "synthesis", instead(JOINED, Synthesis(TEXT, (*USES[:2], Use(3, "left", "leases need agreeing clocks")))), "the same reason"),
        ("debug", "reproduce", instead(REPRODUCED, Reproduction(COMMAND, " : ")), "does not show the symptom"),
        ("debug", "hypotheses", instead(SUPPOSED, Hypotheses((Cause("The", "Hold the lock and run it."), Cause("Two writers race on it.", "Run with one writer.")))), "1 of 2"),
        ("debug", "hypotheses", instead(SUPPOSED, Hypotheses((Cause("cache broken", "Hold the lock and run it."), Cause("Two writers race on it.", "Run with one writer.")))), "1 of 2"),
        ("debug", "hypotheses", instead(SUPPOSED, Hypotheses((Cause("The cache drops held entries.", "run tests"), Cause("Two writers race on it.", "Run with one writer.")))), "1 of 2"),
        ("review", "answer", ANSWERED._replace(commands=(CommandRun("answer", ("make",), 1, "", "t2"),)), "check has not passed"),
        ("review", "findings", put(CHANGE._replace(changed=(*CHANGE.changed, Changed("src/b.py", 1, 9))), "findings", "bob",
                                   Verdict("approve", (), ("src/a.py:4", "src/b.py:3"))), "looked at in src/b.py"),
        ("research", "findings", Evidence(artifacts=(Handed("findings", "bob", Sources(())), Handed("findings", "cyd", Sources(())))), "there is no question"),
        ("debug", "isolate", instead(ISOLATED, Isolation("src/cache.py:44", 1, "TODO")), "how the place was found"),
        ("debug", "isolate", ISOLATED._replace(artifacts=(ISOLATED.artifacts[1], ISOLATED.artifacts[2])), "neither in the trace"),
        ("debug", "fix", instead(FIXED, Repair("done")), "what was repaired"),
        ("debug", "fix", FIXED._replace(commands=(REPRODUCED.commands[0]._replace(exit_code=0), *FIXED.commands[1:])), "no command that failed"),
        ("debug", "fix", FIXED._replace(commands=(*FIXED.commands[:2], CommandRun("fix", ("make",), 0, "", "t1"))), "check has not passed on the present"),
        ("research", "findings", instead(FOUND, Sources((Sourced(2, "TODO", ("https://example.org/a",)),))), "finding 2 claims nothing"),
        ("research", "findings", Evidence(artifacts=FOUND.artifacts[1:], places=FOUND.places), "question 1, which there is not"),
        ("research", "synthesis", instead(CONCLUDED, Report((Conclusion(1, "Every reader decides it.", (1,)),))), "question 2 has no conclusion"),
        ("research", "synthesis", instead(CONCLUDED, Report((Conclusion(1, "…", (1,)), Conclusion(2, "The host's clock decides.", (2,))))), "on question 1 says nothing"),
        ("research", "synthesis", instead(CONCLUDED, Report((Conclusion(1, "The host decides it.", (1,)), Conclusion(2, "It decides: the host.", (2,))))), "two conclusions say the same"),
    ],
)  # fmt: skip
def test_one_fault_shuts_a_gate(kind, phase, evidence, said):
    shut(kind, phase, evidence, said)


def test_a_finding_may_be_declined_without_a_commit():
    kept = instead(ANSWERED, Answers((Answer(1, "declined", "The disk has a reserve for that."),)))._replace(
        tip_before="t2"
    )
    opened("review", "answer", kept, "verdict")


def test_the_own_review_of_an_author_asks_for_nothing():
    own = Verdict("changes", (Finding("blocking", "I would do it otherwise.", "src/a.py", 4),) * 2)
    assert findings_of(put(REVIEWED, "verdict", "ada", own)) == (LOST, TASTE)
    assert findings_of(put(REVIEWED, "verdict", "bob", own)) == own.findings
    assert findings_of(put(REVIEWED, "findings", "bob", Verdict("approve", (TASTE,)))) == (LOST, TASTE, TASTE)


def test_an_approval_after_a_refusal_leaves_its_findings_to_be_answered():
    assert findings_of(put(REVIEWED, "verdict", "bob", Verdict("approve", (TASTE,)))) == (LOST, TASTE)


def test_a_fix_may_be_elsewhere_than_the_isolated_place():
    opened("debug", "fix", FIXED._replace(changed=(Changed("src/other.py", 1, 9),)), "")


def test_a_fault_in_the_test_itself_may_be_fixed_there():
    """The command names the only changed file, and the cause was isolated in it."""
    cause = Isolation("tests/test_cache.py:5", 1, REASON)
    artifacts = tuple(one._replace(artifact=cause) if one.phase == "isolate" else one for one in FIXED.artifacts)
    here = FIXED._replace(artifacts=artifacts, changed=(Changed("tests/test_cache.py", 1, 9),))
    opened("debug", "fix", here, "")
    whole = ("pytest", "tests/test_cache.py")
    shut("debug", "fix", FIXED._replace(
        artifacts=tuple(one._replace(artifact=Reproduction(whole, "KeyError: stale entry")) if one.phase == "reproduce" else one for one in FIXED.artifacts),
        commands=(CommandRun("reproduce", whole, 1, TRACE, "t1"), CommandRun("fix", whole, 0, "", "t2"), FIXED.commands[-1]),
        changed=(Changed("tests/test_cache.py", 1, 9),)), "only files that the command itself names")  # fmt: skip


# -- artifacts ---------------------------------------------------------------------------------------------------------------


@ALL
def test_an_artifact_is_what_an_agent_wrote_and_nothing_else(kind, phase):
    artifact = next(one.artifact for one in GOOD[kind, phase.name].artifacts if one.phase == phase.name)
    text = msgspec.json.encode(artifact).decode()
    assert parse_artifact(text, phase.artifact) == artifact
    for wrong in ("", " ", "[]", "{}", "null", text[:-1], "[" * 50_000, '{"text": 1}'):
        with pytest.raises(FormatError, match="artifact"):
            parse_artifact(wrong, phase.artifact)


def test_long_lists_and_texts_are_refused():
    with pytest.raises(FormatError):
        parse_artifact(json.dumps({"questions": ["a"] * 101}), Questions)
    with pytest.raises(FormatError):
        parse_artifact(json.dumps({"reason": "a" * 20_001}), Repair)


def test_a_review_comes_from_a_result_with_its_verdict():
    result = Result(
        run="r",
        status="done",
        verdict="changes",
        findings=(LOST,),
        artifact='{"examined": ["src/a.py:4"], "settled": [2]}',
    )
    assert review_of(result) == Verdict("changes", (LOST,), ("src/a.py:4",), (2,))
    assert named_places(review_of(result)) == (("src/a.py", 4),)
    assert review_of(Result(run="r", status="done", verdict="approve")).examined == ()
    with pytest.raises(FormatError, match="verdict"):
        review_of(Result(run="r", status="done"))
    with pytest.raises(FormatError, match="artifact"):
        review_of(Result(run="r", status="done", verdict="approve", artifact="looked at it"))


def test_the_supervisor_learns_what_to_look_at_and_to_run():
    assert named_places(FOUND.artifacts[1].artifact) == (("src/claims.py", 12),)
    assert named_places(FOUND.artifacts[2].artifact) == ()
    assert named_places(ISOLATED.artifacts[-1].artifact) == (("src/cache.py", 44),)
    assert named_command(REPRODUCED.artifacts[0].artifact) == COMMAND
    assert named_command(FIXED.artifacts[-1].artifact) == ()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("src/a.py:3", ("src/a.py", 3)), ("./src/a.py:3:9", ("src/a.py", 3)), ("src/a.py:3-9", ("src/a.py", 3)), ("a b.py:1", ("a b.py", 1)),
        ("src/a.py", None), ("src/a.py:0", None), ("/etc/passwd:1", None), ("../a.py:1", None), (".git/config:1", None), ("a\nb:1", None), (":3", None),
    ],
)  # fmt: skip
def test_a_place_is_a_path_in_the_repository_and_a_line(text, place):
    assert parse_place(text) == place


@given(st.text(max_size=40))
def test_any_text_is_a_place_or_none_and_an_address_or_none(text):
    place = parse_place(text)
    assert place is None or (not place[0].startswith("/") and place[1] > 0)
    assert isinstance(is_url(text), bool)
    trace_places(text)


# -- material ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "phase", "evidence", "said"),
    [
        ("review", "answer", REVIEWED, ["1. [blocking] src/a.py:4: A write", "2. [minor]"]),
        ("review", "verdict", ANSWERED, ["1. [blocking]", "1. fixed: The write is checked now."]),
        ("ideation", "critiques", PROPOSED, ["1. A queue", "2. A log", "3. Polling"]),
        ("ideation", "synthesis", CRITICISED, ["3. Polling", "of proposal 1: Leases need clocks"]),
        ("debug", "hypotheses", REPRODUCED, ["pytest -q tests/test_cache.py::test_stale", "KeyError: stale entry"]),
        ("debug", "isolate", SUPPOSED, ["exit code 1", "2. Two writers race on the same slot. Test: Run"]),
        ("debug", "fix", ISOLATED, ["src/cache.py:44 (hypothesis 1)", "exit code 1"]),
        ("research", "findings", ASKED, ["2. Which clock decides"]),
        (
            "research",
            "synthesis",
            FOUND,
            ["1. How are", "2. on question 2: The monotonic clock of the host. (https://docs"],
        ),
    ],
)
def test_a_phase_is_given_what_its_artifact_refers_to(kind, phase, evidence, said):
    text = material_for(kind, phase, evidence)
    assert [words for words in said if words not in text] == []
    assert material_for(kind, phase, Evidence()) == ""


def test_a_first_phase_and_the_own_proposal_are_not_shown():
    assert [material_for(kind, phases[0].name, GOOD[kind, phases[0].name]) for kind, phases in LOOPS.items()] == [
        ""
    ] * 4
    text = material_for("ideation", "critiques", PROPOSED, "bob")
    assert "2. A log" not in text
    assert "3. Polling" in text
    assert "2. A log" in material_for("ideation", "synthesis", PROPOSED, "bob")
    with pytest.raises(UsageError):
        material_for("ideation", "fix", PROPOSED)


# -- traces and substance ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    ['  File "/w/src/a.py", line 12, in f', "src/a.py:12: AssertionError", "  --> src/a.py:12:5", "    at f (/w/src/a.py:12:7)", "./src/a.py:12", "at x.Y(a.py:12)",
     "src/a.py(12): error C2065", "[src/a.py:12] failed"],
)  # fmt: skip
def test_traces_of_many_tools_are_read(line):
    output = f"noise\n{line}\nmore: 3"
    assert is_in_trace(output, "src/a.py", 12)
    assert is_in_trace(output, "src/a.py", 30)
    assert not is_in_trace(output, "src/a.py", 40)
    assert not is_in_trace(output, "src/b.py", 12)
    assert not is_in_trace(output, "rc/a.py", 12) or "src" not in line


def test_a_long_output_without_a_trace_is_read_once():
    assert trace_places("x" * 1_000_000 + "\n" + "a:" * 100_000) == frozenset()


@pytest.mark.parametrize("text", PADDING, ids=range(len(PADDING)))
def test_padding_has_no_substance(text):
    assert not has_substance(text)


def test_texts_are_alike_by_their_words():
    assert are_alike("The lock is not held.", "the LOCK, held: not!")
    assert not are_alike("How are claims expired?", "How are claims expired when clocks jump backwards?")
    assert are_alike(IDEAS[0].text, IDEAS[0].text + " And much more could be said about this, with other words.")
    assert has_substance("キャッシュが古い")
    assert len(distinct_words("a " * 1_000_000)) == 0
