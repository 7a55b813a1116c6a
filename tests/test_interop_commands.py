from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from periplus.interop.shell_commands.actions import COMMAND_CHARS_MAX, Action, commit_digest, passed_count, recognise

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("command", "target"),
    [
        ("pytest", "pytest"),
        (
            "cd x && FOO=1 timeout -k 5 60 uv run --frozen pytest -q 2>&1 | tail",
            "FOO=1 timeout -k 5 60 uv run --frozen pytest -q",
        ),
        ("python3 -m pytest tests", "python3 -m pytest tests"),
        ("python -m unittest -v", "python -m unittest -v"),
        ("/usr/bin/python3.12 -W error -m pytest", "/usr/bin/python3.12 -W error -m pytest"),
        ("go test ./...", "go test ./..."),
        ("cargo nextest run", "cargo nextest run"),
        ("npm run test:unit -- --watch=false", "npm run test:unit -- --watch=false"),
        ("npm t", "npm t"),
        ("npx jest --ci", "npx jest --ci"),
        ("mise run test:integration 2>&1 | tail -40", "mise run test:integration"),
        ("(cd a; make -j4 check)", "make -j4 check"),
        ("./gradlew :app:test", "./gradlew :app:test"),
        ("if true; then pytest; fi", "pytest"),
        ("bundle exec rspec spec/a_spec.rb", "bundle exec rspec spec/a_spec.rb"),
    ],
)
def test_a_command_that_runs_tests_is_a_test(command, target):
    assert [action[:3] for action in recognise(command)] == [("test", target, None)]


@pytest.mark.parametrize(
    "command",
    [
        "", "ls", "echo 'git commit -m x; pytest'", 'echo "pytest"', "cat <<'EOF' > t.py\nimport pytest\nEOF",
        "git log | grep x", "git commit --dry-run", "make build", "git status", "vim test.py", "npm run build",
        "grep -rn", "# pytest", "ls ; # git push", "x" * (COMMAND_CHARS_MAX + 1) + " pytest", "'unclosed pytest",
        "grep x f | while read y; do rm $y; done", "git show HEAD:test",
    ],
)  # fmt: skip
def test_what_is_just_a_command(command):
    assert recognise(command) == []


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("git commit -m 'Add it'", "Add it"),
        ('git add -A && git commit -am "one \\"two\\"" -m three', 'one "two"\n\nthree'),
        ("git commit --message=short", "short"),
        ("git commit -mshort", "short"),
        ("git commit --amend --no-edit", ""),
        ("git commit -F - <<EOF\nfrom a file\n\nmore\nEOF", "from a file\n\nmore"),
        ('git commit -m "$(cat <<\'EOF\'\ndocs: x\n\nsay "git push" && go\nEOF\n)"', 'docs: x\n\nsay "git push" && go'),
        ("GIT_EDITOR=true git -c user.name=x commit -m y", "y"),
    ],
)
def test_a_commit_has_its_message_however_it_is_given(command, message):
    assert [action[:4] for action in recognise(command)] == [("commit", message, None, False)]


def test_several_things_in_one_command():
    assert recognise("go test ./... && git -C /a/b commit -qm 'all of it' && git push -u origin main") == [
        Action("test", "go test ./...", rivals=2),
        Action("commit", "all of it", "/a/b", rivals=2),
        Action("push", "origin", rivals=2),
    ]


@pytest.mark.parametrize(
    ("command", "pattern", "path"),
    [
        ("grep -rn TODO", "TODO", None),
        ('rg -n "foo bar" src | head -5', "foo bar", "src"),
        ("rg -e foo -g '*.py' dir", "foo", "dir"),
        ("grep -A2 --include=*.py -E 'a|b' lib", "a|b", "lib"),
        ("cd x && git grep -n foo -- src", "foo", "src"),
        ("grep x y || echo none", "x", "y"),
        ("ag -- -dash dir", "-dash", "dir"),
    ],
)
def test_a_search_has_its_pattern_and_its_path(command, pattern, path):
    assert [action[:3] for action in recognise(command)] == [("search", pattern, path)]


@pytest.mark.parametrize(
    ("output", "count"),
    [
        ("===== 3 failed, 5 passed in 0.1s =====", 5),
        ("\x1b[32m12 passed\x1b[0m, 1 skipped in 2.0s", 12),
        ("Tests:       1 failed, 9 passed, 10 total", 9),
        (" Test Files  2 passed (2)\n      Tests  11 passed (11)\n", 11),
        ("Ran 5 tests in 0.01s\n\nFAILED (failures=1, errors=1)", 3),
        ("Ran 5 tests in 0.01s\n\nOK", 5),
        ("test result: ok. 3 passed; 0 failed\nx\ntest result: FAILED. 4 passed; 1 failed", 7),
        ("  14 passing (2s)\n  1 failing", 14),
        ("12 examples, 2 failures, 1 pending", 9),
        ("Tests run: 10, Failures: 1, Errors: 0, Skipped: 2", 7),
        ("Passed!  - Failed:     0, Passed:    42, Skipped:     0", 42),
        ("OK (8 tests, 20 assertions)", 8),
        ("90% tests passed, 1 tests failed out of 10", 9),
        ("# tests 4\n# pass 3\n# fail 1", 3),
        ("--- PASS: TestA (0.00s)\n--- PASS: TestB (0.00s)\nPASS", 2),
        ("ok  \texample/a\t0.1s", None),
        ("", None),
        ("9" * 50 + " passed", 10**9),
    ],
)
def test_what_a_runner_prints_says_how_many_tests_passed(output, count):
    assert passed_count(output) == count


def test_only_a_whole_id_is_a_commit():
    name = "12345678" * 5
    assert commit_digest(f"[main {name}] Add", "git commit -m Add").value.hex() == name
    assert commit_digest(f"[main (root-commit) {name}] Add", "git commit").value.hex() == name
    assert commit_digest("[main 1234567] Add", "git commit -m Add") is None
    assert commit_digest(f"[main 1234567] Add\n{name}\n", "git commit -m Add && git rev-parse HEAD").value.hex() == name
    assert commit_digest(f"{name}\n[main 1234567] Add\n", "git rev-parse HEAD && git commit -m Add") is None
    assert commit_digest("a" * 64, "git commit; git rev-parse HEAD").algorithm == "git-sha256"
    assert commit_digest(f"{name}\n{name[::-1]}", "git commit; git rev-parse HEAD") is None


@given(st.text(st.sampled_from("git commit pytest '\"\\|&;()<>-m\n$EOF x"), max_size=200))
def test_any_text_is_read(command):
    for action in recognise(command):
        assert action.kind in ("test", "commit", "push", "search")


@pytest.mark.parametrize("piece", ["<<A\n", "'\"", '\\"', "$((", "git commit -m ", ">&", "2>", "# "])
def test_hostile_commands_take_linear_time(piece):
    started = time.process_time()
    recognise("git commit " + piece * ((COMMAND_CHARS_MAX - 20) // len(piece)))
    passed_count(piece * 100_000)
    assert time.process_time() - started < 5
