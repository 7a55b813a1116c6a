"""Shell commands as they stand in real sessions: what each does that has a step of its own."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from periplus.interop.shell_commands.actions import (
    COMMAND_CHARS_MAX,
    Action,
    commit_digest,
    git_ending,
    passed_count,
    recognise,
    runner_ending,
)
from periplus.trail.shell_words import program_of, split_segments

pytestmark = pytest.mark.quick

TESTS = """\
pytest -q
python -m pytest tests/a_test.py::test_b -x
python3.12 -X dev -m unittest discover -s tests
python -m coverage run -m pytest -q
coverage run --source src -m pytest
python manage.py test app.tests
python setup.py test
./manage.py test
tests/runtests.py --verbosity 2 admin
uv run pytest -n auto
uv run --with numpy --extra dev pytest tests
uvx --with pytest-cov pytest
uv run python -m pytest
poetry run pytest
poetry run python -m unittest
pipenv run pytest
pdm run pytest
pdm run test
hatch run test
hatch test
conda run -n work --no-capture-output pytest
tox -e py311
nox -s tests
cargo test
cargo +nightly test --workspace
cargo test -p core -- --nocapture
cargo --manifest-path a/Cargo.toml test
cargo nextest run
cargo miri test
cargo llvm-cov
RUST_BACKTRACE=1 cargo test --lib
go test ./...
go test -run TestX -count=1 ./pkg/a
go -C server test ./...
gotestsum -- ./...
npm test
npm t
npm --prefix web test
npm run test:unit -- --watch=false
npm run -w pkg test
yarn test
yarn jest src/a.test.ts
yarn workspace web test
yarn run test
pnpm test
pnpm --filter web test
pnpm -r test
pnpm exec vitest run
pnpm vitest run
bun test
bun run test
deno test -A
deno task test
npx jest --ci
npx --yes vitest run src
npx playwright test
npx cypress run
npx mocha -r ts-node/register
node --test
node --import tsx --test tests/a.ts
npx react-scripts test --watchAll=false
npx nx test web
npx nx run-many --target test
npx turbo run test
npx c8 mocha
make test
make -C build check
make -j8 test-unit
just test
task test
mise run test:ci
rspec spec/a_spec.rb
bundle exec rspec
bin/rails test
rake spec
ruby -Itest test/a_test.rb
vendor/bin/phpunit --filter A
php artisan test
./vendor/bin/pest
composer test
dotnet test --no-build
dotnet test src/A.Tests/A.Tests.csproj
mvn -q test
mvn -pl core clean verify
./mvnw -B test -Dtest=ATest
./gradlew test
./gradlew :app:testDebugUnitTest --info
gradle clean build check
ctest --test-dir build
cmake --build build --target test
meson test -C build
ninja -C build test
bazel test //...
swift test
xcodebuild -scheme App test
mix test
sbt test
zig build test
flutter test
stack test
bats tests
prove -r t
nohup pytest
time pytest
nice -n 5 pytest
stdbuf -oL pytest
sudo -u postgres pytest
timeout 600 pytest
timeout -s KILL 600 pytest
docker exec -it web pytest
docker compose run --rm -e A=1 web pytest
docker compose -f a.yml exec -T web python manage.py test
podman exec web pytest
env -u HOME A=1 pytest
A=1 B="two words" pytest
[ -f a ] && pytest
if pytest; then echo good; fi
while ! pytest; do sleep 1; done
{ pytest; }
""".splitlines()


@pytest.mark.parametrize("command", TESTS)
def test_these_run_tests(command):
    actions = recognise(command)
    assert [action.kind for action in actions] == ["test"]


@pytest.mark.parametrize(
    ("command", "target"),
    [
        ("cd a && pytest -q 2>&1 | tail -20", "pytest -q"),
        ("cd /a/b; source .venv/bin/activate; pytest", "pytest"),
        ("(cd a && npm test)", "npm test"),
        ("pytest > out.txt 2>&1; tail out.txt", "pytest"),
        ("pytest || true", "pytest"),
        ("if true; then pytest; fi", "pytest"),
        ("if ! pytest; then exit 1; fi", "pytest"),
        ("out=$(pytest -q)", "pytest -q"),
        ("set -e\nexport A=1\npytest", "pytest"),
        ("bash -c 'cd a && pytest -q'", "pytest -q"),
        ("bash -lc \"pytest -k 'a b'\"", "pytest -k 'a b'"),
        ("docker exec web sh -c 'pytest'", "pytest"),
        ("sh -c 'bash -c pytest'", "pytest"),
        ("git stash && pytest && git stash pop", "pytest"),
        ("go vet ./... && go test ./...", "go test ./..."),
        ("pytest \\\n  -q", "pytest \\\n  -q"),
        ("pytest # all of them", "pytest"),
        ("ENV=1 timeout 5 uv run --frozen pytest -q", "ENV=1 timeout 5 uv run --frozen pytest -q"),
    ],
)
def test_what_of_a_command_is_the_tests(command, target):
    assert [action[:3] for action in recognise(command)] == [("test", target, None)]


def test_each_run_of_other_tests_is_a_step():
    command = "cd a && pytest -q x && npm test; pytest -q x; pytest -q y && git commit -m one && git commit -m two"
    assert [action[:2] for action in recognise(command)] == [
        ("test", "pytest -q x"), ("test", "npm test"), ("test", "pytest -q y"), ("commit", "one"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "command",
    ["pytest", "pytest\n", "cd a; pytest", "cd a && pytest > out.txt 2>&1", "date | cat && pytest", "pytest && git push",
     "pytest && echo good | cat", "pytest &&\n date", "pytest || exit 1", "bash -c 'pytest'", "if true; then pytest; fi",
     "(cd a; pytest)", "set -e\npytest\ndate", "set -o pipefail; pytest | tail", "set -euo pipefail\npytest | tail\ndate"]
)  # fmt: skip
def test_tests_that_end_as_their_command_ends(command):
    assert recognise(command)[0].is_hidden is False


@pytest.mark.parametrize(
    "command",
    ["pytest | tail", "cd a && pytest 2>&1 | tail -5", "pytest |& tail", "pytest; date", "pytest\ndate", "pytest || true",
     "pytest || exit 0", "pytest &", "(cd a && pytest) | tail", "bash -c 'pytest | tail'", "bash -c 'pytest' | tail",
     "if pytest; then date; fi", "! pytest", "for one in a b; do pytest $one; done", "pytest && date || true",
     "set -e\npytest | tail", "pytest | tee log; exit 0"]
)  # fmt: skip
def test_tests_that_may_have_failed_though_their_command_ended_well(command):
    assert [action.is_hidden for action in recognise(command)] == [True]


@pytest.mark.parametrize(
    ("command", "rivals"),
    [
        ("pytest", [0]), ("cd a && pytest", [0]), ("pytest && echo good", [0]), ("date; pytest", [0]), ("pytest a && pytest b", [1, 1]),
        ("make && pytest", [1]), ("pytest && make", [1]), ("set -e; make; pytest", [1]), ("make; pytest", [0]),
        ("pytest && git commit -m x && git push", [2, 2, 2]), ("pytest | tail && git push", [1, 0]),
        ("git add . && git commit -m x || true", [0]), ("if make; then pytest; fi", [0]), ("rg a && rg b", [1, 1]), ("rg a; rg b", [0, 0]),
    ],
)  # fmt: skip
def test_what_else_may_be_why_a_command_failed(command, rivals):
    assert [action.rivals for action in recognise(command)] == rivals


@pytest.mark.parametrize(
    ("command", "is_optional"),
    [
        ("pytest", False), ("make || pytest", True), ("if make; then cd a; pytest; fi", True), ("if pytest; then date; fi", False),
        ("if a; then b; fi; pytest", False), ("make || exit 1; pytest", False), ("a || b && pytest", False),
        ("while a; do pytest; done", True), ("pytest || exit 1", False), ("[ -f a ] && pytest", False), ("bash -c 'a || pytest'", True),
        ("git diff --quiet && exit 0; git commit -m x", True), ("if make; then exit; fi\npytest", True), ("exec make; pytest", True),
        ("trap 'exit 0' EXIT; pytest", True), ("trap 'rm a' EXIT; exec >log; exec pytest", False), ("make || exit; pytest", False),
        ("(exit 0); pytest", False), ("(exit 0; pytest)", True), ("exit 1; pytest", False),
        ("a || bash -c 'pytest'", True), ("if a; then b; else pytest; fi", True), ("for a in b; do if c; then d; fi; pytest; done", True),
    ],
)  # fmt: skip
def test_tests_that_may_not_have_been_run_though_their_command_ended_well(command, is_optional):
    assert [action.is_optional for action in recognise(command)] == [is_optional]


NO_STEP = """\
ls tests
cat tests/test_a.py
vim test.py
python test.py
./test
test -f a && echo there
[ -n "$(which pytest)" ]
which pytest
pip install pytest
uv add --dev pytest
npm install jest
pytest --version
pytest --help
pytest --collect-only
cargo test --no-run
cargo build --tests
ctest -N
tox -l
make -n test
make testdata
go test -list . ./...
npx jest --listTests
npm run build
npm run lint:test-files
npx playwright install
npx cypress open
docker build -t test .
docker compose up test
echo "git push; pytest"
echo pytest
echo 'git commit -m x'
printf '%s' 'cargo test'
git log --grep=test
git log --oneline | grep -i commit
git commit --help
git commit --dry-run
git push --dry-run
git push -n
git show HEAD:tests/a.py
git checkout test
git stash push
git status # then git push
git remote add test git@example.com:a
man git-commit
grep
rg
find .
find . -type f
find . -name '*.pyc' -delete
find . -name '*.py' -exec sed -i s/a/b/ {} +
find . -name '*.py' | xargs rm
find tests -name a | while read f; do rm $f; done
ls | grep foo
cat a | grep foo
git log | grep foo
ps aux | grep pytest
grep -l foo -r . | xargs sed -i s/foo/bar/
if grep -q foo a; then rm a; fi
fd -e py -x black
cat <<EOF > a.sh
'unclosed pytest
"unclosed; git push
python -c 'import pytest; pytest.main()'
ssh host 'pytest'
sed -i s/pytest/nose/ Makefile
""".splitlines()


@pytest.mark.parametrize("command", NO_STEP)
def test_these_are_just_commands(command):
    assert recognise(command) == []


@pytest.mark.parametrize(
    "command",
    [
        "cat > run.sh <<'EOF'\npytest\ngit push\nEOF",
        "cat <<-END | tee a\n\tgit commit -m x\n\tEND\nls",
        "python - <<'PY'\nimport subprocess\nsubprocess.run(['git', 'push'])\nPY",
        "gh pr create --body \"$(cat <<'EOF'\nran pytest; git push\nEOF\n)\"",
        "# pytest\nls",
        "ls # git push",
        "echo $'pytest\\ngit push'",
        "x" * (COMMAND_CHARS_MAX + 1) + " ; pytest",
    ],
)
def test_what_is_only_text_is_no_command(command):
    assert recognise(command) == []


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git commit -m 'Fix it'", [Action("commit", "Fix it")]),
        ("git add . && git commit -m 'Fix it' && git push", [Action("commit", "Fix it"), Action("push", "")]),
        ('git add -A; git commit -qam "a b"', [Action("commit", "a b")]),
        ("git -C /a/b commit -m x", [Action("commit", "x", "/a/b")]),
        ("git -c user.name=me commit -m x", [Action("commit", "x")]),
        ("cd a && GIT_AUTHOR_DATE=now git commit -m x", [Action("commit", "x")]),
        ("git commit -F - <<'EOF'\none\n\ntwo\nEOF", [Action("commit", "one\n\ntwo")]),
        ("git commit -m \"$(cat <<'EOF'\none\n\ntwo && git push\nEOF\n)\"", [Action("commit", "one\n\ntwo && git push")]),
        ("git commit --amend --no-edit && git push --force-with-lease origin HEAD", [Action("commit", ""), Action("push", "origin")]),
        ("git push -u origin feature/a", [Action("push", "origin")]),
        ("git push 2>&1 | tail -3", [Action("push", "", is_hidden=True)]),
        ("make test && git push", [Action("test", "make test"), Action("push", "")]),
        ("bash -c \"git add . && git commit -m 'x y'\"", [Action("commit", "x y")]),
        ("git pull --rebase && git push", [Action("push", "")]),
    ],
)  # fmt: skip
def test_commits_and_pushes(command, expected):
    assert [action._replace(rivals=0) for action in recognise(command)] == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("grep -rn foo src", [Action("search", "foo", "src")]),
        ("grep -rn --include='*.py' -A 3 'def f' .", [Action("search", "def f", ".")]),
        ("rg -n foo -g '*.ts' app", [Action("search", "foo", "app")]),
        ("rg foo | head -20", [Action("search", "foo")]),
        ("ag --ignore-dir x foo", [Action("search", "foo")]),
        ("git grep -n foo -- src", [Action("search", "foo", "src")]),
        ("git -C /a grep foo", [Action("search", "foo", "/a")]),
        ("git --no-pager grep foo", [Action("search", "foo")]),
        ("cd a && grep foo b | sort | uniq -c", [Action("search", "foo", "b")]),
        ("grep foo a || echo none", [Action("search", "foo", "a", is_hidden=True)]),
        ("grep a x; grep b y", [Action("search", "a", "x", is_hidden=True), Action("search", "b", "y")]),
        ("grep -n a x && echo --- && rg b", [Action("search", "a", "x"), Action("search", "b")]),
        ("grep a x | grep -v b", [Action("search", "a", "x")]),
        ("find . -name '*.py'", [Action("search", "*.py", ".")]),
        ("find src tests -type f -iname 'a*' -not -path '*/x/*' | head", [Action("search", "a*", "src")]),
        ("find . -not -path './x/*' -name b", [Action("search", "b", ".")]),
        ("find . -name '*.go' -exec grep -l foo {} +", [Action("search", "foo", ".")]),
        ("find a -name '*.go' | xargs grep -n foo", [Action("search", "foo", "a")]),
        ("find a -name '*.go' -print0 | xargs -0 -n 5 rg foo | head", [Action("search", "foo", "a")]),
        ("fd -e py test src", [Action("search", "test", "src")]),
        ("timeout 10 grep -r foo .", [Action("search", "foo", ".")]),
        ("bash -lc 'rg foo src'", [Action("search", "foo", "src")]),
    ],
)
def test_a_search_in_a_shell_text_is_told_from_what_is_none(command, expected):
    assert [action._replace(rivals=0) for action in recognise(command)] == expected


@pytest.mark.parametrize(
    ("output", "count"),
    [
        ("1 passed in 0.01s", 1),
        ("== 2 failed, 30 passed, 1 warning in 3s ==", 30),
        ("Summary [   0.3s] 12 tests run: 11 passed, 1 failed, 0 skipped", 11),
        ("ok | 7 passed | 0 failed (1s)", 7),
        ("ℹ tests 4\nℹ pass 3\nℹ fail 1", 3),
        (" 5 pass\n 1 fail\nRan 6 tests across 2 files. [10.00ms]", 5),
        ("Passed!  - Failed: 0, Passed: 2, Total: 2\nPassed!  - Failed: 1, Passed: 3, Total: 4", 5),
        ("FAILURES!\nTests: 8, Assertions: 20, Failures: 2, Errors: 1.", 5),
        ("12 tests completed, 2 failed, 1 skipped", 9),
        ("Executed 12 tests, with 2 failures (0 unexpected) in 0.1 (0.2) seconds", 10),
        ("5 runs, 10 assertions, 1 failures, 1 errors, 0 skips", 3),
        ("3 doctests, 12 tests, 2 failures, 1 excluded", 12),
        ("12 tests, 2 failures", 10),
        ("Tests run: 10, Failures: 1, Errors: 1, Skipped: 2", 6),
        ("100% tests passed, 0 tests failed out of 8", 8),
        ("Ran 12 of 14 Specs in 0.01 seconds\nSUCCESS! -- 12 Passed | 0 Failed | 0 Pending", 12),
        ("5 scenarios (1 failed, 4 passed)\n20 steps (20 passed)", 4),
        ("all good", None),
        ("the secret passed through", None),
    ],
)
def test_counts_of_runners(output, count):
    assert passed_count(output) == count


@pytest.mark.parametrize(
    ("output", "ending"),
    [
        ("FAILED a.py::b\n==== 1 failed, 3 passed in 0.1s ====", ("failed", "1 failed, 3 passed in 0.1s")),
        ("3 passed, 1 error in 2s", ("failed", "3 passed, 1 error in 2s")),
        ("== 3 passed, 2 warnings in 2s ==", ("ok", None)),
        ("Tests:       2 failed, 3 passed, 5 total", ("failed", "Tests:       2 failed, 3 passed, 5 total")),
        ("\x1b[32m  3 passing\x1b[0m\n\x1b[31m  1 failing\x1b[0m", ("failed", "1 failing")),
        ("  3 passing (2s)", ("ok", None)),
        ("test result: ok. 3 passed; 0 failed\ntest result: FAILED. 1 passed; 1 failed", ("failed", "test result: FAILED. 1 passed; 1 failed")),
        ("test result: ok. 3 passed; 0 failed", ("ok", None)),
        ("    --- FAIL: TestX (0.0s)\nFAIL\nFAIL\texample.com/x 0.1s\nFAIL", ("failed", "FAIL\texample.com/x 0.1s")),
        ("ok  \texample.com/x 0.1s", ("ok", None)),
        ("Ran 4 tests in 0.1s\n\nFAILED (failures=1)", ("failed", "FAILED (failures=1)")),
        ("Ran 4 tests in 0.1s\n\nOK", ("ok", None)),
        ("5 examples, 1 failure", ("failed", "5 examples, 1 failure")),
        ("5 examples, 0 failures", ("ok", None)),
        ("[ERROR] Tests run: 5, Failures: 1, Errors: 0", ("failed", "[ERROR] Tests run: 5, Failures: 1, Errors: 0")),
        ("Passed!  - Failed:     0, Passed:     2", ("ok", None)),
        ("Failed!  - Failed:     1, Passed:     2", ("failed", "Failed!  - Failed:     1, Passed:     2")),
        ("50% tests passed, 1 tests failed out of 2", ("failed", "50% tests passed, 1 tests failed out of 2")),
        ("FAIL! -- 10 Passed | 2 Failed | 0 Pending", ("failed", "FAIL! -- 10 Passed | 2 Failed | 0 Pending")),
        ("BUILD SUCCESSFUL in 3s", ("ok", None)),
        ("BUILD FAILED in 3s", ("failed", "BUILD FAILED in 3s")),
        ("# pass 3\n# fail 0", ("ok", None)),
        ("# pass 3\n# fail 1", ("failed", "# fail 1")),
        ("FAIL src/a.test.js", ("failed", "FAIL src/a.test.js")),
        ("not ok 1 - cogs", ("failed", "not ok 1 - cogs")),
        ("FAIL is what this test prints\nnot ok 1\n=== 4 passed in 0.1s ===", ("ok", None)),
        ("--- PASS: TestA (0.0s)\n--- FAIL: TestB (0.0s)", ("failed", "--- FAIL: TestB (0.0s)")),
        ("10 errors found by the linter\nall good", ("unknown", None)),
        ("", ("unknown", None)),
    ],
)  # fmt: skip
def test_how_tests_ended_by_their_runners_last_words(output, ending):
    assert runner_ending(output, passed_count(output)) == ending


@pytest.mark.parametrize(
    ("kind", "output", "ending"),
    [
        ("commit", "[main 0123456] Fix it\n 1 file changed, 2 insertions(+)", ("ok", None)),
        ("commit", " 2 files changed, 2 insertions(+)", ("ok", None)),
        ("commit", "[main 0123456] Fix it\nOn branch main\nnothing to commit, working tree clean", ("ok", None)),
        ("commit", "On branch main\nnothing to commit, working tree clean", ("failed", "nothing to commit, working tree clean")),
        ("commit", "ruff.....................................Failed\n- hook id: ruff", ("unknown", None)),
        ("commit", "error: pathspec 'x' did not match", ("failed", "error: pathspec 'x' did not match")),
        ("push", "To github.com:a/b\n   0123456..89abcde  main -> main", ("ok", None)),
        ("push", "To github.com:a/b\n * [new branch]      x -> x", ("ok", None)),
        ("push", "Everything up-to-date", ("ok", None)),
        ("push", "To github.com:a/b\n ! [rejected]        main -> main (fetch first)\nerror: failed to push", ("failed", "! [rejected]        main -> main (fetch first)")),
        ("push", "", ("unknown", None)),
    ],
)  # fmt: skip
def test_how_a_commit_or_a_push_ended_by_what_git_said(kind, output, ending):
    assert git_ending(kind, output) == ending


def test_the_commit_that_a_log_shows():
    name = "0123456789abcdef0123456789abcdef01234567"
    output = f"[main 0123456] Fix\n 1 file changed\n{name}\n"
    assert commit_digest(output, "git commit -m Fix && git log -1 --format=%H").value.hex() == name
    assert commit_digest(output, "git log -1 --format=%H; git commit -m Fix") is None


@given(st.text(st.sampled_from("abgitcommitpytestfindxargs-nm '\"\\|&;(){}<>\n$EOF#="), max_size=300))
def test_any_text_is_read(text):
    for prefix in ("", "git commit ", "find . -name ", "bash -c ", "cargo test; "):
        for action in recognise(prefix + text):
            assert action.kind in ("test", "commit", "push", "search")
    for segment in split_segments(text):
        assert len(program_of(segment.words)) <= len(segment.words)


@pytest.mark.parametrize(
    "piece",
    [
        "<<A\n", "'\"", '\\"', "$((", "git commit -m ", ">&", "2>", "# ", "bash -c ", "bash -c '", "env ", "uv run ", "if ",
        "find -exec ", "| xargs ", "-m coverage ", "c8 ", "php ", "docker compose exec ", "A=1 ", "grep a;", "\n", "coverage run ",
    ],
)  # fmt: skip
def test_hostile_commands_take_linear_time(piece):
    def seconds(chars: int) -> float:
        command = "git commit " + piece * (chars // len(piece))
        started = time.process_time()
        for text in (command, f"python {command}", piece * (chars // len(piece)) + " pytest"):
            recognise(text[:COMMAND_CHARS_MAX])
        return time.process_time() - started

    assert seconds(COMMAND_CHARS_MAX) < 3


@pytest.mark.parametrize(
    "piece",
    [
        "1 passed ",
        "Tests: ",
        "Ran 1 test in",
        "Ran 1 of 1 Specs\n",
        "1 tests, ",
        "Tests run: 1",
        "9" * 100,
        "Summary ",
        " ",
        "=",
        "1 a ",
    ],
)
def test_hostile_outputs_take_linear_time(piece):
    started = time.process_time()
    passed_count(piece * 200_000)
    runner_ending("\n" + piece * 200_000, None)
    git_ending("push", "\n" + piece * 200_000)
    assert time.process_time() - started < 3


def test_what_stands_in_any_here_document_is_no_command():
    """Behind a shift, in the second on a line, or with an end of other characters than letters, it was read as commands."""
    for text in (
        "echo $((1<<2)); cat > a <<X\ngit commit -m no\nX\npytest",
        "cat <<A <<B\nx\nA\ngit commit -m no\nB\npytest",
        "cat <<'a-b c'\ngit commit -m no\na-b c\npytest",
        "cat <<\\X\r\ngit commit -m no\r\nX\r\npytest",
    ):
        assert [(action.kind, action.what) for action in recognise(text)] == [("test", "pytest")]
