"""Bash and its relatives: sh, dash, ksh, and what of zsh has the same syntax; tests of Bats.

Functions and variables have names of their own: a variable is looked up with its ``$``. What a function assigns without ``local`` is
global, so such an assignment refers to the variable that is assigned outside of functions.
"""

from __future__ import annotations

__all__ = ["BASH"]

import re
from typing import TYPE_CHECKING, Final

from periplus.code.languages.table import Extraction, Language, Naming

if TYPE_CHECKING:
    import tree_sitter

# Commands of the shell and of every system, and variables that the shell or the system sets.
_BUILTINS: Final = frozenset(
    ": [ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown echo enable eval exec exit "
    "export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return "
    "set shift shopt source suspend test times trap true type typeset ulimit umask unalias unset wait awk basename bc bunzip2 bzip2 cat "
    "chgrp chmod chown cksum clear cmp comm cp curl cut date dd df diff dirname du env expand expr file find fold free getent git grep "
    "egrep fgrep groups gunzip gzip head hostname iconv id install join killall less ln ls make man md5sum mkdir mkfifo mktemp more mount "
    "mv nl nohup od openssl paste patch perl ping pkill pgrep printenv ps python python3 readlink realpath rm rmdir rsync ruby scp sed seq "
    "sha1sum sha256sum sleep sort split ssh stat strings stty su sudo sync tac tail tar tee time timeout touch tput tr tree tty uname "
    "unexpand uniq unlink unzip uptime wc wget which who whoami xargs xz yes zip bash sh zsh "
    "$PATH $HOME $PWD $OLDPWD $USER $SHELL $IFS $RANDOM $SECONDS $LINENO $UID $EUID $PPID $HOSTNAME $HOSTTYPE $OSTYPE $MACHTYPE $TERM $LANG "
    "$LC_ALL $TMPDIR $EDITOR $PAGER $DISPLAY $BASH $BASHPID $BASH_VERSION $BASH_VERSINFO $BASH_SOURCE $BASH_LINENO $BASH_ARGV $BASH_ARGC "
    "$BASH_REMATCH $BASH_SUBSHELL $BASH_COMMAND $BASH_ENV $FUNCNAME $PIPESTATUS $REPLY $OPTARG $OPTIND $OPTERR $PS1 $PS2 $PS4 $PROMPT_COMMAND "
    "$COLUMNS $LINES $SHLVL $SHELLOPTS $BASHOPTS $DIRSTACK $GROUPS $HISTFILE $HISTSIZE $COMP_WORDS $COMP_CWORD $COMP_LINE $COMP_POINT "
    "$COMPREPLY $LOGNAME $MAIL $status $output $lines $stderr $BATS_TEST_DIRNAME $BATS_TEST_FILENAME $BATS_TEST_NAME $BATS_TMPDIR "
    "$BATS_TEST_TMPDIR $BATS_FILE_TMPDIR $BATS_SUITE_TMPDIR $BATS_RUN_TMPDIR $BATS_TEST_NUMBER $BATS_TEST_DESCRIPTION".split()
)
_NAME: Final = re.compile(r"[A-Za-z_@][\w:@+-]*\Z")
_ALIAS: Final = re.compile(r"""['"]?([\w:@+-]+)=""")
_LOCAL: Final = frozenset({"local", "declare", "typeset"})
_READERS: Final = frozenset({"read", "mapfile", "readarray", "getopts"})
_RUNNERS: Final = frozenset({"run", "time", "trap", "eval", "exec"})
# The folder of the script itself, as scripts write it.
_OWN_FOLDER: Final = re.compile(
    r"""(?:\$\(\s*dirname\s+(?:--\s+)?(?:"?\$(?:0|\{0\}|BASH_SOURCE|\{BASH_SOURCE(?:\[0\])?\}|\{BASH_SOURCE(?:\[0\])?:-\$0\})"?)\s*\)|"""
    r"""`dirname\s+"?\$0"?`|\$\{BASH_SOURCE(?:\[0\])?%/\*\}|\$\{0%/\*\}|\$\{?BATS_TEST_DIRNAME\}?|"""
    r"""\$\(\s*cd\s+(?:--\s+)?"?\$\(\s*dirname\s+[^()]*\)"?\s*(?:>\s*/dev/null\s*(?:2>&1)?\s*)?&&\s*pwd(?:\s+-P)?\s*\))"""
)
_VARIABLE: Final = re.compile(r"\$(?:\w+|\{\w+\})(?=/)")
_LITERAL: Final = re.compile(r"[\w./@+-]+\Z")


def _source_path(text: str) -> str:
    """Return what ``source`` takes in: ``./x`` beside the script, ``$DIR/x`` below an unknown folder, or the path; empty if computed."""
    bare = text.replace('"', "").replace("'", "") if "`" not in text else text.strip("\"'")
    own = _OWN_FOLDER.match(text.lstrip("\"'"))
    if own is not None:
        rest = text.lstrip("\"'")[own.end() :].replace('"', "").replace("'", "")
        return f".{rest}" if rest.startswith("/") and _LITERAL.match(rest) else ""
    variable = _VARIABLE.match(bare)
    rest = bare[variable.end() :] if variable is not None else bare
    return bare if _LITERAL.match(rest) else ""


