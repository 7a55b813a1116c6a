"""The policies, each through the real loop: what they let go on, what they stop, and what they say."""

from __future__ import annotations

import sys
import threading

import pytest

from agent_support import Bench, FolderHost
from agent_tools_support import shell_host
from periplus.agent.contracts import Oracle, ToolCall, ToolResult, Usage
from periplus.agent.episodes import Fed, Resulted
from periplus.agent.hooks import Composite
from periplus.agent.loop import Limits
from periplus.agent.models.scripted import answer, call
from periplus.agent.policies.budget import Budget, Spending
from periplus.agent.policies.guardrail import Guardrail
from periplus.agent.policies.oracle import CommandOracle, NullOracle, OraclePolicy
from periplus.agent.policies.selfcheck import SelfCheck

pytestmark = pytest.mark.quick

# -- oracle


class Verdicts:
    def __init__(self, *verdicts):
        self.verdicts = list(verdicts)

    def verify(self):
        verdict = self.verdicts.pop(0)
        if isinstance(verdict, Exception):
            raise verdict
        return verdict


def test_the_oracle_agrees(tmp_path):
    policy = OraclePolicy(Verdicts((True, "2 passed")))
    bench = Bench(tmp_path, ["done"], hooks=[policy])
    assert bench.turn().reason == "done"
    assert policy.verdict is True
    assert bench.of(Fed) == []
    assert isinstance(NullOracle(), Oracle)
    assert NullOracle().verify() == (True, "")


def test_the_oracle_refuses_and_then_agrees(tmp_path):
    policy = OraclePolicy(Verdicts((False, "1 failed: test_oil"), (True, "")))
    bench = Bench(tmp_path, ["done", answer("", call("append", path="a", text="oil")), "really"], hooks=[policy])
    ended = bench.turn()
    assert (ended.reason, ended.text) == ("done", "really")
    (fed,) = bench.of(Fed)
    assert fed.source == "oracle"
    assert "1 failed: test_oil" in fed.quoted
    assert "2 more rounds after this one" in fed.text
    assert "1 failed: test_oil" in bench.client.requests[1][0][-1].content  # seen in this turn


def test_a_check_that_cannot_be_run_has_not_agreed(tmp_path):
    policy = OraclePolicy(Verdicts(FileNotFoundError("no pytest"), (True, "")))
    bench = Bench(tmp_path, ["done", "done"], hooks=[policy])
    assert bench.turn().reason == "done"
    assert "could not be run: FileNotFoundError: no pytest" in bench.of(Fed)[0].quoted


def test_the_rounds_of_the_oracle_are_counted_and_the_end_is_honest(tmp_path):
    policy = OraclePolicy(Verdicts(*[(False, "FAILED\n1 failed")] * 4), rounds=3)
    bench = Bench(tmp_path, lambda messages, tools: "done", hooks=[policy])
    ended = bench.turn()
    assert (ended.reason, ended.step) == ("stuck", 4)
    assert "The check still fails after 3 more rounds: FAILED 1 failed" in ended.note
    assert policy.verdict is False
    policy._oracle.verdicts = [(False, "x"), (True, "")]
    assert bench.turn().reason == "done"  # a new turn has rounds of its own


def test_the_last_round_may_succeed(tmp_path):
    policy = OraclePolicy(Verdicts((False, "x"), (True, "")), rounds=1)
    bench = Bench(tmp_path, ["done", "done"], hooks=[policy])
    assert bench.turn().reason == "done"
    assert policy.verdict is True


def test_long_output_of_a_check_is_cut_with_a_count(tmp_path):
    policy = OraclePolicy(Verdicts((False, "a" * 20_000 + "the end"), (True, "")))
    bench = Bench(tmp_path, ["done", "done"], hooks=[policy])
    bench.turn()
    fed = bench.of(Fed)[0].quoted
    assert "8,007 characters left out" in fed
    assert "the end" in fed


def test_a_command_is_an_oracle(tmp_path):
    host = FolderHost(tmp_path / "work")
    host.commands["good"] = lambda: ToolResult(outcome="ok", output="fine", exit_code=0)
    host.commands["bad"] = lambda: ToolResult(outcome="ok", output="1 failed\n", exit_code=1, handle="@periplus/x")
    host.commands["gone"] = lambda: ToolResult(outcome="indeterminate", output="")
    assert CommandOracle(host, "good").verify() == (True, "fine")
    ok, output = CommandOracle(host, "bad").verify()
    assert not ok
    assert output == "$ bad\n1 failed\n(exit code 1)\nThe whole of it: @periplus/x"
    assert CommandOracle(host, "gone").verify() == (False, "$ gone\n\n(indeterminate)")


