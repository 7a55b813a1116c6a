"""Parser of the POSIX shell grammar (IEEE Std 1003.1, chapter 2) and bash's common additions.

Nothing is run or expanded, except what is certain without running: quotes are removed, parts of a word that only a
shell can expand are kept as such, and the contents of substitutions, groups, functions and here-documents are parsed.
Time and depth are bounded. Text that cannot be parsed raises ShellSyntaxError, and must not be taken for harmless.
"""

from __future__ import annotations

__all__ = [
    "Command",
    "Function",
    "Group",
    "Part",
    "Pipeline",
    "Redirect",
    "ShellSyntaxError",
    "Simple",
    "Word",
    "parse_shell",
]

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

TEXT_CHARACTERS_MAX: Final = 256 * 1024
DEPTH_MAX: Final = 24
_OPERATORS: Final = ("&&", "||", ";;&", ";;", ";&", "|&", "&>>", "&>", "<<<", "<<-", "<<", "<&", ">&", "<>", ">>", ">|",
                     "<(", ">(", "|", "&", ";", "<", ">", "(", ")", "\n")  # fmt: skip
_REDIRECTS: Final = frozenset({"<", ">", ">>", ">|", "<>", "<&", ">&", "&>", "&>>", "<<", "<<-", "<<<"})
_META: Final = frozenset(" \t\r\n|&;<>()")
_RESERVED_OPEN: Final = frozenset({"if", "while", "until", "then", "do", "else", "elif", "!", "{", "time"})
_RESERVED_CLOSE: Final = frozenset({"fi", "done", "}", "esac"})
PartKind: TypeAlias = Literal["text", "quoted", "variable", "substitution", "glob", "process"]


class ShellSyntaxError(ValueError):
    """The text is no valid shell input, or too long or too deeply nested."""


class Part(NamedTuple):
    """Piece of a word: literal text, a variable (``text`` is its name, ``default`` its value when unset), or commands
    (``inner``). The value of an unquoted variable or substitution is split into words.
    """

    kind: PartKind
    text: str
    inner: tuple[Pipeline, ...] = ()
    default: str = ""
    is_quoted: bool = False


class Word(NamedTuple):
    """A word as a sequence of parts."""

    parts: tuple[Part, ...]

    @property
    def literal(self) -> str | None:
        """The word as the program gets it; None where only a shell can expand it."""
        if any(part.kind not in ("text", "quoted") for part in self.parts):
            return None
        return "".join(part.text for part in self.parts)

    @property
    def shown(self) -> str:
        """The word as far as it is known: variables as ``$NAME``, substitutions as ``$(…)``."""
        marks = {"variable": "${}", "substitution": "$(…)", "process": "<(…)"}
        return "".join(
            marks[part.kind].replace("{}", part.text) if part.kind in marks else part.text for part in self.parts
        )


@dataclass(slots=True)
class Redirect:
    """Redirection and its target; ``body`` is the text of a here-document, ``inner`` the commands within it. Both are
    set at the end of the line, after the command was made.
    """

    operator: str
    target: Word
    body: str = ""
    inner: tuple[Pipeline, ...] = ()


class Simple(NamedTuple):
    """A simple command."""

    assignments: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]


class Group(NamedTuple):
    """Body of parentheses, braces or a control structure. In a ``subshell`` changes of folder end with it."""

    body: tuple[Pipeline, ...]
    redirects: tuple[Redirect, ...] = ()
    subshell: bool = False


class Function(NamedTuple):
    """A function definition."""

    name: str
    body: tuple[Pipeline, ...]


Command: TypeAlias = Simple | Group | Function


class Pipeline(NamedTuple):
    """Commands of which each reads the output of the one before."""

    commands: tuple[Command, ...]
    background: bool = False


def parse_shell(text: str, depth: int = 0) -> tuple[Pipeline, ...]:
    """Parse a script. Raises ShellSyntaxError."""
    if len(text) > TEXT_CHARACTERS_MAX:
        raise ShellSyntaxError(f"a command of {len(text):,} characters")
    if "\0" in text:
        raise ShellSyntaxError("a NUL in a command")
    parser = _Parser(text, depth)
    found = parser.pipelines(frozenset())
    parser.finish()
    return found


