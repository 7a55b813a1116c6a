"""What sessions teach: the rules, on acts and on imported sessions; what bounds them; the real transcripts."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interop_support import KEY, SHARED, Objects
from periplus.base.errors import UsageError
from periplus.base.text.secrets import find_secrets
from periplus.interop import import_transcripts
from periplus.memory.reflection.command_rules import pieces
from periplus.memory.reflection.proposal import Act, Proposal, Seen, SessionActs
from periplus.memory.reflection.reflect import (
    ABOUT_MAX,
    CONFIDENCE_MIN,
    OF_A_SESSION_MAX,
    QUOTE_CHARACTERS_MAX,
    SEEN_MAX,
    TEXT_CHARACTERS_MAX,
    WHY_CHARACTERS_MAX,
    acts_of_trail,
    bounded,
    reflect,
)
from reflect_support import session

REFUSED = "ConnectionError: redis at localhost:6379 refused"
NO_REDIS = f"E   {REFUSED}"


def acts(trail, *events, by_person=True):
    """A session of acts, as ``reflect_support.session`` names events."""
    found = []
    for step, (kind, text, *rest) in enumerate(events):
        if kind in ("run", "test"):
            error = rest[0] if rest else ""
            found.append(Act(step, "test" if kind == "test" else "command", text, "failed" if error else "ok", error))
        else:
            found.append(Act(step, "change" if kind == "edit" else kind, text))
    return SessionActs(trail, tuple(found), by_person)


def test_what_failed_and_passed_after_a_change_is_a_lesson():
    (one,) = reflect([acts(
        "trl_a", ("prompt", "Make it work"), ("run", "make docs 2>&1", "docs/cli.md is out of date\nmake: *** [docs] Error 1"),
        ("edit", "docs/cli.md"), ("run", "make docs"),
    )])  # fmt: skip
    assert (one.rule, one.item_type) == ("failed-then-passed", "lesson")
    assert one.text == '`make docs` fails with "make: *** [docs] Error 1"; it passed once docs/cli.md had been changed.'
    assert one.about == ("docs/cli.md",)
    assert [(seen.trail, seen.step) for seen in one.seen] == [("trl_a", 1), ("trl_a", 3)]
    assert one.why == "it failed and passed later in the same session"
    assert CONFIDENCE_MIN <= one.confidence < 60


def test_what_a_setup_mended_names_the_command():
    (one,) = reflect([acts("trl_a", ("test", "pytest -q", "E   ModuleNotFoundError: No module named 'yaml'"),
                           ("run", "pip install -e ."), ("test", "cd /home/ada/engine && pytest -q"))])  # fmt: skip
    assert one.text.endswith("No module named 'yaml'\"; it passes after `pip install -e .`.")
    assert one.confidence == 65


def test_another_command_that_works_is_the_lesson():
    (one,) = reflect([acts("trl_a", ("run", "pytest -q tests", "bash: pytest: command not found"), ("run", "ls"),
                           ("run", "python -m pytest -q tests"))])  # fmt: skip
    assert (
        one.text == '`pytest -q tests` fails with "bash: pytest: command not found"; `python -m pytest -q tests` works.'
    )


def test_many_attempts_make_a_trap_with_a_remedy():
    tries = [one for _ in range(4) for one in (("test", "make test", NO_REDIS), ("edit", "src/cache.py"))]
    (one,) = reflect([acts("trl_a", *tries, ("edit", "compose.yaml"), ("test", "make test"))])
    assert (one.item_type, one.text) == ("trap", f'`make test` fails with "{REFUSED}".')
    assert one.remedy == "It passed once compose.yaml had been changed."
    assert one.why == "it failed 4 times and passed later in the same session"


@pytest.mark.parametrize(
    ("why", "events"),
    [
        ("it never passed", [("run", "make", "error: no rule"), ("edit", "Makefile")]),
        ("looking around fails often", [("run", "ls lib/ai", "ls: cannot access 'lib/ai'"), ("edit", "a"), ("run", "ls lib/ai")]),
        ("nothing was changed: chance", [("run", "make", "error: timed out"), ("run", "make")]),
        ("the session mended what it had just broken",
         [("edit", "a.py"), ("test", "pytest", "E  NameError: a"), ("edit", "a.py"), ("test", "pytest")]),
        ("a pipe says nothing of what feeds it",
         [("run", "make docs", "error: old"), ("edit", "docs/a.md"), ("run", "make docs | tail -5")]),
        ("it says nothing of what is wrong", [("run", "make docs", " \n"), ("edit", "docs/a.md"), ("run", "make docs")]),
        ("another program, not another way to call it",
         [("run", "cargo fmt", "error: no such command: `fmt`"), ("run", "cargo add serde")]),
    ],
)  # fmt: skip
def test_what_teaches_nothing_is_not_proposed(why, events):
    assert reflect([acts("trl_a", *events)]) == [], why


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("error[E0308]: mismatched types\nerror: could not compile `sea` (bin) due to 1 previous error", "error[E0308]: mismatched types"),
        ("--- FAIL: TestSum (0.00s)\n    sum_test.go:10: want 3\nFAIL\nFAIL\tsea/sum\t0.002s", "--- FAIL: TestSum (0.00s)"),
        ("FAILED t.py::test_b - KeyError: 'sea'\n== 1 failed, 2 passed in 0.12s ==", "FAILED t.py::test_b - KeyError: 'sea'"),
        ("AssertionError: 1 != 2\n\nRan 1 test in 0.0s\n\nFAILED (failures=1)", "AssertionError: 1 != 2"),
        ("a.c:3:5: error: expected ;\nmake: *** [Makefile:2: a.o] Error 1", "a.c:3:5: error: expected ;"),
        ("a.py:3: error: Incompatible types\nFound 1 error in 1 file (checked 9 source files)", "a.py:3: error: Incompatible types"),
        ("Error: listen EADDRINUSE\nnpm ERR! A complete log of this run can be found in: x", "Error: listen EADDRINUSE"),
        ("1 failed in 0.1s", "1 failed in 0.1s"),
    ],
)  # fmt: skip
def test_a_lesson_names_the_line_that_says_what_failed(error, told):
    (one,) = reflect(
        [acts("trl_a", ("prompt", "go"), ("run", "make sea", error), ("edit", "sea.py"), ("run", "make sea"))]
    )
    assert f'`make sea` fails with "{told}"; ' in one.text


@pytest.mark.parametrize(
    "error",
    [
        "Error: cannot find the module hooks.gate " + "which the harbour needs " * 20,
        "the harbour is open and " * 20 + "error: hooks.gate is missing",
        "noise of the harbour\n" * 94 + "Error: the hooks.gate is missing in the harbour of the sea",
        "/sea" * 60 + " fatal: hooks.gate is missing",
    ],
)
def test_a_lesson_has_whole_words(error):
    cut = error[:2_000]
    (one,) = reflect(
        [acts("trl_a", ("prompt", "go"), ("run", "make sea", cut), ("edit", "sea.py"), ("run", "make sea"))]
    )
    told = one.text.partition('fails with "')[2].partition('";')[0]
    assert len(told) <= 140
    assert {*told.replace("…", " ").split()} <= {*error.split()}


def test_the_end_of_a_long_output_is_kept_and_names_what_failed(tmp_path):
    noise = "\n".join(f"compiling the harbour, part {number} of all" for number in range(400))
    error = f"{noise}\nerror: hooks.gate is missing\nmake: *** [sea] Error 1"
    path = session(
        tmp_path / "s.jsonl", ("prompt", "go"), ("run", "make sea", error), ("edit", "sea.py"), ("run", "make sea")
    )
    (one,) = reflect(imported(path, Objects()))
    assert '"error: hooks.gate is missing"' in one.text


def test_the_same_failure_in_several_sessions_is_a_trap():
    first = acts(
        "trl_a", ("test", "make test", f"took 12 s\n{NO_REDIS}"), ("run", "docker compose up -d"), ("test", "make test")
    )
    second = acts("trl_b", ("test", "make test", f"took 31 s\n{NO_REDIS}"))
    third = acts("trl_c", ("test", "make test", NO_REDIS.replace("6379", "6380")))
    (one,) = reflect([second], [first])
    assert (one.rule, one.item_type) == ("failed-again", "trap")
    assert one.why == "it failed so 2 times in 2 sessions"
    assert one.remedy == "It passes after `docker compose up -d`."
    assert [seen.trail for seen in one.seen] == ["trl_b", "trl_a"]
    (more,) = reflect([third], [first, second])
    assert (more.subject, more.confidence) == (one.subject, one.confidence + 10)
    assert reflect([acts("trl_d", ("say", "Nothing to do"))], [first, second]) == []


@pytest.mark.parametrize(
    ("said", "confidence"),
    [
        ("Always run the linter before you commit.", 75), ("never log the customer's address", 75),
        ("no, never write to the global cache in tests", 75), ("From now on the tests run in a container", 75),
        ("We should always pass a valid checkpoint id", 70), ("use GitTemporaryDirectory instead of TemporaryDirectory", 60),
        ("No, use pnpm, not npm", 60), ("don't mock the client, use the recorded answers", 60),
        ("Please don't add dependencies without asking", 50), ("we don't commit the generated files", 65),
        ("Bitte immer deutsche Texte verwenden", 75), ("Verwende pnpm statt npm", 60), ("Utilise pnpm au lieu de npm", 60),
        ("Usa pnpm en lugar de npm", 60),
    ],
)  # fmt: skip
def test_a_correction_is_a_constraint_in_the_persons_words(said, confidence):
    (one,) = reflect(
        [acts("trl_a", ("prompt", "Start"), ("edit", "src/a.py"), ("say", "Done"), ("prompt", f"Thanks. {said}"))]
    )
    assert (one.rule, one.item_type, one.text, one.confidence) == ("correction", "constraint", said, confidence)
    assert one.seen == (Seen("trl_a", 3, said),)
    assert one.why == "a person said so after the agent had changed src/a.py"
    assert one.about == ("src/a.py",)


@pytest.mark.parametrize(
    "said",
    [
        "does it always do that?", "don't commit yet", "no, i mean for processing inside the image", "never mind", "don't do that",
        "it always fails for me", "I don't think so", "use them in models.py", "don't change anything, just let me know",
        "don't modify `send_with_retries`", "don't use --no-git in those tests", "can we use checkpointID instead of cpID in session.go?",
        "```\nnever do this\n```", "Operation stopped by hook: never use two sessions", "/always-on", "why do we never see the error",
        "x" * 3000 + ". Always say why.", "Use the key [masked:aws-access-key] instead of the old one", "we don't have `Entire-Session` anymore",
        "don't worry about the tests", "<command-name>always</command-name> use it instead of that",
    ],
)  # fmt: skip
def test_what_is_no_rule_for_later_is_not_proposed(said):
    assert reflect([acts("trl_a", ("prompt", "Start"), ("say", "Done"), ("prompt", said))]) == []


def test_a_first_prompt_is_a_task_and_an_agents_prompt_is_no_persons():
    said = ("prompt", "Always run the linter before you commit.")
    assert reflect([acts("trl_a", said, ("say", "Yes"))]) == []
    assert reflect([acts("trl_a", ("prompt", "Start"), said)]) == []
    assert reflect([acts("trl_a", ("prompt", "Start"), ("say", "Yes"), said, by_person=False)]) == []


def test_a_correction_that_comes_again_is_surer():
    made = [
        acts(f"trl_{n}", ("prompt", "Go"), ("say", "Done"), ("prompt", "Don't add  emojis to logs")) for n in range(3)
    ]
    (one,) = reflect(made[:1])
    (more,) = reflect(made[2:], made[:2])
    assert (one.subject, one.confidence, more.confidence) == (more.subject, 50, 80)
    assert more.why == "a person said so in 3 sessions, the last time after the agent had answered"


def test_what_sessions_run_every_time_is_a_lesson():
    made = [acts(f"trl_{n}", ("test", f"cd /x && make test{' | tail' * (n % 2)}"), ("run", "make lint && make fmt"),
                 ("test", f"pytest tests/test_{n}.py"), ("run", "ls"), ("run", "git commit -m 'build'")) for n in range(4)]  # fmt: skip
    (one,) = reflect(made)
    assert (one.rule, one.item_type) == ("routine", "lesson")
    assert one.text == "What sessions run here: test with `make test`; lint with `make lint`; format with `make fmt`."
    assert one.why == "4 of 4 sessions ran the most usual of them"
    assert reflect(made[:2]) == []
    failing = [one._replace(acts=tuple(act._replace(outcome="failed") for act in one.acts)) for one in made]
    assert reflect(failing) == []


def test_a_session_has_a_few_proposals_the_surest_first():
    rules = [("prompt", f"Never let module {name} import the faces") for name in "abcdefgh"]
    events = [one for rule in rules for one in (("say", "Done"), rule)]
    found = reflect([acts("trl_a", ("prompt", "Go"), *events, ("say", "Done"), ("prompt", "don't add emojis to logs"))])
    assert len(found) == OF_A_SESSION_MAX
    assert {one.confidence for one in found} == {75}


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("cd a && FOO=1 make test 2>&1 | tail -20", [("make test", True)]),
        ("a; b || c\nd &", [("a", False), ("b", False), ("c", False), ("d", False)]),
        ("echo 'a && b | c' > out.txt", [("echo 'a && b | c'", False)]),
        ("", []), ("|", []), ("'", [("'", False)]),
    ],
)  # fmt: skip
def test_a_line_of_shell_is_taken_apart(command, found):
    assert [tuple(piece) for piece in pieces(command)] == found


def test_what_a_proposal_holds_is_bounded_and_without_secrets():
    key = "AKIA" + "IOSFODNN7ABCDEFG"
    long = f"use {key} " * 300
    one = bounded(Proposal("model", "trap", ("a" * 9999, *"bcdefgh"), long, long, tuple(Seen("trl_a", n, long) for n in range(99)), 50,
                           tuple(f"src/{n}.py" for n in range(99)), long))  # fmt: skip
    texts = [one.text, one.why, one.remedy, *(seen.quote for seen in one.seen)]
    assert not any(find_secrets(text) or key in text for text in texts)
    assert len(one.text) <= TEXT_CHARACTERS_MAX
    assert len(one.why) <= WHY_CHARACTERS_MAX
    assert len(one.seen) == SEEN_MAX
    assert len(one.about) == ABOUT_MAX
    assert all(len(part) <= QUOTE_CHARACTERS_MAX for part in one.subject)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"item_type": "decision"}, "type 'decision'"), ({"text": "  "}, "needs"), ({"why": ""}, "needs"), ({"seen": ()}, "needs"),
        ({"subject": ()}, "needs"), ({"rule": ""}, "needs"), ({"confidence": 101}, "101"),
    ],
)  # fmt: skip
def test_what_is_no_proposal_is_refused(change, wrong):
    one = Proposal("model", "trap", ("a",), "Beware", "It was seen", (Seen("trl_a", 0),), 50)
    assert bounded(one) == one
    with pytest.raises(UsageError, match=wrong):
        bounded(one._replace(**change))


_WORDS = st.text(st.sampled_from("ab 'never`don\"t use|&;\n<>[.?!é日/"), max_size=60)
_ACTS = st.builds(
    Act, st.integers(0, 99), st.sampled_from(["prompt", "say", "command", "test", "change", "other"]), _WORDS,
    st.sampled_from(["ok", "failed", "denied", "cancelled", "unknown"]), _WORDS,
)  # fmt: skip


@pytest.mark.slow
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(_ACTS, max_size=12), max_size=4))
def test_whatever_sessions_hold_proposals_are_in_bounds_and_the_same_again(found):
    made = [SessionActs(f"trl_{n}", tuple(one)) for n, one in enumerate(found)]
    proposals = reflect(made[:1], made[1:])
    assert proposals == reflect(made[:1], made[1:])
    assert len({one.subject for one in proposals}) == len(proposals)
    for one in proposals:
        assert bounded(one) == one
        assert all(seen.trail in {each.trail for each in made} for seen in one.seen)


def imported(path, objects):
    """The sessions of a file as reflection sees them; what cannot be imported gives none."""
    try:
        found = list(import_transcripts(os.fspath(path), trail_key=KEY, put_object=objects.put))
    except UsageError:
        return []
    waiting, made = [(one, "") for one in found], []
    while waiting:
        one, parent = waiting.pop()
        digest = objects.put(one.trail)
        card = {"object": digest.hex(), "cwd": one.cwd or "", **({"parent": parent} if parent else {})}
        made.append(
            acts_of_trail(
                SimpleNamespace(item_id=f"trl_{one.trail_digest.hex()[:16]}", value=card), objects.__getitem__
            )
        )
        waiting += [(child, "a session") for child in one.children]
    return made


def test_an_imported_session_teaches(tmp_path):
    path = session(
        tmp_path / "one.jsonl", ("prompt", "Make the docs"), ("run", "make docs", "error: docs/cli.md is out of date"), ("edit", "docs/cli.md"),
        ("run", "make docs"), ("say", "Made."), ("prompt", "<ide_opened_file>a.md</ide_opened_file>\nNever edit the docs by hand again."),
        ("refused", "rm -rf build", "never delete the build folder, it takes an hour"),
    )  # fmt: skip
    found = reflect(imported(path, Objects()))
    assert [(one.rule, one.text) for one in found] == [
        ("correction", "Never edit the docs by hand again."),
        ("correction", "never delete the build folder, it takes an hour"),
        ("failed-then-passed", '`make docs` fails with "error: docs/cli.md is out of date"; it passed once docs/cli.md had been changed.'),
    ]  # fmt: skip
    assert found[1].why == "a person said so after the agent had run `rm -rf build`"


def test_a_failure_of_the_network_teaches_nothing(tmp_path):
    path = session(
        tmp_path / "one.jsonl", ("prompt", "Make the docs"), ("run", "make docs", "fatal: could not read Username for 'https://example.org'"),
        ("edit", "docs/cli.md"), ("run", "make docs"), ("say", "Made."),
    )  # fmt: skip
    assert reflect(imported(path, Objects())) == []


def test_the_real_transcripts_give_few_and_good_ones():
    """What the rules find in all transcripts beside the repository; each was read, see docs/decisions/0049-reflection.md."""
    if not SHARED.is_dir():
        pytest.skip(f"real transcripts are not beside the repository: no folder {SHARED}")
    objects = Objects()
    sessions, found = 0, []
    for folder in sorted(SHARED.iterdir()):
        made = {}
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix in (".jsonl", ".json", ".md", ".traj", ".eval"):
                made |= {one.trail: one for one in imported(path, objects)}
        sessions += len(made)
        found += reflect(list(made.values()))
    assert sessions > 200
    assert sorted((one.rule, one.text) for one in found) == [
        ("correction", "but don't assume english as a fallback, just omit the language info."),
        ("correction", "don't use `IgnorantTemporaryDirectory` use GitTemporaryDirectory"),
        ("correction", "no, don't mock completion. mock the httpx library which completion uses to actually make the http request"),
        ("failed-then-passed", '`mise run test:integration` fails with "FAIL entire.io/cli/cmd/entire/cli/integration_test 15.000s"; it passed once cmd/entire/cli/strategy/manual_commit_hooks.go had been changed.'),
        ("routine", "What sessions run here: test with `go test ./...`; lint with `golangci-lint run`."),
    ]  # fmt: skip