@pytest.mark.parametrize(
    ("command", "most_s", "is_right", "said"),
    [
        ("sleep 0.6; echo fine", 60, True, "fine"),
        ("sleep 0.6; echo bad; exit 3", 60, False, "(exit code 3)"),
        ("echo begun; sleep 60", 0.4, False, "(stopped: not over after 0 s)"),
    ],
)
def test_a_check_that_outlasts_its_call_is_not_right_before_it_has_ended(tmp_path, command, most_s, is_right, said):
    with shell_host(tmp_path) as host:
        ok, output = CommandOracle(host, command, most_s=most_s, call_s=0.2).verify()
        assert (ok, said in output) == (is_right, True), output
        assert "runs for" not in host.run("process", {"action": "list"}).output


# -- self-check


def test_done_is_believed_after_work(tmp_path):
    script = ["done", answer("", call("read", path="a")), "done, and I looked"]
    bench = Bench(tmp_path, script, hooks=[SelfCheck(lambda: ["oil it", "test it"])])
    (bench.host.folder / "a").write_text("oil")
    ended = bench.turn()
    assert (ended.reason, ended.text) == ("done", "done, and I looked")
    (fed,) = bench.of(Fed)
    assert fed.source == "selfcheck"
    assert "- oil it\n- test it" in fed.text


def test_work_before_the_question_is_no_answer_to_it(tmp_path):
    script = [answer("", call("read", path="a")), "done", "still done", answer("", call("read", path="a")), "done now"]
    bench = Bench(tmp_path, script, hooks=[SelfCheck()])
    assert bench.turn().text == "done now"
    assert len(bench.of(Fed)) == 2
    assert "without looking" in bench.of(Fed)[1].text


def test_three_questions_and_no_more(tmp_path):
    bench = Bench(tmp_path, lambda messages, tools: "done", hooks=[SelfCheck()])
    ended = bench.turn()
    assert (ended.reason, ended.step) == ("done", 4)
    assert len(bench.of(Fed)) == 3
    bench.turn()
    assert len(bench.of(Fed)) == 6


def test_a_call_that_was_denied_is_no_work(tmp_path):
    from periplus.agent.contracts import ToolDecision
    from periplus.agent.hooks import Functions

    deny = Functions("deny", {"authorize_tool": lambda name, args: ToolDecision(allow=False)})
    script = ["done", answer("", call("read", path="a")), "done", "done", "done"]
    bench = Bench(tmp_path, script, hooks=[deny, SelfCheck()])
    bench.turn()
    assert len(bench.of(Fed)) == 3


# -- budget


def spend(prompt=0, out=0, cached=0, cost=0):
    return Usage(prompt_tokens=prompt, completion_tokens=out, cached=cached, cost=cost)


def test_tokens_of_a_turn_are_bounded(tmp_path):
    step = answer("", call("append", path="a", text="."), usage=spend(prompt=400, out=100))
    bench = Bench(tmp_path, lambda messages, tools: step, hooks=[Budget(tokens=1400)])
    ended = bench.turn()
    assert (ended.reason, ended.step) == ("budget", 3)
    assert "1,500 of 1,400 tokens are used." in ended.note
    assert bench.host.tree() == {"a": b".."}  # the calls of the answer that broke it are not run
    assert bench.turn().step == 3  # it begins anew


def test_money_is_bounded_and_cached_tokens_count_a_tenth(tmp_path):
    budget = Budget(cost=2_000_000)
    bench = Bench(tmp_path, lambda messages, tools: answer("", call("read", path="a"), usage=spend(1000, 10, 900, 700_000)),
                  hooks=[budget])  # fmt: skip
    ended = bench.turn()
    assert (ended.reason, ended.step) == ("budget", 3)
    assert "2.10 of 2.00 are spent." in ended.note
    assert budget.spent == Spending(3 * (100 + 90 + 10), 2_100_000)
    assert not budget.is_blind


def test_a_price_that_is_not_known_is_said():
    budget = Budget(cost=100)
    budget.record_step_usage(spend(prompt=10))
    assert budget.is_blind