class _Parser:
    def __init__(self, text: str, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise ShellSyntaxError(f"commands within commands, deeper than {DEPTH_MAX}")
        self._text = text.replace("\\\n", "")
        self._at = 0
        self._depth = depth
        self._pending: list[tuple[Redirect, str, bool, bool]] = []  # here-documents whose bodies follow
        self._loops = 0

    # -- lists and pipelines ------------------------------------------------------------------------------------------

    def finish(self) -> None:
        self._blank()
        if self._at < len(self._text):
            raise ShellSyntaxError(f"{self._text[self._at]!r} where a command should end")
        if self._pending:
            raise ShellSyntaxError("a here-document without its end")

    def pipelines(self, ends: frozenset[str]) -> tuple[Pipeline, ...]:
        """Parse up to one of ``ends`` (words or operators), which is not consumed, or to the end of the text."""
        found: list[Pipeline] = []
        while True:
            self._skip_separators(ends)
            if self._at >= len(self._text) or self._is_next(ends):
                return tuple(found)
            commands = [self._command()]
            while self._operator() in ("|", "|&"):
                self._take_operator()
                self._skip_newlines()
                commands.append(self._command())
            operator = self._operator()
            found.append(Pipeline(tuple(commands), operator == "&"))
            if operator is None and self._at < len(self._text) and not self._is_next(ends):
                raise ShellSyntaxError(f"{self._text[self._at : self._at + 20]!r} where a command should end")
            if operator == ")" and ")" not in ends:
                raise ShellSyntaxError("a parenthesis that nothing opened")

    def _skip_separators(self, ends: frozenset[str]) -> None:
        while True:
            operator = self._operator()
            if operator in ("&&", "||", ";", "&", "\n", ";;", ";&", ";;&") and operator not in ends:
                self._take_operator()
            else:
                return

    def _skip_newlines(self) -> None:
        while self._operator() == "\n":
            self._take_operator()

    def _is_next(self, ends: frozenset[str]) -> bool:
        if not ends:
            return False
        operator = self._operator()
        if operator is not None:
            return operator in ends
        return self._bare_word() in ends

    # -- commands -----------------------------------------------------------------------------------------------------

    def _command(self) -> Command:
        self._loops += 1
        if self._loops > 20_000:
            raise ShellSyntaxError("more than 20,000 commands")
        operator = self._operator()
        if operator == "(":
            if self._text.startswith("((", self._at):
                return self._arithmetic()
            self._take_operator()
            return self._group(frozenset({")"}), subshell=True)
        word = self._bare_word()
        if word == "{":
            self._take_word()
            return self._group(frozenset({"}"}), subshell=False)
        if word in ("for", "select"):
            return self._for()
        if word == "case":
            return self._case()
        if word == "function":
            self._take_word()
            self._blank()
            name = self._bare_word()
            self._take_word()
            if self._operator() == "(":
                self._take_operator()
                self._expect(")")
            return Function(name, self._function_body())
        if word in ("if", "while", "until"):
            return self._control()
        if word == "[[":
            return self._test()
        if word in ("!", "time"):
            self._take_word()
            if word == "time" and self._bare_word() == "-p":
                self._take_word()
            return self._command() if self._operator() not in ("\n", ";", "&", ")") else Simple((), (), ())
        if word in _RESERVED_CLOSE or word in _RESERVED_OPEN:
            raise ShellSyntaxError(f"{word!r} where a command should begin")
        return self._simple()

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise ShellSyntaxError(f"commands within commands, deeper than {DEPTH_MAX}")

    def _group(self, ends: frozenset[str], *, subshell: bool) -> Group:
        self._deeper()
        body = self.pipelines(ends)
        for end in ends:
            self._expect(end)
        self._depth -= 1
        return Group(body, self._redirects(), subshell)

    def _control(self) -> Group:
        """Parse ``if``, ``while`` and ``until``: all that may run, in order."""
        self._deeper()
        opened = self._take_word()
        close = "fi" if opened == "if" else "done"
        body: list[Pipeline] = []
        inner = frozenset({"then", "else", "elif", "do", close})
        while True:
            body += self.pipelines(inner)
            word = self._bare_word()
            if word not in inner:
                raise ShellSyntaxError(f"{opened!r} without its {close!r}")
            self._take_word()
            if word == close:
                break
        self._depth -= 1
        return Group(tuple(body), self._redirects())

    def _for(self) -> Group:
        self._deeper()
        self._take_word()
        self._blank()
        if self._text.startswith("((", self._at):
            self._skip_parentheses()
            name = ""
        else:
            name = self._bare_word()
            self._take_word()
        words: list[Word] = []
        self._skip_newlines()
        if self._bare_word() == "in":
            self._take_word()
            while self._operator() is None and self._at < len(self._text):
                words.append(self._word())
        self._skip_separators(frozenset())
        if self._bare_word() not in ("do", "{"):
            raise ShellSyntaxError("a loop without its 'do'")
        close = "done" if self._take_word() == "do" else "}"
        body = self.pipelines(frozenset({close}))
        self._expect(close)
        self._depth -= 1
        # The loop words are the possible values of the variable, assigned before the body.
        told = tuple(Pipeline((Simple(((name, word),), (), ()),)) for word in words if name)
        rounds = [piece for one in told for piece in (one, *body)] if len(told) <= 16 else [*told, *body]
        return Group(tuple(rounds) or body, self._redirects())

    def _case(self) -> Group:
        self._deeper()
        self._take_word()
        self._blank()
        subject = self._word()
        self._skip_newlines()
        if self._bare_word() != "in":
            raise ShellSyntaxError("a 'case' without its 'in'")
        self._take_word()
        body: list[Pipeline] = [Pipeline((Simple((), (Word((Part("text", ":"),)), subject), ()),))]
        while True:
            self._skip_newlines()
            if self._bare_word() == "esac":
                self._take_word()
                break
            if self._at >= len(self._text):
                raise ShellSyntaxError("a 'case' without its 'esac'")
            if self._operator() == "(":
                self._take_operator()
            while self._operator() != ")":
                if self._at >= len(self._text) or self._operator() not in (None, "|"):
                    raise ShellSyntaxError("a pattern of a 'case' without its ')'")
                if self._operator() == "|":
                    self._take_operator()
                else:
                    self._word()
            self._take_operator()
            body += self.pipelines(frozenset({";;", ";&", ";;&", "esac"}))
            if self._operator() in (";;", ";&", ";;&"):
                self._take_operator()
        self._depth -= 1
        return Group(tuple(body), self._redirects())

    def _test(self) -> Simple:
        """Parse ``[[ … ]]`` into words; its operators are words."""
        words: list[Word] = []
        while True:
            self._blank()
            if self._at >= len(self._text):
                raise ShellSyntaxError("a '[[' without its ']]'")
            operator = self._operator()
            if operator is not None:
                self._at += len(operator)
                continue
            word = self._word()
            words.append(word)
            if word.literal == "]]":
                return Simple((), tuple(words), self._redirects())

    def _arithmetic(self) -> Simple:
        inner = self._skip_parentheses()
        return Simple((), (Word((Part("text", "let"),)), Word(tuple(self._double_quoted(inner)))), ())

    def _function_body(self) -> tuple[Pipeline, ...]:
        self._skip_newlines()
        return (Pipeline((self._command(),)),)

    def _simple(self) -> Command:
        assignments: list[tuple[str, Word]] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        while True:
            operator = self._operator()
            if operator in _REDIRECTS:
                self._redirect(redirects)
                continue
            if operator == "(" and len(words) == 1 and not redirects and not assignments:
                after = self._text[self._at + 1 :].lstrip(" \t")
                if not after.startswith(")"):
                    raise ShellSyntaxError("a parenthesis in a command")
                name = words[0].shown
                self._take_operator()
                self._expect(")")
                return Function(name, self._function_body())
            if operator is not None and operator not in ("<(", ">("):
                if operator == "(":
                    raise ShellSyntaxError("a parenthesis in a command")
                break
            if self._at >= len(self._text):
                break
            if self._is_descriptor():
                continue
            word = self._word()
            assigned = _assigned(word) if not words else None
            if assigned is not None:
                if not assigned[1].parts and self._text.startswith("(", self._at):
                    assigned = (assigned[0], Word(tuple(self._array())))
                assignments.append(assigned)
            else:
                words.append(word)
        if not (assignments or words or redirects):
            raise ShellSyntaxError("no command where one should be")
        return Simple(tuple(assignments), tuple(words), tuple(redirects))

    def _array(self) -> Iterator[Part]:
        self._at += 1
        while True:
            self._blank()
            if self._at >= len(self._text):
                raise ShellSyntaxError("a list without its ')'")
            if self._text[self._at] in ")\n":
                self._at += 1
                if self._text[self._at - 1] == ")":
                    return
                continue
            if self._operator() is not None:
                raise ShellSyntaxError("an operator in a list")
            yield from self._word().parts
            yield Part("text", " ")

    def _is_descriptor(self) -> bool:
        """Skip the number before a redirection, which is no word."""
        at = self._at
        while at < len(self._text) and self._text[at].isdigit():
            at += 1
        if at > self._at and self._text[at : at + 1] in ("<", ">"):
            self._at = at
            return True
        return False

    def _redirects(self) -> tuple[Redirect, ...]:
        found: list[Redirect] = []
        while True:
            self._blank()
            if self._operator() in _REDIRECTS:
                self._redirect(found)
            elif not self._is_descriptor():
                return tuple(found)

    def _redirect(self, found: list[Redirect]) -> None:
        operator = self._take_operator()
        self._blank()
        if self._at >= len(self._text) or self._operator() not in (None, "<(", ">("):
            raise ShellSyntaxError(f"nothing behind {operator!r}")
        target = self._word()
        redirect = Redirect(operator, target)
        found.append(redirect)
        if operator in ("<<", "<<-"):
            is_quoted = any(part.kind == "quoted" for part in target.parts)
            self._pending.append((redirect, target.shown, operator == "<<-", is_quoted))

    def _take_documents(self) -> None:
        """Read the bodies of the here-documents that the finished line began."""
        for redirect, end, is_indented, is_quoted in self._pending:
            lines: list[str] = []
            while True:
                if self._at >= len(self._text):
                    raise ShellSyntaxError("a here-document without its end")
                stop = self._text.find("\n", self._at)
                stop = len(self._text) if stop < 0 else stop
                line = self._text[self._at : stop]
                self._at = min(stop + 1, len(self._text))
                if (line.lstrip("\t") if is_indented else line) == end:
                    break
                lines.append(line)
            redirect.body = "\n".join(lines)
            if not is_quoted:
                redirect.inner = tuple(piece for part in self._double_quoted(redirect.body) for piece in part.inner)
        self._pending = []

    # -- words --------------------------------------------------------------------------------------------------------

    def _word(self) -> Word:
        """Parse the word at this place. Raises ShellSyntaxError where there is none."""
        self._blank()
        parts: list[Part] = []
        text = self._text
        begun = self._at
        while self._at < len(text):
            char = text[self._at]
            if char in "<>" and text[self._at + 1 : self._at + 2] == "(" and (self._at == begun or parts):
                self._at += 2
                parts.append(Part("process", "", self._commands_in_parentheses()))
            elif char in _META:
                break
            elif char == "'":
                stop = text.find("'", self._at + 1)
                if stop < 0:
                    raise ShellSyntaxError("a quote without its end")
                parts.append(Part("quoted", text[self._at + 1 : stop]))
                self._at = stop + 1
            elif char == '"':
                parts += self._quoted()
            elif char == "\\":
                parts.append(Part("quoted", text[self._at + 1 : self._at + 2]))
                self._at += 2
            elif char == "$":
                parts += self._dollar(in_quotes=False)
            elif char == "`":
                parts.append(self._backticks())
            elif char in "*?[":
                parts.append(Part("glob", char))
                self._at += 1
            else:
                stop = self._at
                while stop < len(text) and text[stop] not in _META and text[stop] not in "'\"\\$`*?[":
                    stop += 1
                parts.append(Part("text", text[self._at : stop]))
                self._at = stop
        if self._at == begun:
            raise ShellSyntaxError("no word where one should be")
        return Word(tuple(parts))

    def _quoted(self) -> list[Part]:
        self._at += 1
        begun = self._at
        stop = self._end_of_quoted()
        self._at = stop + 1
        found = list(self._double_quoted(self._text[begun:stop]))
        return found or [Part("quoted", "")]

    def _end_of_quoted(self) -> int:
        """Return the end of the open double quote; substitutions within have quotes of their own."""
        text, at, depth = self._text, self._at, 0
        while at < len(text):
            if text[at] == "\\":
                at += 2
                continue
            if text[at] == '"' and not depth:
                return at
            if text.startswith("$(", at) or text.startswith("${", at):
                inner = _Parser(text, self._depth + 1)
                inner._at = at
                inner._dollar(in_quotes=True)
                at = inner._at
                continue
            at += 1
        raise ShellSyntaxError("a quote without its end")

    def _double_quoted(self, text: str) -> Iterator[Part]:
        """Yield the parts of a text in double quotes, or of a here-document."""
        inner = _Parser(text, self._depth + 1)
        held: list[str] = []
        while inner._at < len(text):
            char = text[inner._at]
            if char == "\\" and text[inner._at + 1 : inner._at + 2] in ("$", "`", '"', "\\", "\n"):
                held.append(text[inner._at + 1])
                inner._at += 2
            elif char in "$`":
                if held:
                    yield Part("quoted", "".join(held))
                    held = []
                for part in inner._dollar(in_quotes=True) if char == "$" else (inner._backticks(),):
                    yield part._replace(is_quoted=True)
            else:
                held.append(char)
                inner._at += 1
        if held:
            yield Part("quoted", "".join(held))

    def _dollar(self, *, in_quotes: bool) -> list[Part]:
        text, at = self._text, self._at
        follows = text[at + 1 : at + 2]
        if follows == "(":
            if text.startswith("$((", at):
                saved = self._at
                self._at += 1
                try:
                    inner = self._skip_parentheses()
                except ShellSyntaxError:
                    self._at = saved  # a subshell in a substitution
                else:
                    return [
                        Part("substitution", "", tuple(p for part in self._double_quoted(inner) for p in part.inner))
                    ]
            self._at += 2
            return [Part("substitution", "", self._commands_in_parentheses())]
        if follows == "{":
            return [self._braced()]
        if follows == "'" and not in_quotes:
            return [self._ansi_quoted()]
        if follows == '"' and not in_quotes:
            self._at += 1
            return self._quoted()
        if follows and (follows.isalpha() or follows == "_"):
            stop = at + 1
            while stop < len(text) and (text[stop].isalnum() or text[stop] == "_"):
                stop += 1
            self._at = stop
            return [Part("variable", text[at + 1 : stop])]
        if follows and (follows.isdigit() or follows in "@*#?-$!"):
            self._at += 2
            return [Part("variable", follows)]
        self._at += 1
        return [Part("quoted" if in_quotes else "text", "$")]

    def _braced(self) -> Part:
        """Parse ``${NAME}`` with its operator: a default is a possible value."""
        text = self._text
        at = self._at + 2
        depth, stop = 1, at
        while stop < len(text) and depth:
            if text[stop] == "\\":
                stop += 1
            elif text.startswith("${", stop):
                depth += 1
                stop += 1
            elif text[stop] == "}":
                depth -= 1
            stop += 1
        if depth:
            raise ShellSyntaxError("a '${' without its '}'")
        inside = text[at : stop - 1]
        self._at = stop
        name_end = 0
        while name_end < len(inside) and (inside[name_end].isalnum() or inside[name_end] in "_!#@*?"):
            name_end += 1
            if inside[name_end - 1] == "#" and name_end > 1:
                name_end -= 1
                break
        name, rest = inside[:name_end], inside[name_end:]
        parts = list(self._double_quoted(rest))
        inner = tuple(piece for part in parts for piece in part.inner)
        default = ""
        if rest.startswith((":-", "-", ":=", "=", ":+", "+")):
            default = "".join(part.text for part in self._double_quoted(rest.lstrip(":")[1:])).strip("\"'")
        return Part("variable", name.lstrip("!"), inner, default)

    def _ansi_quoted(self) -> Part:
        """Parse ``$'…'`` with its escapes."""
        text, at = self._text, self._at + 2
        found: list[str] = []
        plain = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
        while at < len(text) and text[at] != "'":
            if text[at] != "\\":
                found.append(text[at])
                at += 1
                continue
            code = text[at + 1 : at + 2]
            at += 2
            if code in plain:
                found.append(plain[code])
            elif code in "xuU" and code:
                most = {"x": 2, "u": 4, "U": 8}[code]
                digits = ""
                while len(digits) < most and text[at : at + 1] and text[at] in "0123456789abcdefABCDEF":
                    digits += text[at]
                    at += 1
                if digits and int(digits, 16) <= 0x10FFFF:
                    found.append(chr(int(digits, 16)))
            elif code and code in "01234567":
                digits = code
                while len(digits) < 3 and text[at : at + 1] and text[at] in "01234567":
                    digits += text[at]
                    at += 1
                found.append(chr(int(digits, 8) & 0xFF))
            else:
                found.append(code)
        if at >= len(text):
            raise ShellSyntaxError("a quote without its end")
        self._at = at + 1
        return Part("quoted", "".join(found))

    def _backticks(self) -> Part:
        text, at = self._text, self._at + 1
        found: list[str] = []
        while at < len(text) and text[at] != "`":
            if text[at] == "\\" and text[at + 1 : at + 2] in ("`", "\\", "$"):
                at += 1
            found.append(text[at : at + 1])
            at += 1
        if at >= len(text):
            raise ShellSyntaxError("a backquote without its end")
        self._at = at + 1
        return Part("substitution", "", parse_shell("".join(found), self._depth + 1))

    def _commands_in_parentheses(self) -> tuple[Pipeline, ...]:
        """Parse the commands up to the closing parenthesis, which is consumed."""
        inner = _Parser(self._text, self._depth + 1)
        inner._at = self._at
        found = inner.pipelines(frozenset({")"}))
        inner._expect(")")
        self._at = inner._at
        return found

    def _skip_parentheses(self) -> str:
        """Return ``((…))`` as text. Raises ShellSyntaxError where it is something else."""
        text, depth, at = self._text, 0, self._at
        while at < len(text):
            if text[at] == "(":
                depth += 1
            elif text[at] == ")":
                depth -= 1
                if not depth:
                    if not text.startswith("((", self._at) or text[at - 1] != ")":
                        raise ShellSyntaxError("parentheses that do not match")
                    found = text[self._at + 2 : at - 1]
                    self._at = at + 1
                    return found
            at += 1
        raise ShellSyntaxError("parentheses that do not match")

    # -- lookahead ----------------------------------------------------------------------------------------------------

    def _blank(self) -> None:
        text = self._text
        while self._at < len(text):
            char = text[self._at]
            if char in " \t\r":
                self._at += 1
            elif char == "#" and (self._at == 0 or text[self._at - 1] in _META):
                stop = text.find("\n", self._at)
                self._at = len(text) if stop < 0 else stop
            else:
                return

    def _operator(self) -> str | None:
        self._blank()
        if self._at >= len(self._text) or self._text[self._at] not in _META:
            return None
        return next((found for found in _OPERATORS if self._text.startswith(found, self._at)), None)

    def _take_operator(self) -> str:
        operator = self._operator()
        assert operator is not None
        self._at += len(operator)
        if operator == "\n":
            self._take_documents()
        return operator

    def _bare_word(self) -> str:
        """Return the word at this place if it has no quotes or expansions, as reserved words have none."""
        self._blank()
        stop = self._at
        while stop < len(self._text) and self._text[stop] not in _META:
            if self._text[stop] in "'\"\\$`":
                return ""
            stop += 1
        return self._text[self._at : stop]

    def _take_word(self) -> str:
        word = self._bare_word()
        if not word:
            raise ShellSyntaxError("no word where one should be")
        self._at += len(word)
        return word

    def _expect(self, what: str) -> None:
        found = self._operator() if what == ")" else self._bare_word()
        if found != what:
            raise ShellSyntaxError(f"no {what!r} where one should be")
        self._at += len(what)


def _assigned(word: Word) -> tuple[str, Word] | None:
    first = word.parts[0]
    if first.kind != "text" or "=" not in first.text:
        return None
    name, _, rest = first.text.partition("=")
    name = name.removesuffix("+")
    if not name or not (name[0].isalpha() or name[0] == "_") or not name.replace("_", "a").isalnum():
        return None
    parts = ((Part("text", rest),) if rest else ()) + word.parts[1:]
    return name, Word(parts)
