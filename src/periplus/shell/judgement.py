"""Judgement of a shell command: the programs it would run, the files it would write, and effects that no rule may allow.

``judge`` parses the text (``shell.syntax``), follows what can be followed without running it (assignments, expansions,
``cd``, functions, ``eval``, ``sh -c``, ``xargs``, ``find -exec``, input piped to a shell, programs that only start another),
and applies the rules below to each command that would run. Words that are only mentioned (in a commit message, a
search pattern, a quoted text that is printed) are not run and not judged.

The level ``catastrophic`` is the floor: no permission allows it. The judgement is no sandbox: a program that runs may do
all that the sandbox lets it do. Effects that cannot be determined are ``unclear``, which no rule approves by itself. Of
``unparsed`` text a shell may still run the lines before the one it cannot read, so it is denied like a catastrophic one.
"""

from __future__ import annotations

__all__ = ["Judgement", "Level", "Run", "judge"]

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from periplus.shell.command_words import (
    UNKNOWN,
    Layer,
    behind_options,
    braces,
    code_of,
    command_option,
    downloads,
    echoed,
    ends_data,
    is_bomb,
    is_interpreter,
    printed,
    rewritten_by,
    split,
    unwrap,
    unwrapped,
    words_for_host,
)
from periplus.shell.file_effects import FileEffects, Found, Scope
from periplus.shell.program_tables import (
    BUILDERS,
    DEVICE,
    DOWNLOADERS,
    GIT_STARTS,
    LOSSY,
    MACHINE_ENDS,
    REMOTE,
    SHELLS,
    USER_CHANGERS,
)
from periplus.shell.remote_deletions import remote_deletion_of
from periplus.shell.syntax import (
    DEPTH_MAX,
    Command,
    Function,
    Group,
    Pipeline,
    Redirect,
    ShellSyntaxError,
    Simple,
    Word,
    parse_shell,
)
from periplus.shell.verdict import (
    STARTS,
    XARGS_VALUED,
    Judgement,
    Level,
    Run,
    only_starts,
    start_hints,
    takes_code,
    words_in,
)

_STEPS_MAX: Final = 20_000
_VALUES_MAX: Final = 16
_WRITES_MAX: Final = 10_000
_WRITES: Final = frozenset({">", ">>", ">|", "&>", "&>>", "<>"})
_TEXTS: Final = re.compile(r"'((?:[^'\\\n]|\\.)*)'|\"((?:[^\"\\\n]|\\.)*)\"")
_SEPARATOR: Final = "\x02"  # marks the places where a shell splits the result of an expansion
_NO_ARGUMENTS: Final[Mapping[str, list[str]]] = {**{name: [""] for name in "123456789@*"}, "#": ["0"], "IFS": [" \t\n"]}
_WATCH_VALUED: Final = frozenset({"-n", "--interval", "-q", "--equexit"})
_FORKS: Final = re.compile(
    r"fork\s*(?:\(\s*\))?\s*while|while[^\n]{0,40}(?:\n\s*)?.{0,40}\bfork\b|\bfork\b[^\n]{0,20}\bfork\b.{0,20}\bwhile"
)
_RMTREE: Final = re.compile(
    r"(?:rmtree|rm_rf|rm_r|rmSync|rmdirSync|remove_entry|remove_tree)\s*\(?\s*['\"]([^'\"]{1,400})['\"]"
)


def judge(text: str, *, home: str = "", workspace: str = "", folder: str = "") -> Judgement:
    """Judge ``text`` as run by a shell in ``folder`` (the workspace by default). All paths are absolute."""
    judging = _Judging(home.rstrip("/") or "/home/nobody", workspace.rstrip("/"))
    try:
        script = parse_shell(text)
        scope = Scope(folder or workspace or "/nowhere", {**_NO_ARGUMENTS, "HOME": [judging.home]}, {})
        judging.run(script, scope, 0)
    except ShellSyntaxError as error:
        return Judgement("unparsed", f"it cannot be parsed: {error}")
    except RecursionError:
        return Judgement("unparsed", "it is nested too deeply to be checked")
    except Found as found:
        return judging.result("catastrophic", found.reason)
    return judging.result(judging.level, judging.reason)


