"""Hooks: the table of seams, how several make one decision, what happens to one that raises, and the contract on each that is shipped."""

from __future__ import annotations

import importlib
import itertools

import pytest
from hypothesis import Phase

from agent_hook_contract import check_hook, check_restore
from agent_support import Bench
from periplus.agent.contracts import Continue, Message, Stop, ToolCall, ToolDecision, ToolResult, Usage
from periplus.agent.episodes import HookFailed, Resulted
from periplus.agent.events import HookRaised
from periplus.agent.hooks import SEAMS, Composite, Functions, Hook
from periplus.agent.models.scripted import answer, call
from periplus.agent.policies.budget import Budget
from periplus.agent.policies.guardrail import Guardrail
from periplus.agent.policies.oracle import NullOracle, OraclePolicy
from periplus.agent.policies.permission import MODES, Permission, parse_rule
from periplus.agent.policies.selfcheck import SelfCheck
from periplus.base.errors import PeriplusError, UsageError

CALL = ToolCall(id="1", name="shell", args={"command": "make", "deep": {"list": [1]}})
RESULT = ToolResult(outcome="ok", output="fine")
VALUES = {
    "reset_for_turn": (),
    "before_step": (1,),
    "prepare_messages": ((Message(role="user", content="hello"),),),
    "record_step_usage": (Usage(),),
    "authorize_tool": ("shell", {"command": "make"}),
    "transform_tool_result": (CALL, RESULT),
    "after_step": (1, Usage(), None),
    "should_continue_after_stop": (Stop(reason="done"),),
}


def functions(name="rule", **seams):
    return Functions(name, seams)


def raising(*_):
    raise RuntimeError("broken")


def test_the_table_is_the_specifications():
    policy = {name for name, seam in SEAMS.items() if seam.is_policy}
    assert policy == {"before_step", "authorize_tool", "record_step_usage", "prepare_messages", "transform_tool_result"}
    assert set(SEAMS) - policy == {"after_step", "should_continue_after_stop", "reset_for_turn"}
    assert all(callable(getattr(Hook, name)) for name in SEAMS)
    assert set(VALUES) == set(SEAMS)


@pytest.mark.parametrize("seam", SEAMS)
def test_a_hook_that_does_nothing_decides_nothing(seam):
    given_back = getattr(Composite([Hook()]), seam)(*VALUES[seam])
    expected = {"authorize_tool": ToolDecision(allow=True), "prepare_messages": VALUES["prepare_messages"][0],
                "transform_tool_result": RESULT}  # fmt: skip
    assert given_back == expected.get(seam)
    assert getattr(Composite(), seam)(*VALUES[seam]) == expected.get(seam)


@pytest.mark.parametrize(
    ("wrong", "meant"), [("before_stepp", "before_step"), ("authorise_tool", "authorize_tool"), ("zzz", "")]
)
def test_a_name_that_is_no_seam_fails_at_registration(wrong, meant):
    with pytest.raises(UsageError, match=f"{wrong} is not a seam") as caught:
        Functions("mine", {wrong: print})
    assert ("Did you mean" in caught.value.mend) == bool(meant)
    assert meant in caught.value.mend
    kind = type("Mine", (Hook,), {wrong: lambda self: None})
    with pytest.raises(UsageError, match=f"Mine: {wrong} is not a seam"):
        Composite([kind()])
    Composite([type("Mine", (Hook,), {wrong: lambda self: None, "also": frozenset({wrong})})()])


def test_what_has_no_seam_is_no_hook():
    with pytest.raises(UsageError, match="object is not a hook"):
        Composite([object()])


def test_an_object_with_a_seam_is_a_hook():
    class Plain:
        name = "plain"

        def before_step(self, step):
            return Stop(reason="stuck", note="no")

    assert Composite([Plain()]).before_step(1).note == "no"


# -- how several decide


def test_the_first_block_wins_and_later_ones_are_not_asked():
    asked = []
    hooks = [
        functions(before_step=lambda step: asked.append(1)),
        functions(before_step=lambda step: asked.append(2) or Stop(reason="budget")),
        functions(before_step=lambda step: asked.append(3) or Stop(reason="stuck")),
    ]
    assert Composite(hooks).before_step(1).reason == "budget"
    assert asked == [1, 2]


YES, NO, ASK, NONE = (
    ToolDecision(allow=True),
    ToolDecision(allow=False, reason="no"),
    ToolDecision(allow=False, ask=True),
    None,
)


@pytest.mark.parametrize("decisions", list(itertools.product([YES, NO, ASK, NONE], repeat=3)))
def test_a_denial_wins_over_asking_and_asking_over_allowing(decisions):
    hooks = [functions(authorize_tool=lambda name, args, one=one: one) for one in decisions]
    found = Composite(hooks).authorize_tool("shell", {})
    assert found == (NO if NO in decisions else ASK if ASK in decisions else YES)


