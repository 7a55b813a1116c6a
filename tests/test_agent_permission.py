"""Permission: modes, rules, and what a person says for always."""

from __future__ import annotations

import pytest

from periplus.agent.contracts import Approver, ToolCall, ToolDecision, ToolSchema
from periplus.agent.hooks import Composite
from periplus.agent.policies.permission import MODES, Permission, PermissionApprover, Rule, idle_rules, parse_rule
from periplus.base.errors import UsageError

pytestmark = pytest.mark.quick

HOME, WORK = "/home/ann", "/home/ann/src/shop"


def verdict(mode, name, args=None, rules=(), *, always=()):
    permission = Permission(mode, map(parse_rule, rules), home=HOME, workspace=WORK)
    for told in always:
        permission.always(*told)
    found = permission.authorize_tool(name, args or {})
    return "deny" if not found.allow else "ask" if found.ask else "allow"


def sh(command, **more):
    return "shell", {"command": command, **more}


def hub(tool, *, server="hub", **arguments):
    return "mcp", {"server": server, "tool": tool, "arguments": arguments}


@pytest.mark.parametrize(
    ("call", "asking", "default", "autonomous"),
    [
        (("read", {"path": "a"}), "allow", "allow", "allow"),
        (("list", {}), "allow", "allow", "allow"),
        (("search", {"pattern": "x"}), "allow", "allow", "allow"),
        (("recall", {"query": "x"}), "allow", "allow", "allow"),
        (("plan", {}), "allow", "allow", "allow"),
        (("ask_user", {"question": "x"}), "allow", "allow", "allow"),
        (("process", {"action": "list"}), "allow", "allow", "allow"),
        (("process", {"action": "poll", "id": "1"}), "allow", "allow", "allow"),
        (("process", {"action": "input", "id": "1", "text": "y"}), "ask", "ask", "allow"),
        (("edit", {"edits": [{"path": "a"}]}), "ask", "allow", "allow"),
        (("write", {"path": "a"}), "ask", "allow", "allow"),
        (("remember", {"content": "x"}), "ask", "allow", "allow"),
        (("web_fetch", {"url": "https://x.example"}), "ask", "ask", "allow"),
        (("code", {"code": "1"}), "ask", "ask", "allow"),
        (("mcp_other_tool", {}), "ask", "ask", "allow"),
        (("mcp", {}), "allow", "allow", "allow"),
        (("mcp", {"server": "hub", "tool": "get"}), "allow", "allow", "allow"),
        (("mcp", {"server": "hub", "tool": "get", "arguments": None}), "allow", "allow", "allow"),
        (("mcp", {"server": "hub", "tool": "get", "arguments": {}}), "ask", "ask", "allow"),
        (("mcp", {"server": "hub", "tool": "get", "arguments": "{}"}), "ask", "ask", "allow"),
        (sh("ls"), "ask", "ask", "allow"),
        (sh("pytest -q"), "ask", "ask", "allow"),
        (sh("rm -rf build"), "ask", "ask", "allow"),
        (sh("git reset --hard"), "ask", "ask", "allow"),
        (sh("ls", unsandboxed=True), "ask", "ask", "ask"),
        (sh("echo 'unclosed"), "deny", "deny", "deny"),
        (sh("git push -f\necho 'unclosed"), "deny", "deny", "deny"),
        (sh("bash -c 'rm x\n)'"), "deny", "deny", "deny"),
        (sh("rm -rf /"), "deny", "deny", "deny"),
        (sh("curl x | sh"), "deny", "deny", "deny"),
        (sh("git push -f"), "deny", "deny", "deny"),
        (sh("rm -rf *", cwd="/"), "deny", "deny", "deny"),
        (sh("rm -rf ..", cwd="build"), "deny", "deny", "deny"),
        (("shell", {"command": ["rm"]}), "ask", "ask", "allow"),
    ],
)  # fmt: skip
def test_each_mode_judges_each_call(call, asking, default, autonomous):
    assert [verdict(mode, *call) for mode in MODES] == [asking, default, autonomous]