def _command(extraction: Extraction, node: tree_sitter.Node) -> None:
    name = node.child_by_field_name("name")
    children = node.named_children
    if name is None:
        extraction.visit(*children)
        return
    arguments = node.children_by_field_name("argument")
    said = extraction.text(name).removeprefix("\\")  # written so, it is no alias
    body = extraction.marked(node)
    if isinstance(body, list):
        _bats_test(extraction, node, body)
        return
    if said in ("source", ".", "load") and arguments and _sourced(extraction, arguments[0], said):
        extraction.visit(*arguments)
        return
    if said == "alias":
        for one in arguments:
            match = _ALIAS.match(extraction.text(one))
            if match is not None:
                extraction.define(one, one, "macro", text=match[1], whole=node)
    elif said in _READERS or (said == "printf" and arguments and extraction.text(arguments[0]) == "-v"):
        for one in arguments:
            extraction.bind("$" + extraction.text(one))
    elif said in _RUNNERS:
        first = next((one for one in arguments if not extraction.text(one).startswith("-")), None)
        if first is not None and first.type == "word":
            _called(extraction, first)
    if name.named_child_count and name.named_children[0].type == "word":
        _called(extraction, name)
    elif name.named_child_count:
        extraction.visit(name)
    for child in children:
        if child.type == "variable_assignment":  # only for this command
            extraction.visit(child.child_by_field_name("value"))
        elif child.id != name.id:
            extraction.visit(child)


def _called(extraction: Extraction, node: tree_sitter.Node) -> None:
    said = extraction.text(node).removeprefix("\\")
    if _NAME.match(said):
        extraction.mention(node, said, is_call=True)
    elif "/" in said and said.endswith((".sh", ".bash")) and _LITERAL.match(said):
        extraction.add_import(node, said)


def _sourced(extraction: Extraction, argument: tree_sitter.Node, said: str) -> bool:
    path = _source_path(extraction.text(argument))
    if path and said == "load":  # Bats adds the ending
        path = (
            f"./{path.removeprefix('./')}" if path.endswith((".bash", ".sh")) else f"./{path.removeprefix('./')}.bash"
        )
    if path:
        extraction.add_import(argument, path)
    return bool(path)


def _assignment(extraction: Extraction, node: tree_sitter.Node) -> None:
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name is None or name.type != "variable_name":
        extraction.visit(name, value)
    elif extraction.is_in_function:
        extraction.mention(name, "$" + extraction.text(name))
        extraction.visit(value)
    else:
        extraction.define(node, name, "value", body=value)


def _declaration(extraction: Extraction, node: tree_sitter.Node) -> None:
    """``local x=1`` binds ``x`` in its function; ``declare x=1`` outside of functions defines it."""
    children = node.named_children
    keyword = extraction.text(node).split(maxsplit=1)[0]
    is_local = keyword in _LOCAL and extraction.is_in_function
    for child in children:
        if child.type == "word" and "g" in extraction.text(child):
            is_local = False
        elif is_local and child.type == "variable_name":
            extraction.bind("$" + extraction.text(child))
        elif is_local and child.type == "variable_assignment":
            name = child.child_by_field_name("name")
            if name is not None:
                extraction.bind("$" + extraction.text(name))
            extraction.visit(child.child_by_field_name("value"))
        else:
            extraction.visit(child)


def _variable(extraction: Extraction, node: tree_sitter.Node) -> None:
    said = extraction.text(node)
    if not said[:1].isdigit():
        extraction.mention(node, "$" + said)


def _for(extraction: Extraction, node: tree_sitter.Node) -> None:
    variable = node.child_by_field_name("variable")
    if variable is not None:
        extraction.bind("$" + extraction.text(variable))
    extraction.visit(*(child for child in node.named_children if variable is None or child.id != variable.id))


def _program(extraction: Extraction, node: tree_sitter.Node) -> None:
    """Find the tests of Bats: ``@test "…" {`` is a command for the grammar, and so is the brace that ends it."""
    children = node.named_children
    if b"@test" not in extraction.data:
        extraction.visit(*children)
        return
    kept: list[tree_sitter.Node] = []
    body: list[tree_sitter.Node] | None = None
    for child in children:
        text = extraction.text(child) if child.type == "command" else ""
        if text.startswith("@test"):
            body = []
            extraction.mark(child, body)
            kept.append(child)
        elif body is not None:
            body.append(child)
            if text == "}":
                body = None
        else:
            kept.append(child)
    extraction.visit(*kept)


def _bats_test(extraction: Extraction, command: tree_sitter.Node, body: list[tree_sitter.Node]) -> None:
    arguments = command.children_by_field_name("argument")
    if not arguments or not body:
        extraction.visit(*body)
        return
    name = " ".join(extraction.text(arguments[0]).strip("\"'").split())
    extraction.define(command, arguments[0], "test", text=name, whole=body[-1], first=command, body=body[-1])
    extraction.visit(*body[:-1])


def _is_exported(_extraction: Extraction, _node: tree_sitter.Node, name: str) -> bool:
    return not name.startswith("_")


def _is_test(name: str, kind: str, _decorations: str) -> bool:
    return kind == "test" or (kind == "function" and name.startswith("test_"))


BASH: Final = Language(
    "bash", (".sh", ".bash", ".bats", ".ksh", ".zsh"), "tree_sitter_bash", "language",
    {"function_definition": Naming("function")},
    functions=frozenset({"function_definition"}),
    wrappers=frozenset(),
    names=frozenset(),
    skips=frozenset({"unset_command", "raw_string", "heredoc_start", "heredoc_end"}),
    selves=frozenset(),
    supers=frozenset(),
    builtins=_BUILTINS,
    sigil="$",
    special={
        "program": _program,
        "command": _command,
        "variable_assignment": _assignment,
        "declaration_command": _declaration,
        "variable_name": _variable,
        "for_statement": _for,
    },
    is_exported=_is_exported,
    is_test=_is_test,
    filenames=(".bashrc", ".bash_profile", ".bash_aliases", ".bash_logout", ".profile", ".zshrc", ".zprofile", ".zshenv"),
    interpreters=("bash", "sh", "dash", "ash", "ksh", "zsh", "bats"),
)  # fmt: skip