@pytest.mark.parametrize("seam", ["record_step_usage", "after_step"])
@pytest.mark.parametrize("stops", list(itertools.product([False, True], repeat=3)))
def test_every_one_runs_before_the_verdict_and_any_stop_stops(seam, stops):
    ran = []

    def hook(place, stop):
        return functions(
            **{seam: lambda *_: ran.append(place) or (Stop(reason="stuck", note=str(place)) if stop else None)}
        )

    found = getattr(Composite([hook(place, stop) for place, stop in enumerate(stops)]), seam)(*VALUES[seam])
    assert ran == [0, 1, 2]
    assert (found.note if found else None) == (str(stops.index(True)) if True in stops else None)


def test_the_first_continuation_wins_and_bears_its_name():
    hooks = [functions(), functions("a", should_continue_after_stop=lambda stop: Continue(feedback="A")),
             functions("b", should_continue_after_stop=raising)]  # fmt: skip
    assert Composite(hooks).should_continue_after_stop(Stop(reason="done")) == Continue(feedback="A", source="a")


def test_what_changes_values_is_a_chain():
    def add(text):
        return functions(
            prepare_messages=lambda messages: [*messages, Message(role="user", content=text)],
            transform_tool_result=lambda wanted, result: ToolResult(outcome="ok", output=result.output + text),
        )

    both = Composite([add("1"), functions(), add("2")])
    assert [message.content for message in both.prepare_messages([])] == ["1", "2"]
    assert both.transform_tool_result(CALL, RESULT).output == "fine12"


# -- what raises


@pytest.mark.parametrize("seam", SEAMS)
@pytest.mark.parametrize("broken", [raising, lambda *_: "nonsense", lambda *_: 7, lambda *_: True])
def test_policy_fails_closed_and_observing_fails_open(seam, broken):
    failures = []
    hooks = Composite([functions("mine", **{seam: broken})], failures.append)
    if seam == "prepare_messages":
        with pytest.raises(PeriplusError, match="mine failed on the request, so it was not sent"):
            hooks.prepare_messages(*VALUES[seam])
    else:
        found = getattr(hooks, seam)(*VALUES[seam])
        if seam in ("before_step", "record_step_usage"):
            assert found.reason == "error"
            assert "mine failed" in found.note
        elif seam == "authorize_tool":
            assert not found.allow
            assert not found.ask
            assert "mine failed" in found.reason
        elif seam == "transform_tool_result":
            assert found.outcome == "failed"
            assert "fine" not in found.output
            assert "withheld: mine failed" in found.output
        else:
            assert found is None
    ((hook, failed, error, is_closed),) = failures
    assert (hook, failed, is_closed) == ("mine", seam, SEAMS[seam].is_policy)
    assert error.startswith("RuntimeError: broken") or "gave" in error


def test_messages_that_are_none_fail_closed():
    with pytest.raises(PeriplusError, match="was not sent"):
        Composite([functions(prepare_messages=lambda messages: ["text"])]).prepare_messages([])


def test_the_others_are_asked_when_an_observing_one_failed():
    hooks = Composite([functions(after_step=raising), functions(after_step=lambda *_: Stop(reason="stuck"))])
    assert hooks.after_step(1, Usage(), None).reason == "stuck"


def test_hooks_get_values_and_change_nothing():
    def spoil(name, args):
        args["command"] = "rm -rf /"
        args.clear()

    def spoil_call(wanted, result):
        wanted.args["deep"]["list"].append(2)
        result.effects[0]["path"] = "other"

    def spoil_messages(messages):
        messages[0].tool_calls[0].args.clear()

    args = {"command": "make"}
    hooks = Composite(
        [functions(authorize_tool=spoil, transform_tool_result=spoil_call, prepare_messages=spoil_messages)]
    )
    assert hooks.authorize_tool("shell", args).allow
    assert args == {"command": "make"}
    result = ToolResult(outcome="ok", effects=({"path": "a"},))
    assert hooks.transform_tool_result(CALL, result).effects == ({"path": "a"},)
    assert CALL.args["deep"] == {"list": [1]}
    sent = [Message(role="assistant", tool_calls=(CALL,))]
    assert hooks.prepare_messages(sent)[0].tool_calls[0].args["command"] == "make"


