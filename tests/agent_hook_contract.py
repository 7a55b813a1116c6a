"""What every hook has to keep. Run it on each: ``check_hook(make)``, where ``make`` gives a new one.

A hook gives what its seams give and nothing else, does not raise whatever a model or a tool came up with, changes nothing of what it is
handed, and after ``reset_for_turn`` does as a new one would.
"""

from __future__ import annotations

import copy

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from periplus.agent.contracts import Message, Stop, ToolCall, ToolResult, Usage
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