def _rule_name(program: str) -> str:
    return "_run_" + program.replace("-", "_").replace(".", "_")


def _elsewhere(scope: Scope) -> Scope:
    """Return a scope for commands in a container or on another machine: in no folder of this one."""
    inner = scope.copy()
    inner.folder = "/nowhere"
    return inner


class _Judging(FileEffects):
    # -- walking ------------------------------------------------------------------------------------------------------

    def run(self, script: Sequence[Pipeline], scope: Scope, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise ShellSyntaxError(f"commands within commands, deeper than {DEPTH_MAX}")
        for pipeline in script:
            self._pipeline(pipeline, scope, depth)

    def _pipeline(self, pipeline: Pipeline, scope: Scope, depth: int) -> None:
        commands = pipeline.commands
        inner = scope if len(commands) == 1 else scope.copy()
        downloads = False
        said: list[str | None] | None = None
        for command in commands:
            words = self._words(command, inner) if isinstance(command, Simple) else []
            program, arguments = unwrapped(words)
            if command is not commands[0] and not isinstance(command, Simple):
                inner = inner.copy()
                inner.input = tuple(said) if said is not None else (None,)
            if takes_code(program, arguments) and command is not commands[0]:
                if downloads:
                    raise Found("a shell would run downloaded code unseen")
                if said is None:
                    self._hide(f"{program} would run the output of another command")
                else:
                    for text in said:
                        self._fed(program, text, inner, depth)
            self._command(command, inner, depth, is_background=pipeline.background)
            downloads = (downloads and not ends_data(program)) or program in DOWNLOADERS
            if command is commands[0]:
                known = printed(program, arguments)
                said = [*known] if known is not None else self._documents(command, inner) if program == "cat" else None
            elif program not in ("tee", "cat"):
                said = None

    def _command(self, command: Command, scope: Scope, depth: int, *, is_background: bool) -> None:
        self._steps += 1
        if self._steps > _STEPS_MAX:
            raise ShellSyntaxError(f"more than {_STEPS_MAX:,} commands")
        if isinstance(command, Function):
            scope.functions[command.name] = command.body
            if is_bomb(command.name, command.body):
                raise Found(f"a function that starts itself endlessly ({command.name}): a fork bomb")
            return
        if isinstance(command, Group):
            self._redirects(command.redirects, scope, depth)
            fed = self._documents(command, scope)
            inner = scope.copy() if command.subshell or is_background or fed else scope
            if fed:
                inner.input = tuple(fed)
            self.run(command.body, inner, depth + 1)
            return
        self._simple(command, scope, depth)

    def _simple(self, command: Simple, scope: Scope, depth: int) -> None:
        for word in (*command.words, *(word for _, word in command.assignments)):
            self._inner(word, scope, depth)
        self._redirects(command.redirects, scope, depth)
        words = self._words(command, scope)
        if not words:
            for name, word in command.assignments:
                values = self._values(word, scope)
                self._set(name, values)
                scope.values[name] = [*values, *scope.values.get(name, [])][:_VALUES_MAX] if depth else values
            return
        inner = scope
        if command.assignments:
            inner = scope.copy()
            inner.values.update({name: self._values(word, scope) for name, word in command.assignments})
            for name, _ in command.assignments:
                self._set(name, inner.values[name])
        self._argv(words, inner if command.assignments else scope, depth)
        program, arguments = unwrapped(words)
        if takes_code(program, arguments):
            own = self._documents(command, scope)
            for text in scope.input if own is None else own:
                self._fed(program, text, scope, depth)
        if program in (*SHELLS, "source", ".", "eval") and any(
            downloads(part.inner) for word in command.words for part in word.parts
        ):
            raise Found("a shell would run downloaded code unseen")

    def _fed(self, program: str | None, text: str | None, scope: Scope, depth: int) -> None:
        """Judge the standard input of a shell or interpreter."""
        if text is None:
            self._hide(f"{program} would run code from a file or from another command")
        elif program in SHELLS:
            self._text(text, scope.copy(), depth)
        else:
            assert program is not None
            self._runs.append(Run((Layer((program,), 0, None),), only_starts=True, hints=words_in(text)))
            self._code(text, scope, depth)
            self._note("unclear", f"{program} would run code that is not checked")

    def _documents(self, command: Command, scope: Scope) -> list[str | None] | None:
        """Return the redirected standard input of a command as texts, None for an unknown one; None without
        redirection.
        """
        found: list[str | None] = []
        for redirect in command.redirects if isinstance(command, Simple | Group) else ():
            if redirect.operator in ("<<", "<<-"):
                found.append(redirect.body)
            elif redirect.operator == "<<<":
                found.append("".join(self._values(redirect.target, scope)[:1]))
            elif redirect.operator in ("<", "<&", "<>"):
                parts = [part for part in redirect.target.parts if part.kind == "process"]
                if any(downloads(part.inner) for part in parts):
                    found.append(None)
                found += [text for part in parts for text in echoed(part.inner)] or [None]
        return found or None

    def _inner(self, word: Word, scope: Scope, depth: int) -> None:
        for part in word.parts:
            if part.inner:
                self.run(part.inner, scope.copy(), depth + 1)

    def _text(self, text: str, scope: Scope, depth: int) -> None:
        """Judge the script of a new shell."""
        if UNKNOWN in text:
            self._hide("the commands of a shell are only known when it runs")
        try:
            script = parse_shell(text.replace(UNKNOWN, "unknown"), depth + 1)
        except ShellSyntaxError as error:
            self._note("unparsed", f"the commands of a shell cannot be parsed: {error}")
            return
        self.run(script, scope, depth + 1)

    # -- words --------------------------------------------------------------------------------------------------------

    def _words(self, command: Command, scope: Scope) -> list[str]:
        """Return the arguments of the program; of a word with several possible values all of them."""
        found: list[str] = []
        for word in command.words if isinstance(command, Simple) else ():
            is_kept = any(part.kind == "quoted" or part.is_quoted for part in word.parts)  # also if it is empty
            for value in self._values(word, scope, splits=True):
                pieces = [piece for piece in value.split(_SEPARATOR) if piece] if _SEPARATOR in value else [value]
                for piece in pieces if is_kept else filter(None, pieces):
                    found += braces(piece) if "{" in piece else [piece]
        return found[:10_000]

    def _values(self, word: Word, scope: Scope, *, splits: bool = False) -> list[str]:
        """Return the possible values of a word; with ``splits``, marked where the shell splits fields (POSIX, 2.6.5)."""
        values = [""]
        spaces = "".join(scope.values["IFS"]) if splits else ""
        for place, part in enumerate(word.parts):
            if part.kind == "variable":
                held = scope.values.get(part.text)
                pieces = [part.default] if held in (None, [""]) and part.default else held or [UNKNOWN]
                if part.text == "PWD":
                    pieces = [scope.folder]
            elif part.kind == "substitution":
                pieces = echoed(part.inner) or [UNKNOWN]
            elif part.kind == "process":
                pieces = ["/dev/fd/63"]
            elif part.kind == "text" and place == 0 and part.text.startswith("~"):
                pieces = [self._tilde(part.text, scope)]
            else:
                pieces = [part.text]
            if splits and part.kind in ("variable", "substitution") and not part.is_quoted:
                pieces = [re.sub(f"[{re.escape(spaces)}]+", _SEPARATOR, piece) if spaces else piece for piece in pieces]
            values = [value + piece for value in values for piece in pieces][:_VALUES_MAX]
        return values

    def _tilde(self, text: str, scope: Scope) -> str:
        name, slash, rest = text[1:].partition("/")
        if not name:
            return self.home + slash + rest
        if name == "+":
            return scope.folder + slash + rest
        return ("/root" if name == "root" else f"/home/{name}") + slash + rest

    # -- one program --------------------------------------------------------------------------------------------------

    def _argv(self, words: Sequence[str], scope: Scope, depth: int) -> None:
        self._steps += 1
        if self._steps > _STEPS_MAX:
            raise ShellSyntaxError(f"more than {_STEPS_MAX:,} commands")
        found = unwrap(words)
        for name, value in found.sets:
            self._set(name, [value])
        for text in found.texts:
            self._text(text, scope.copy(), depth)
        if not found.layers:
            return
        program, arguments = unwrapped(words)
        inner_words = found.layers[-1].words
        # A function replaces a program of its name; a path to a program does not name a function.
        is_function = program in scope.functions and program not in scope.calls and program == inner_words[0]
        self._runs.append(Run(
            found.layers,
            only_starts=program is None or is_function or only_starts(program, arguments),
            hints=() if is_function else start_hints(program, arguments, is_known=program is not None and hasattr(self, _rule_name(program))),
        ))  # fmt: skip
        if any(one.wrapper is not None and one.program in USER_CHANGERS for one in found.layers) or program == "su":
            self._note("destructive", "it would run as another user")
        if program is None:
            return
        if UNKNOWN in program:
            self._hide("which program would run is only known when it runs")
            return
        if is_function:
            assert program is not None
            inner = scope.copy()
            inner.calls = (*scope.calls, program)
            inner.values |= {str(at): [argument] for at, argument in enumerate(arguments, 1)}
            inner.values |= dict.fromkeys(("@", "*"), list(arguments) or [""])
            self.run(scope.functions[program], inner, depth + 1)
            return
        lost = next(filter(None, (remote_deletion_of(one.program, one.words[1:]) for one in found.layers)), "")
        if lost:
            self._is_beyond = True
            self._note("destructive", lost)
        if found.is_elsewhere:
            with self._away():
                self._program(program, arguments, _elsewhere(scope), depth)
        else:
            self._program(program, arguments, scope, depth)

    @contextmanager
    def _away(self) -> Iterator[None]:
        """Judge commands in a container: losses there do not affect this machine."""
        self._elsewhere += 1
        try:
            yield
        except Found as found:
            self._is_beyond = True
            self._note("destructive", f"in a container: {found.reason}")
        finally:
            self._elsewhere -= 1

    def _program(self, program: str, arguments: Sequence[str], scope: Scope, depth: int) -> None:
        """Apply the rules of one program."""
        rule = getattr(self, _rule_name(program), None)
        for target in rewritten_by(program, arguments) if not self._elsewhere else ():
            if UNKNOWN not in target and len(self._rewrites) < _WRITES_MAX:
                self._rewrites[posixpath.join(scope.folder, target)] = None
        if program in ("source", "."):
            self._hide("a file would be run by this shell")
        if rule is not None:
            rule(arguments, scope, depth)
        elif program in SHELLS:
            self._shell(program, arguments, scope, depth)
        elif is_interpreter(program):
            self._interpreter(program, arguments, scope, depth)
        elif program in REMOTE:
            self._remote(program, arguments, scope, depth)
        elif program in BUILDERS:
            for argument in arguments:
                name, is_set, value = argument.partition("=")
                if is_set and name.isidentifier():
                    self._set(name, [value])
        elif program.startswith(("mkfs", "mke2fs", "mkswap")) or program in (
            "wipefs",
            "blkdiscard",
            "sgdisk",
            "cfdisk",
        ):
            if any(DEVICE.match(self._path(argument, scope)) for argument in arguments):
                raise Found(f"{program} would overwrite a device")
        elif program in MACHINE_ENDS:
            raise Found(f"{program} would stop this machine")
        if program in LOSSY:
            self._note("destructive", f"{program} changes or deletes what exists")
        self._credentials(program, arguments, scope)
        self._devices(program, arguments, scope)

    def _remote(self, program: str, arguments: Sequence[str], scope: Scope, depth: int) -> None:
        """Judge ``ssh host command``: the words after the host are the text of a remote shell (ssh(1))."""
        self._note("unclear", f"{program} would run it on another machine")
        text = " ".join(words_for_host(arguments))
        if text and program in ("ssh", "rsh", "slogin", "autossh", "mosh"):
            self._elsewhere += 1
            try:
                self._text(text, _elsewhere(scope), depth)
            finally:
                self._elsewhere -= 1

    def _shell(self, program: str, arguments: Sequence[str], scope: Scope, depth: int) -> None:
        at = command_option(arguments)
        if at is None:
            if arguments and not arguments[0].startswith("-") and not arguments[0].startswith("/dev/fd/"):
                self._note("unclear", f"{program} would run a file")
            return
        text = arguments[at] if at < len(arguments) else ""
        inner = scope.copy()
        inner.values |= {str(number): [value] for number, value in enumerate(arguments[at + 1 :])}
        if re.search(r"\$0\s*[|&]\s*\$0", text):
            raise Found("a shell that starts itself endlessly: a fork bomb")
        self._text(text, inner, depth)

    def _interpreter(self, program: str, arguments: Sequence[str], scope: Scope, depth: int) -> None:
        given = code_of(program, arguments)
        if given is not None:
            self._code(given[0], scope, depth)

    def _code(self, code: str, scope: Scope, depth: int) -> None:
        """Look for obvious effects in code of another language."""
        if _FORKS.search(code):
            raise Found("code that starts itself endlessly: a fork bomb")
        for match in _RMTREE.finditer(code):
            path = match.group(1)
            self._removal(self.home + path[1:] if path.startswith("~") else path, scope, is_deep=True)
        if STARTS.search(code) is None:
            return  # printed or compared texts are no commands
        for match in _TEXTS.finditer(code[:65_536]):
            text = match.group(1) or match.group(2) or ""
            if " " in text and depth < 4:
                saved = (
                    self.level,
                    self.reason,
                    len(self._runs),
                    dict(self._writes),
                    dict(self._sets),
                    self._is_beyond,
                    self._hides,
                    dict(self._rewrites),
                )
                self._text(text.replace('\\"', '"'), scope.copy(), depth + 4)
                (
                    self.level,
                    self.reason,
                    count,
                    self._writes,
                    self._sets,
                    self._is_beyond,
                    self._hides,
                    self._rewrites,
                ) = saved
                del self._runs[count:]

    def _run_eval(self, arguments: Sequence[str], scope: Scope, depth: int) -> None:
        self._text(" ".join(arguments), scope, depth)

    def _run_trap(self, arguments: Sequence[str], scope: Scope, depth: int) -> None:
        if arguments and arguments[0] not in ("-", "-l", "-p"):
            self._text(arguments[0], scope.copy(), depth)

    def _run_export(self, arguments: Sequence[str], scope: Scope, _depth: int) -> None:
        for argument in arguments:
            name, is_set, value = argument.partition("=")
            if is_set and name.isidentifier():
                self._set(name, [value])
                scope.values[name] = [value]

    _run_declare = _run_export
    _run_typeset = _run_export
    _run_local = _run_export
    _run_readonly = _run_export

    def _run_set(self, arguments: Sequence[str], scope: Scope, _depth: int) -> None:
        if "--" in arguments:
            given = arguments[list(arguments).index("--") + 1 :]
            scope.values |= {str(at): [argument] for at, argument in enumerate(given, 1)}
            scope.values |= dict.fromkeys(("@", "*"), list(given) or [""])

    def _run_read(self, arguments: Sequence[str], scope: Scope, _depth: int) -> None:
        for name in split(arguments)[1]:
            self._set(name, [UNKNOWN])
            scope.values[name] = [UNKNOWN]

    _run_mapfile = _run_read
    _run_readarray = _run_read

    def _run_hash(self, arguments: Sequence[str], scope: Scope, _depth: int) -> None:
        del scope
        if "-p" in arguments or "-f" in arguments:
            self._hide("a name would stand for another program")

    _run_enable = _run_hash

    def _run_watch(self, arguments: Sequence[str], scope: Scope, depth: int) -> None:
        """Judge the text of a shell after the options (watch(1))."""
        self._text(" ".join(behind_options(arguments, _WATCH_VALUED)), scope.copy(), depth)

    def _run_script(self, arguments: Sequence[str], scope: Scope, depth: int) -> None:
        """Judge ``script -c TEXT`` and ``su -c TEXT``."""
        for at, argument in enumerate(arguments[:-1]):
            if argument == "--command" or (argument[:1] == "-" and argument[1:2] != "-" and argument.endswith("c")):
                self._text(arguments[at + 1], scope.copy(), depth)

    _run_su = _run_script

    def _run_awk(self, arguments: Sequence[str], scope: Scope, depth: int) -> None:
        code = " ".join(arguments)
        if re.search(r"system\s*\(|\|\s*\"|\"\s*\|&?\s*getline", code):
            self._code(code, scope, depth)
            self._note("unclear", "awk would start commands")

    _run_gawk = _run_awk
    _run_mawk = _run_awk

    def _run_cd(self, arguments: Sequence[str], scope: Scope, _depth: int) -> None:
        named = [argument for argument in arguments if not re.fullmatch(r"-[LPe]+|--", argument)]
        target = named[0] if named else self.home
        scope.folder = "/nowhere/" + UNKNOWN if target == "-" or UNKNOWN in target else self._path(target, scope)

    _run_pushd = _run_cd

    def _run_find(self, arguments: Sequence[str], scope: Scope, depth: int) -> None:
        roots = []
        for argument in arguments:
            if argument.startswith(("-", "(", "!")) and argument not in ("-L", "-H", "-P"):
                break
            if not argument.startswith("-"):
                roots.append(argument)
        rest = list(arguments)
        narrows = any(
            test in rest for test in ("-name", "-iname", "-path", "-regex", "-mtime", "-newer", "-size", "-empty")
        )
        if "-delete" in rest:
            self._note("destructive", "find -delete deletes what it finds")
            for root in roots or ["."]:
                if not narrows or self._is_top(self._path(root, scope)):
                    self._removal(root, scope, is_deep=True, is_inner_fine=narrows)
        at = 0
        while at < len(rest):
            at += 1
            if rest[at - 1] not in ("-exec", "-execdir", "-ok", "-okdir"):
                continue
            stop = next((end for end in range(at, len(rest)) if rest[end] in (";", "+")), len(rest))
            inner, at = rest[at:stop], stop
            takes_away = unwrapped(inner)[0] in ("rm", "unlink", "shred", "rmdir")
            for root in (roots or ["."])[:_VALUES_MAX]:
                if takes_away and (not narrows or self._is_top(self._path(root, scope))):
                    self._removal(root, scope, is_deep=True, is_inner_fine=narrows)
                self._argv([word.replace("{}", root) for word in inner], scope.copy(), depth + 1)

    def _run_xargs(self, arguments: Sequence[str], scope: Scope, depth: int) -> None:
        inner = list(behind_options(arguments, XARGS_VALUED))
        if not inner:
            return
        # The input replaces the mark of -I, else follows at the end.
        self._argv(inner, scope.copy(), depth + 1)
        if unwrapped(inner)[0] in SHELLS:
            self._hide("a shell would run the output of another command")

    def _run_parallel(self, arguments: Sequence[str], scope: Scope, depth: int) -> None:
        """Judge ``parallel git push ::: a b`` and ``parallel 'git push' ::: a``: the words are the text of a shell
        (parallel(1)).
        """
        inner = list(behind_options(arguments, XARGS_VALUED))
        stop = next((at for at, word in enumerate(inner) if re.fullmatch(r":::[:+]*", word)), len(inner))
        if stop:
            self._text(" ".join(inner[:stop]), scope.copy(), depth)
        else:
            self._hide("the commands come from the output of another command")

    def _run_fd(self, arguments: Sequence[str], scope: Scope, depth: int) -> None:
        for at, argument in enumerate(arguments):
            if argument in ("-x", "-X", "--exec", "--exec-batch"):
                self._argv(list(arguments[at + 1 :]), scope.copy(), depth + 1)
                return

    _run_fdfind = _run_fd

    def _run_kill(self, arguments: Sequence[str], scope: Scope, _depth: int) -> None:
        del scope
        pids = (
            [argument for argument in arguments[1:] if argument.lstrip("-").isdigit()]
            if len(arguments) > 1
            else list(arguments)
        )
        if "-1" in pids or "1" in pids:
            raise Found("it would end every process of this machine")
        self._note("destructive", "a process would be ended")

    def _run_crontab(self, arguments: Sequence[str], scope: Scope, _depth: int) -> None:
        del scope
        if "-r" in arguments:
            raise Found("crontab -r would remove every job of this user")

    def _run_git(self, arguments: Sequence[str], scope: Scope, depth: int) -> None:
        at = 0
        rest = list(arguments)
        while at < len(rest) and rest[at].startswith("-"):
            if rest[at] == "-c" and at + 1 < len(rest) and rest[at + 1].startswith("alias.") and "=!" in rest[at + 1]:
                self._text(rest[at + 1].partition("=!")[2], scope.copy(), depth)
            if rest[at] == "-c" and at + 1 < len(rest) and GIT_STARTS.match(rest[at + 1].lower()):
                self._note("unclear", "git would start a program that is named in the call")
            if rest[at].startswith(("--exec-path=", "--config-env")):
                self._note("unclear", "git would start a program from another folder")
            at += 2 if rest[at] in ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path") else 1
        verb, more = (rest[at], rest[at + 1 :]) if at < len(rest) else ("", [])
        options, targets = split(more)
        self._started_by_git(verb, more, scope, depth)
        short = {letter for option in options if option[1:2] != "-" for letter in option[1:]}
        if verb == "push":
            if "f" in short or "--mirror" in options or any(option == "--force" for option in options):
                raise Found("a forced push would overwrite what others have pushed")
            if any(target.startswith("+") for target in targets[1:]):
                raise Found("a forced push (a refspec with +) would overwrite what others have pushed")
            if any(
                option.startswith(("--force-with-lease", "--force-if", "--delete", "--prune")) for option in options
            ) or ("d" in short or any(target.startswith(":") for target in targets[1:])):
                self._note("destructive", "git push would delete or overwrite branches at the remote")
            return
        lossy = (
            (verb == "reset" and "--hard" in options) or (verb == "clean" and ("f" in short or "--force" in options))
            or (verb == "checkout" and ("--" in more or "." in targets or "f" in short or "--force" in options))
            or (verb == "restore" and "--staged" not in options) or (verb == "branch" and "D" in short)
            or (verb == "stash" and targets[:1] in (["drop"], ["clear"])) or verb in ("filter-branch", "filter-repo", "gc", "prune")
            or (verb == "reflog" and targets[:1] in (["expire"], ["delete"])) or (verb == "update-ref" and "d" in short)
            or (verb == "rm" and short & {"r", "f"} and "--cached" not in options)
            or (verb == "worktree" and targets[:1] == ["remove"]) or (verb == "rebase") or (verb == "tag" and "d" in short)
        )  # fmt: skip
        if lossy:
            self._note("destructive", f"git {verb} may discard work that is saved nowhere else")

    def _started_by_git(self, verb: str, arguments: Sequence[str], scope: Scope, depth: int) -> None:
        """Judge commands that git runs: ``submodule foreach``, ``bisect run``, ``rebase --exec``, programs named by
        options.
        """
        operands = split(arguments)[1]
        if verb == "submodule" and operands[:1] == ["foreach"]:
            inner = behind_options(arguments[list(arguments).index("foreach") + 1 :], frozenset())
            self._text(" ".join(inner), scope.copy(), depth)
        elif verb == "bisect" and operands[:1] == ["run"]:
            self._argv(list(arguments[list(arguments).index("run") + 1 :]), scope.copy(), depth + 1)
        for at, argument in enumerate(arguments):
            name, is_given, value = argument.partition("=")
            if (verb, name) in (("rebase", "-x"), ("rebase", "--exec"), ("difftool", "-x"), ("difftool", "--extcmd")):
                self._text(value if is_given else "".join(arguments[at + 1 : at + 2]), scope.copy(), depth)
            elif name in ("--upload-pack", "--receive-pack", "--ext-diff", "--textconv") or (
                verb == "grep" and name.startswith(("-O", "--open-files-in-pager"))
            ):
                self._note("unclear", "git would start a program that is named in the call")

    # -- redirections -------------------------------------------------------------------------------------------------

    def _redirects(self, redirects: Sequence[Redirect], scope: Scope, depth: int) -> None:
        for redirect in redirects:
            self._inner(redirect.target, scope, depth)
            if redirect.inner:
                self.run(redirect.inner, scope.copy(), depth + 1)
            is_copy = redirect.operator == ">&" and not re.fullmatch(r"\d+-?|-", redirect.target.literal or "")
            if redirect.operator in _WRITES or is_copy:
                for value in self._values(redirect.target, scope):
                    self._written(value, scope, is_redirected=True)
            elif redirect.operator == "<":
                for value in self._values(redirect.target, scope):
                    if self._is_credential(self._path(value, scope)):
                        raise Found(f"{value} holds credentials")