@pytest.mark.parametrize(
    ("rules", "call", "expected"),
    [
        (["allow shell(git status)"], sh("git status"), "allow"),
        (["allow shell(git status)"], sh("git status -s"), "allow"),
        (["allow shell(git status:*)"], sh("git status -s"), "allow"),
        (["allow shell(git status)"], sh("git statusx"), "ask"),
        (["allow shell(git status)"], sh("git push"), "ask"),
        (["allow shell(git)"], sh("git log | head"), "ask"),
        (["allow shell(git)", "allow shell(head)"], sh("git log | head"), "allow"),
        (["allow shell(ls)"], sh("ls; make"), "ask"),
        (["allow shell(ls)"], sh("ls $(make)"), "ask"),
        (["allow shell(ls)", "allow shell(make)"], sh("ls $(make)"), "allow"),
        (["allow shell(ls)"], sh("ls && rm -rf build"), "ask"),
        (["allow shell(rm)"], sh("rm -rf build"), "ask"),
        (["allow shell"], sh("rm -rf build"), "ask"),
        (["allow shell"], sh("make -j2"), "allow"),
        (["allow shell"], sh("$TOOL x"), "ask"),
        (["allow shell"], sh("echo 'unclosed"), "deny"),
        (["allow shell"], sh("rm -rf /"), "deny"),
        (["allow *"], sh("git push --force"), "deny"),
        (["allow *"], ("mcp_x", {}), "allow"),
        (["allow mcp_docs_*"], ("mcp_docs_find", {}), "allow"),
        (["allow mcp_docs_*"], ("mcp_mail_send", {}), "ask"),
        (["deny shell(git push)"], sh("git push"), "deny"),
        (["deny shell(git push)", "allow shell(git)"], sh("git push"), "deny"),
        (["deny shell(git push)", "allow shell(git)"], sh("git status && git push"), "deny"),
        (["deny shell(git push)", "allow shell(git)"], sh("git status"), "allow"),
        (["deny shell(rm)"], sh("ls $(rm x)"), "deny"),
        (["deny shell(rm)"], sh("echo rm x"), "ask"),
        (["ask edit"], ("edit", {"edits": [{"path": "a"}]}), "ask"),
        (["ask edit(src/**)"], ("edit", {"edits": [{"path": "src/a/b"}]}), "ask"),
        (["ask edit(src/**)"], ("edit", {"edits": [{"path": "docs/a"}]}), "allow"),
        (["deny edit(secrets/**)"], ("edit", {"edits": [{"path": "secrets/x"}]}), "deny"),
        (["deny edit(secrets/**)"], ("edit", {"edits": [{"path": "a"}, {"path": "secrets/x"}]}), "deny"),
        (["deny edit(secrets/**)"], ("edit", {"edits": [{"path": "./secrets/x"}]}), "deny"),
        (["deny edit(secrets/**)"], ("edit", {"edits": [{"path": "a/../secrets/x"}]}), "deny"),
        (["deny edit(secrets/**)"], ("edit", {"edits": [{"path": "a", "move_to": "secrets/x"}]}), "deny"),
        (["deny edit(secrets)"], ("edit", {"edits": [{"path": "secrets/x/y"}]}), "deny"),
        (["deny *(secrets/**)"], ("read", {"path": "secrets/x"}), "deny"),
        (["deny *(.env*)"], ("read", {"path": ".env.local"}), "deny"),
        (["deny read(*.pem)"], ("read", {"path": "keys/a.pem"}), "deny"),
        (["deny read(*.pem)"], ("read", {"path": "a.py"}), "allow"),
        (["allow write(docs/**)"], ("write", {"path": "docs/a.md"}), "allow"),
        (["allow mcp(hub/*)"], hub("get"), "allow"),
        (["allow mcp(hub)"], hub("get"), "allow"),
        (["allow mcp(hub/get_*)"], hub("get_user"), "allow"),
        (["allow mcp(hub/get_*)"], hub("delete_user"), "ask"),
        (["allow mcp(hub/get)"], hub("get", server="hub2"), "ask"),
        (["allow mcp(hub/get)"], hub("get", server="Hub"), "ask"),
        (["allow mcp(hub/get)"], hub("get/../delete"), "ask"),
        (["allow mcp(hub/get)"], hub("../other/get"), "ask"),
        (["allow mcp(hub/*)"], hub("get", server=["hub"]), "ask"),
        (["allow mcp"], hub("get"), "allow"),
        (["allow mcp", "deny mcp(hub/delete_*)"], hub("delete_user"), "deny"),
        (["deny mcp(hub)"], ("mcp", {"server": "hub"}), "deny"),
        (["deny mcp(hub/get)"], ("mcp", {"server": "hub", "tool": "get"}), "deny"),
        (["ask mcp(hub/*)", "allow mcp"], hub("get"), "ask"),
        (["deny *(secrets/**)", "allow mcp"], hub("get", path="secrets/x"), "deny"),
        (["allow *(src/**)"], hub("get", path="src/x"), "ask"),
        (["allow mcp(src/**)"], hub("get", path="src/x"), "ask"),
        (["deny web_fetch", "allow web_fetch"], ("web_fetch", {}), "deny"),
        (["ask web_fetch", "allow web_fetch"], ("web_fetch", {}), "ask"),
        (["allow web_fetch"], ("web_fetch", {"url": "https://x.example"}), "allow"),
    ],
)  # fmt: skip
def test_of_the_rules_that_match_the_strictest_wins(rules, call, expected):
    assert verdict("default", *call, rules) == expected


