"""What every hook has to keep. Run it on each: ``check_hook(make)``, where ``make`` gives a new one.

A hook gives what its seams give and nothing else, does not raise whatever a model or a tool came up with, changes nothing of what it is
handed, and after ``reset_for_turn`` does as a new one would. ``check_restore(make)``: one that is given the episodes of a turn in another process
goes on as the one that lived through them.
"""

from __future__ import annotations

import copy

import msgspec
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from periplus.agent.contracts import AssistantMessage, Message, Stop, ToolCall, ToolResult, Usage
from periplus.agent.episodes import Answered, Episode, Fed, Requested, Resulted
from periplus.agent.hooks import SEAMS, Composite

NAMES = st.sampled_from(["read", "write", "edit", "shell", "no such tool", ""])
TEXTS = st.one_of(st.sampled_from(["", "a", "boom", "rm -rf /", "1 failed in 0.3s"]), st.text(max_size=20))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
ARGS = st.one_of(
    st.just({}), st.just({"path": "a"}), st.just({"command": "make"}), st.dictionaries(TEXTS, JSON, max_size=3)
)
CALLS = st.builds(lambda name, args: ToolCall(id="1", name=name, args=args), NAMES, ARGS)
RESULTS = st.builds(
    lambda outcome, output, code, effects: ToolResult(outcome=outcome, output=output, exit_code=code, effects=effects),
    st.sampled_from(["ok", "failed", "cancelled", "denied", "indeterminate"]),
    TEXTS,
    st.sampled_from([None, 0, 1]),
    st.sampled_from([(), ({"path": "a", "before": None, "after": "00"},)]),
)
USAGES = st.builds(
    lambda tokens, out: Usage(prompt_tokens=tokens, completion_tokens=out, cost=out),
    st.integers(0, 9999),
    st.integers(0, 99),
)
MESSAGES = st.lists(
    st.builds(lambda role, text: Message(role=role, content=text), st.sampled_from(["user", "assistant"]), TEXTS),
    max_size=3,
)
STOPS = st.builds(lambda reason: Stop(reason=reason), st.sampled_from(["done", "length", "stuck"]))
ASKED = st.one_of(
    st.tuples(st.just("before_step"), st.integers(1, 300)),
    st.tuples(st.just("prepare_messages"), MESSAGES.map(tuple)),
    st.tuples(st.just("record_step_usage"), USAGES),
    st.tuples(st.just("authorize_tool"), NAMES, ARGS),
    st.tuples(st.just("transform_tool_result"), CALLS, RESULTS),
    st.tuples(st.just("after_step"), st.integers(1, 300), USAGES, st.sampled_from([None, "done", "stuck"])),
    st.tuples(st.just("should_continue_after_stop"), STOPS),
)


def check_hook(make, phases=(Phase.explicit, Phase.generate, Phase.shrink)):
    @settings(max_examples=40, deadline=None, report_multiple_bugs=False, database=None, phases=phases)
    @given(before=st.lists(ASKED, max_size=12), asked=st.lists(ASKED, max_size=12))
    def keeps_the_contract(before, asked):
        hook = make()
        failures = []
        Composite([hook], failures.append)  # it registers
        hook.reset_for_turn()
        for one in before:
            _ask(hook, one)
        hook.reset_for_turn()
        fresh = make()
        fresh.reset_for_turn()
        for one in asked:
            assert _ask(hook, one) == _ask(fresh, one), f"after a reset {one[0]} is another"
        assert failures == []

    keeps_the_contract()


def _ask(hook, asked):
    name, *values = asked
    mine = copy.deepcopy(values)
    given_back = getattr(hook, name)(*mine)
    assert repr(mine) == repr(values), f"{name} changed what it was handed"
    assert given_back is None or isinstance(given_back, SEAMS[name].gives), f"{name} gave {given_back!r}"
    return given_back


LIVED_CALLS = st.sampled_from(
    [ToolCall(id="", name="shell", args={"command": one}) for one in ("make", "ls")]
    + [ToolCall(id="", name="edit", args={"path": one}) for one in "ab"]
)
LIVED_RESULTS = st.sampled_from(
    [ToolResult(outcome="failed", output=text) for text in ("boom", "boom\n\n", "2 failed in 0.3s", "")]
    + [ToolResult(outcome="ok", output="fine", exit_code=code) for code in (0, 1)]
    + [ToolResult(outcome="ok", output="done", effects=({"path": "a", "before": None, "after": "00"},))]
)
SAME = (ToolCall(id="", name="shell", args={"command": "make"}), ToolResult(outcome="failed", output="boom"))
LIVED = st.lists(
    st.lists(st.one_of(st.just(SAME), st.tuples(LIVED_CALLS, LIVED_RESULTS)), min_size=0, max_size=3), max_size=14
)


class Life:
    """A turn as the loop drives its hooks, and the episodes that it leaves."""

    def __init__(self, hook):
        self.hook = Composite([hook])
        self.episodes = [Requested(turn=1, text="do it")]
        self.step = 0

    def live(self, pairs):
        """A step; what the hooks decided in it."""
        self.step += 1
        calls = [msgspec.structs.replace(call, id=f"c{self.step}_{at}") for at, (call, _) in enumerate(pairs)]
        usage = Usage(prompt_tokens=100, completion_tokens=10, cost=5)
        message = AssistantMessage(tool_calls=tuple(calls), usage=usage)
        decided = [self.hook.before_step(self.step)]
        self.episodes.append(Answered(turn=1, step=self.step, message=message))
        decided.append(self.hook.record_step_usage(usage))
        verdicts = [self.hook.authorize_tool(call.name, call.args) for call in calls]
        for call, verdict, (_, result) in zip(calls, verdicts, pairs, strict=True):
            shown = result if verdict.allow else ToolResult(outcome="denied", output=f"Denied: {verdict.reason}")
            shown = self.hook.transform_tool_result(call, shown)
            self.episodes.append(Resulted(turn=1, step=self.step, call_id=call.id, name=call.name, result=shown))
            decided += [verdict, shown]
        stop = None if calls else Stop(reason="done")
        decided.append(self.hook.after_step(self.step, usage, stop.reason if stop else None))
        if stop is not None:
            go_on = self.hook.should_continue_after_stop(stop)
            decided.append(go_on)
            if go_on is not None:
                fed = Fed(turn=1, step=self.step, source=go_on.source, text=go_on.feedback, quoted=go_on.quoted)
                self.episodes.append(fed)
        return decided

    def again(self, hook):
        """Another process that takes the turn up here."""
        other = Life(hook)
        other.step, other.episodes = self.step, list(self.episodes)
        other.hook.reset_for_turn()
        for one in self.episodes:
            if isinstance(one, Answered):
                other.hook.record_step_usage(one.message.usage)
        other.hook.restore(msgspec.json.decode(msgspec.json.encode(self.episodes), type=list[Episode]))
        return other


def check_restore(make, phases=(Phase.explicit, Phase.generate, Phase.shrink)):
    @settings(max_examples=60, deadline=None, report_multiple_bugs=False, database=None, phases=phases)
    @given(before=LIVED, after=LIVED)
    @example(before=[[SAME]] * 7, after=[[SAME]] * 3)
    def goes_on(before, after):
        lived = Life(make())
        lived.hook.reset_for_turn()
        for pairs in before:
            lived.live(pairs)
        taken_up = lived.again(make())
        for pairs in after:
            assert taken_up.live(pairs) == lived.live(pairs), "taken up by another process it decides otherwise"

    goes_on()