def test_what_subagents_spend_is_spent():
    budget = Budget(tokens=1000)
    child = budget.child(tokens=600)
    threads = [threading.Thread(target=child.record_step_usage, args=(spend(out=1),)) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert budget.spent.tokens == child.spent.tokens == 50
    assert child.record_step_usage(spend(out=549)) is None
    assert child.record_step_usage(spend(out=1)).reason == "budget"
    assert budget.before_step(1) is None
    other = budget.child()
    assert other.record_step_usage(spend(out=500)).note == "1,100 of 1,000 tokens are used."
    assert budget.before_step(1).reason == "budget"
    budget.reset_for_turn()
    assert budget.before_step(1) is None


# -- guardrail


def failing(text="boom"):
    return lambda **args: ToolResult(outcome="failed", output=text)


def told(bench):
    return [one.result.output for one in bench.of(Resulted)]


def test_the_same_failure_is_advised_then_blocked_then_parked(tmp_path):
    host = FolderHost(tmp_path / "work", {"try": failing()})
    bench = Bench(tmp_path, lambda messages, tools: answer("", call("try", at=1)), host=host, hooks=[Guardrail()])
    ended = bench.turn()
    assert (ended.reason, ended.step) == ("stuck", 9)
    outputs = told(bench)
    assert outputs[:2] == ["boom", "boom"]
    assert "failed 3 times in the same way" in outputs[2]
    assert [one.result.outcome for one in bench.of(Resulted)] == ["failed"] * 6 + ["denied"] * 3
    assert len(host.ran) == 6
    assert not any(one.counts_as_stuck for one in bench.of(Resulted))


@pytest.mark.parametrize("asked", ["no tool", "no arguments"])
def test_a_call_that_cannot_be_run_at_all_is_no_way_round_the_guardrail(tmp_path, asked):
    """It is answered before any rule is asked whether it may run."""
    bad = call("nope.tool", at=1) if asked == "no tool" else ToolCall(id="c", name="read", raw="{", problem="no JSON")
    bench = Bench(tmp_path, lambda messages, tools: answer("", bad), hooks=[Guardrail()])
    ended = bench.turn()
    assert ended.reason == "stuck"
    assert ended.step == 9
    (tmp_path / "many").mkdir()
    many = Bench(tmp_path / "many", [answer("", *[bad] * 40), "I see."], hooks=[Guardrail()])
    assert many.turn().reason == "done"


def test_a_block_that_is_heeded_parks_nothing(tmp_path):
    host = FolderHost(tmp_path / "work", {"try": failing()})
    script = (
        [answer("", call("try"))] * 7
        + [answer("", call("append", path="a", text="x"))]
        + [answer("", call("try")), "done"]
    )
    bench = Bench(tmp_path, script, host=host, hooks=[Guardrail()])
    assert bench.turn().reason == "done"
    assert [one.result.outcome for one in bench.of(Resulted)] == ["failed"] * 6 + ["denied", "ok", "failed"]


def test_work_driven_by_tests_is_left_alone(tmp_path):
    """The same command fails in the same way thirty times, and each time something is changed before: by a tool, or by a command."""
    host = FolderHost(tmp_path / "work")
    host.commands["pytest"] = lambda: ToolResult(outcome="ok", output="1 failed in 0.12s", exit_code=1)
    script = []
    for number in range(30):
        change = call("append", path="a", text="x") if number % 2 else call("shell", command=f"sed -i {number} a")
        script += [answer("", change), answer("", call("shell", command="pytest"))]
    bench = Bench(tmp_path, [*script, "done"], host=host, hooks=[Guardrail()])
    bench.host.commands |= {f"sed -i {number} a": lambda: ToolResult(outcome="ok", exit_code=0) for number in range(30)}
    assert bench.turn().reason == "done"
    assert not any("[" in output for output in told(bench))


def test_the_same_failure_with_another_duration_is_the_same(tmp_path):
    host = FolderHost(tmp_path / "work")
    durations = iter(range(100))
    host.commands["pytest"] = lambda: ToolResult(outcome="ok", output=f"1 failed in 0.{next(durations)}s", exit_code=1)
    bench = Bench(
        tmp_path, lambda messages, tools: answer("", call("shell", command="pytest")), host=host, hooks=[Guardrail()]
    )
    assert bench.turn().reason == "stuck"
    assert sum(one.result.outcome == "ok" for one in bench.of(Resulted)) == 6


def test_another_failure_each_time_is_progress(tmp_path):
    host = FolderHost(tmp_path / "work")
    lines = iter(range(100))
    host.commands["make"] = lambda: ToolResult(outcome="failed", output=f"error in line {next(lines)}", exit_code=2)
    bench = Bench(tmp_path, [answer("", call("shell", command="make"))] * 20 + ["done"], host=host, hooks=[Guardrail()])
    assert bench.turn().reason == "done"
    assert not any("[" in output for output in told(bench))


def test_reads_that_find_nothing_new_are_advised_and_never_blocked(tmp_path):
    bench = Bench(tmp_path, [answer("", call("read", path="a"))] * 30 + ["done"], hooks=[Guardrail()])
    (bench.host.folder / "a").write_text("A")
    assert bench.turn().reason == "done"
    assert "seen this 3 times" in told(bench)[2]
    assert all(one.result.outcome == "ok" for one in bench.of(Resulted))


def test_reading_without_end_is_advised(tmp_path):
    bench = Bench(
        tmp_path, [answer("", call("read", path=f"f{number}")) for number in range(25)] + ["done"], hooks=[Guardrail()]
    )
    for number in range(25):
        (bench.host.folder / f"f{number}").write_text(str(number))
    bench.turn()
    advised = [place for place, output in enumerate(told(bench)) if "calls in a row changed nothing" in output]
    assert advised == [19]


def test_failing_edits_of_a_file_are_advised(tmp_path):
    host = FolderHost(tmp_path / "work", {"edit": failing("no match")})
    script = [answer("", call("edit", path="a", old=str(number))) for number in range(3)]
    bench = Bench(tmp_path, [*script, "done"], host=host, hooks=[Guardrail()])
    bench.turn()
    assert "3 edits of a failed. Read it again" in told(bench)[2]


def test_failing_edits_are_counted_by_the_files_that_the_tool_is_given():
    """The tool takes a list: ``{"edits": [{"path": …}, …]}``."""
    guard = Guardrail()

    def fails(*paths, number=0):
        edits = [{"path": path, "old": f"{path} {number}", "new": ""} for path in paths]
        tried = ToolCall(id="1", name="edit", args={"edits": edits})
        result = guard.transform_tool_result(tried, ToolResult(outcome="failed", output=f"no match {number}"))
        return "" if result is None else result.output

    assert [fails(path) for path in "abcd"] == [""] * 4
    assert fails("a", "b", number=1) == ""
    assert "3 edits of a failed. Read it again" in fails("a", "x", number=2)
    worked = ToolCall(id="2", name="edit", args={"edits": [{"path": "b"}, {"path": "a"}]})
    guard.transform_tool_result(worked, ToolResult(outcome="ok", output="", effects=({"path": "a"},)))
    assert fails("a", "b", number=3) == ""


def test_a_new_turn_forgets(tmp_path):
    host = FolderHost(tmp_path / "work", {"try": failing()})
    bench = Bench(
        tmp_path,
        lambda messages, tools: answer("", call("try")),
        host=host,
        hooks=[Guardrail()],
        limits=Limits(steps=5),
    )
    assert bench.turn().reason == bench.turn().reason == "steps"


@pytest.mark.parametrize("args", [{"deep": float("nan")}, {"key": {1, 2}}, {}])
def test_any_argument_can_be_told_apart(args):
    guard = Guardrail()
    for _ in range(6):
        guard.transform_tool_result(ToolCall(id="1", name="x", args=args), ToolResult(outcome="failed", output="no"))
    assert guard.authorize_tool("x", args).allow is False
    assert guard.authorize_tool("y", args) is None


def test_all_policies_stand_beside_each_other(tmp_path):
    hooks = [
        Budget(tokens=10**9),
        Guardrail(),
        OraclePolicy(Verdicts((False, "red"), (True, ""), (True, ""))),
        SelfCheck(),
    ]
    Composite(hooks)
    script = ["done", "fixed", answer("", call("read", path="a")), "done"]
    bench = Bench(tmp_path, script, hooks=hooks)
    (bench.host.folder / "a").write_text("A")
    assert bench.turn().reason == "done"
    assert [one.source for one in bench.of(Fed)] == ["oracle", "selfcheck"]
    assert "periplus.agent.policies.oracle" in sys.modules