@pytest.mark.parametrize(
    ("said", "call", "expected"),
    [
        (sh("make"), sh("make"), "allow"),
        (sh("make"), sh("make -j2"), "ask"),
        (sh("rm -rf build"), sh("rm -rf build"), "allow"),
        (sh("make"), sh("make", cwd="/tmp/x"), "ask"),
        (sh("ls", unsandboxed=True), sh("ls"), "ask"),
        (("web_fetch", {"url": "https://a.example"}), ("web_fetch", {"url": "https://b.example"}), "allow"),
        (("code", {"code": "1"}), ("code", {"code": "2"}), "ask"),
        (hub("get"), hub("get", path="other"), "allow"),
        (hub("get"), hub("delete"), "ask"),
        (hub("get"), hub("get", server="hub2"), "ask"),
        (sh("rm -rf /"), sh("rm -rf /"), "deny"),
    ],
)  # fmt: skip
def test_always_binds_a_commands_very_call_and_another_tools_name(said, call, expected):
    assert verdict("default", *call, always=[said]) == expected


def test_always_does_not_lift_a_denial():
    assert verdict("autonomous", *sh("git push"), ["deny shell(git push)"], always=[sh("git push")]) == "deny"


@pytest.mark.parametrize(
    "text", ["", "allow", "permit shell", "allow shell(", "allow shell()", "allow (x)", "allow a(b", "allow a\0"]
)
def test_what_is_no_rule_is_refused(text):
    with pytest.raises(UsageError, match="not a permission rule"):
        parse_rule(text)


def test_rules_are_written_as_they_are_read():
    for text in ("allow shell(git status)", "deny edit(secrets/**)", "ask *", "deny *(a/b)"):
        assert str(parse_rule(text)) == text
    assert parse_rule(" allow   shell( git  status:* )") == Rule("allow", "shell", ("git", "status"))


def test_what_a_person_says_for_always_is_kept():
    class Person:
        asked = 0

        def approve(self, call, decision):
            del call, decision
            self.asked += 1
            return "always"

    person = Person()
    permission = Permission("default", home=HOME, workspace=WORK)
    approver = PermissionApprover(permission, person)
    assert isinstance(approver, Approver)
    hooks = Composite([permission])
    name, args = sh("make")
    decision = hooks.authorize_tool(name, args)
    assert decision.ask
    assert approver.approve(ToolCall(id="1", name=name, args=args), decision) == "always"
    assert hooks.authorize_tool(name, args) == ToolDecision(allow=True)
    assert person.asked == 1
    assert "asks: web_fetch is asked for in mode default" in permission.explain("web_fetch", {})
    assert permission.explain(*sh("rm -rf /")).startswith("denies: ")


def test_a_rule_that_no_call_meets_is_named():
    def schema(name, *arguments):
        return ToolSchema(name=name, description="", parameters={"properties": {key: {} for key in arguments}})

    tools = [schema("shell", "command"), schema("read", "path"), schema("edit", "edits"), schema("web_fetch", "url")]
    meet = [
        "deny shell(rm)",
        "deny read(secrets/**)",
        "ask edit(src/**)",
        "deny *",
        "ask web_*",
        "deny mcp(x/y)",
        "ask skill",
    ]
    miss = {
        "deny bash(rm)": "shell",
        "deny Read(a)": "read",
        "ask web_fetch(a.example)": "takes no path",
        "deny x_*": "There are",
    }
    assert list(idle_rules(map(parse_rule, meet), tools)) == []
    for text, told in miss.items():
        (line,) = idle_rules([parse_rule(text)], tools)
        assert f"The rule “{text}” has no effect" in line
        assert told in line


def test_what_a_here_document_runs_is_judged_by_the_rules_as_well():
    permission = Permission(
        "default", [parse_rule("allow shell(cat)"), parse_rule("allow shell(bash)")], home="/home/ann", workspace="/w"
    )
    for command, allowed in (
        ("cat <<EOF\nplain\nEOF", True),
        ("cat <<'EOF'\n$(make it)\nEOF", True),
        ("cat <<EOF\n$(make it)\nEOF", False),
        ("bash <<EOF\ncat x\nEOF", True),
        ("bash <<EOF\nmake it\nEOF", False),
        ("bash < x", False),
    ):
        decision = permission.authorize_tool("shell", {"command": command})
        assert (decision.allow and not decision.ask) is allowed, command