def test_a_person_who_interrupts_is_not_a_broken_hook():
    def interrupt(step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Composite([functions(before_step=interrupt)]).before_step(1)


# -- through the loop


def test_a_broken_rule_allows_nothing_and_is_written_down(tmp_path):
    bench = Bench(
        tmp_path,
        [answer("", call("write", path="a", content="x")), "done"],
        hooks=[functions("mine", authorize_tool=raising)],
    )
    assert bench.turn().reason == "done"
    assert bench.host.tree() == {}
    assert bench.results[0].outcome == "denied"
    (failed,) = bench.of(HookFailed)
    assert (failed.hook, failed.seam, failed.error, failed.is_closed) == (
        "mine",
        "authorize_tool",
        "RuntimeError: broken",
        True,
    )
    assert bench.seen(HookRaised)[0].seam == "authorize_tool"


def test_a_broken_redaction_lets_nothing_out(tmp_path):
    hook = functions("redact", transform_tool_result=raising)
    bench = Bench(tmp_path, [answer("", call("read", path="a")), "done"], hooks=[hook])
    (bench.host.folder / "a").write_text("the secret")
    bench.turn()
    assert "the secret" not in repr(bench.log.read())
    assert "the secret" not in repr(bench.client.requests)
    assert "the secret" not in repr(bench.events)


def test_a_broken_preparation_sends_nothing(tmp_path):
    bench = Bench(tmp_path, ["never"], hooks=[functions("redact", prepare_messages=raising)])
    ended = bench.turn()
    assert ended.reason == "error"
    assert "it was not sent" in ended.note
    assert bench.client.requests == []


def test_a_broken_usage_rule_parks_before_the_calls_run(tmp_path):
    bench = Bench(
        tmp_path,
        [answer("", call("write", path="a", content="x"))],
        hooks=[functions("purse", record_step_usage=raising)],
    )
    assert bench.turn().reason == "error"
    assert [one.result.outcome for one in bench.of(Resulted)] == ["cancelled"]


def test_a_broken_observer_disturbs_nobody(tmp_path):
    hook = functions("watch", after_step=raising, reset_for_turn=raising, should_continue_after_stop=raising)
    bench = Bench(tmp_path, ["done"], hooks=[hook])
    assert bench.turn().reason == "done"
    assert [(one.seam, one.is_closed) for one in bench.of(HookFailed)] == [
        ("reset_for_turn", False), ("after_step", False), ("should_continue_after_stop", False),
    ]  # fmt: skip


# -- the contract


class Red:
    """A check that fails, always."""

    def verify(self):
        return False, "1 failed"


RULES = tuple(map(parse_rule, ("deny edit(vendor/**)", "ask shell(make)", "allow shell(ls)", "deny x*")))
SHIPPED = {
    "Hook": Hook,
    "Functions": lambda: functions("none"),
    "Composite": lambda: Composite([Budget(tokens=100), Guardrail()]),
    "Budget": lambda: Budget(tokens=5000, cost=200),
    "Guardrail": Guardrail,
    "OraclePolicy": lambda: OraclePolicy(NullOracle()),
    "OraclePolicy that is never content": lambda: OraclePolicy(Red()),
    "SelfCheck": SelfCheck,
    **{f"Permission, {mode}": lambda mode=mode: Permission(mode, RULES, home="/home/ann", workspace="/work") for mode in MODES},
}  # fmt: skip


@pytest.mark.parametrize("name", SHIPPED)
def test_the_contract_of_a_hook(name):
    check_hook(SHIPPED[name])


@pytest.mark.parametrize("name", SHIPPED)
def test_a_turn_that_is_taken_up_goes_on_as_it_would_have(name):
    check_restore(SHIPPED[name])


def test_the_contract_of_restoring_finds_a_hook_that_forgets():
    class Sieve(Guardrail):
        def restore(self, episodes):
            pass

    with pytest.raises(AssertionError, match="taken up by another process it decides otherwise"):
        check_restore(Sieve, [Phase.explicit, Phase.generate])


def test_a_hook_that_cannot_be_restored_is_told_and_the_others_are():
    restored, failures = [], []

    class Breaks(Hook):
        def restore(self, episodes):
            raise RuntimeError("no")

    class Counts(Hook):
        def restore(self, episodes):
            restored.extend(episodes)

    Composite([Breaks(), Counts()], failures.append).restore([1, 2])
    assert restored == [1, 2]
    assert [(one.hook, one.seam, one.is_closed) for one in failures] == [("Breaks", "restore", False)]


def test_every_policy_that_is_shipped_is_under_the_contract():
    from pathlib import Path

    from periplus.agent import policies

    of_files = set()
    for path in Path(policies.__file__).parent.glob("*.py"):
        module = (
            importlib.import_module(f"periplus.agent.policies.{path.stem}") if path.stem != "__init__" else policies
        )
        of_files |= {
            name
            for name, value in vars(module).items()
            if isinstance(value, type) and issubclass(value, Hook) and value.__module__ == module.__name__
        }
    assert of_files == {name.partition(" ")[0].rstrip(",") for name in SHIPPED} - {"Hook", "Functions", "Composite"}


def test_the_contract_finds_a_hook_that_remembers_too_long():
    class Grudge(Hook):
        def __init__(self):
            self.steps = 0

        def before_step(self, step):
            self.steps += 1
            return Stop(reason="stuck") if self.steps > 3 else None

    with pytest.raises(AssertionError, match="after a reset before_step is another"):
        check_hook(Grudge, [Phase.generate])


def test_the_contract_finds_a_hook_that_spoils_its_values():
    class Spoiler(Hook):
        def authorize_tool(self, name, args):
            args["more"] = 1

    with pytest.raises(AssertionError, match="changed what it was handed"):
        check_hook(Spoiler, [Phase.generate])
