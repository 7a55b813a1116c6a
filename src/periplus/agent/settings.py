"""Settings of the agent, each declared once with its type, its default and its meaning.

They come from the user's file (``agent.toml`` in the user's configuration folder), from the project's file (``periplus.toml`` at its root:
only in a trusted folder, and only settings that a project may change), from the environment and from flags; later sources win. Providers
are the user's alone: a project never decides where a key is sent. An unknown setting or a wrong type is an error that names the valid ones.
"""

from __future__ import annotations

__all__ = [
    "PROJECT_FILE",
    "SETTINGS",
    "USER_FILE",
    "AgentRow",
    "Setting",
    "Settings",
    "load_settings",
    "read_table",
    "settings_folder",
]

import os
import re
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from periplus.agent.mcpclient.server_config import user_servers, variables_lent
from periplus.agent.mcpclient.server_entry import ServerRow
from periplus.agent.models.client_factory import KINDS, PROVIDERS, Provider
from periplus.agent.policies.permission import MODES, Mode, Rule, parse_rule
from periplus.base.errors import RefusedError, UsageError, environment_failure
from periplus.base.files import read_plain

USER_FILE: Final = "agent.toml"
if TYPE_CHECKING:
    from periplus.agent.tools.web.web_search import SearchService

PROJECT_FILE: Final = "periplus.toml"
FILE_BYTES_MAX: Final = 256 * 1024
_RULES_MAX: Final = 500
_AGENTS_MAX: Final = 32
_AGENT_FIELDS: Final = ("command", "prompt", "environment", "resume", "transcript")
_AGENT_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_PLACE: Final = re.compile(r"\{([a-z_]{1,40})\}")
_PLACES: Final = ("prompt_file", "worktree", "run_folder", "session", "model", "run")
_TRANSCRIPT_PLACES: Final = ("home", "session", "worktree")
_WORDS_MAX: Final = 100


class Setting(NamedTuple):
    """A declared setting. ``of_project``: a trusted project may set it. ``least`` and ``most`` bound a number."""

    name: str
    default: str | int | bool | tuple[str, ...]
    what: str
    of_project: bool = False
    least: int = 0
    most: int = 1_000_000_000
    one_of: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """The environment variable of this setting."""
        return f"PERIPLUS_{self.name.upper()}"


class AgentRow(NamedTuple):
    """An agent of the user's own for `periplus dispatch`: ``command`` starts it, ``resume`` goes on with a session, ``transcript`` is the
    pattern of its files; all may contain places such as ``{session}``. ``environment`` are the variables that it is given.
    """

    name: str
    command: tuple[str, ...]
    prompt: Literal["stdin", "file"] = "stdin"
    environment: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
    transcript: str = ""


SETTINGS: Final[tuple[Setting, ...]] = (
    Setting("model", "", "the model, as provider/model"),
    Setting("mode", "default", "when a person is asked for consent", one_of=tuple(MODES)),
    Setting("rules", (), "permission rules, such as “allow shell(git status)”; a project may only ask and deny", of_project=True),
    Setting("max_steps", 200, "maximum steps per turn", of_project=True, least=1, most=10_000),
    Setting("budget_tokens", 0, "maximum tokens per turn, with cached ones counted at a tenth; 0 is no limit"),
    Setting("budget_cents", 0, "maximum cost per turn in cents; 0 is no limit"),
    Setting("oracle", "", "the command that must succeed before “done” is accepted", of_project=True),
    Setting("setup", "", "the command that prepares a new worktree for `periplus dispatch`", of_project=True),
    Setting("network", default=False, what="let commands use the network without asking"),
    Setting("context_tokens", 48_000, "length of the tape in tokens before it is folded", of_project=True, least=8_000, most=1_000_000),
    Setting("max_output_tokens", 0, "maximum tokens per answer; 0 is the model's own limit", most=1_000_000),
    Setting("telemetry", default=False, what="send spans to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names"),
    Setting("instructions", "", "instructions for every session"),
    Setting("subagent_depth", 1, "how deep subagents may be nested; 0 turns them off", most=3),
    Setting("subagent_model", "", "the model of subagents, as provider/model; empty is the session's model"),
)  # fmt: skip
_BY_NAME: Final = {setting.name: setting for setting in SETTINGS}


@dataclass(frozen=True)
class Settings:
    """The settings of a session: ``values`` by name; ``sources`` says where each comes from, for ``periplus setup --show``. ``trusted``:
    the user trusts the project's own files.
    """

    values: Mapping[str, Any]
    sources: Mapping[str, str]
    providers: Mapping[str, Provider] = field(default_factory=lambda: PROVIDERS)
    trusted: bool = False
    search: SearchService | None = None
    servers: tuple[ServerRow, ...] = ()
    """The user's own MCP servers with values as written in the file."""
    server_variables: tuple[str, ...] = ()
    agents: tuple[AgentRow, ...] = ()

    def text(self, name: str) -> str:
        return str(self.values[name])

    def number(self, name: str) -> int:
        return int(self.values[name])

    def flag(self, name: str) -> bool:
        return bool(self.values[name])

    @property
    def mode(self) -> Mode:
        return self.values["mode"]  # type: ignore[no-any-return]  # checked where it was read

    @property
    def rules(self) -> tuple[Rule, ...]:
        return tuple(parse_rule(text) for text in self.values["rules"])


def settings_folder(environment: Mapping[str, str], home: str) -> str:
    """Return the user's configuration folder of Periplus (XDG base directory specification)."""
    base = environment.get("XDG_CONFIG_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.join(home, ".config"), "periplus")


def load_settings(
    folder: str, root: str, *, trusted: bool, environment: Mapping[str, str], flags: Mapping[str, Any]
) -> Settings:
    """Load the settings for the project ``root``; ``folder`` is the user's configuration folder.

    Raises UsageError for unknown settings and wrong types, RefusedError if others can write the user's file.
    """
    values: dict[str, Any] = {setting.name: setting.default for setting in SETTINGS}
    sources = dict.fromkeys(values, "default")
    providers = dict(PROVIDERS)
    search: SearchService | None = None
    path = os.path.join(folder, USER_FILE)
    table = read_table(path, private=True)
    servers: tuple[ServerRow, ...] = ()
    server_variables: tuple[str, ...] = ()
    agents: tuple[AgentRow, ...] = ()
    for name, value in table.items():
        if name == "providers":
            providers |= _providers(value, path)
        elif name == "search":
            search = _search(value, path)
        elif name == "servers":
            servers = user_servers(value, path)
        elif name == "server_variables":
            server_variables = variables_lent(value, path)
        elif name == "agents":
            agents = _agents(value, path)
        else:
            values[name], sources[name] = _checked(name, value, path), path
    if trusted:
        path = os.path.join(root, PROJECT_FILE)
        for name, value in read_table(path).items():
            checked = _checked(name, value, path, of_project=True)
            values[name] = (*values["rules"], *checked) if name == "rules" else checked
            sources[name] = path
    for setting in SETTINGS:
        if environment.get(setting.variable):
            values[setting.name] = _of_text(setting, environment[setting.variable])
            sources[setting.name] = setting.variable
    for name, value in flags.items():
        if value is not None:
            checked = _checked(name, value, f"--{name.replace('_', '-')}")
            values[name] = (*values["rules"], *checked) if name == "rules" else checked
            sources[name] = "flag"
    return Settings(values, sources, providers, trusted, search, servers, server_variables, agents)


def read_table(path: str, *, private: bool = False) -> dict[str, Any]:
    """Read a settings file; empty without a file. Raises UsageError, RefusedError, EnvironmentFailure."""
    import tomllib

    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(
                f"{path} is not a file", safe="Nothing was read from it.", mend="Put a file there, or remove it."
            )
        if private and (status.st_mode & 0o022 or status.st_uid not in (os.geteuid(), 0)):
            raise RefusedError(
                f"{path} can be written by others, so it is ignored", safe="Nothing was read from it.",
                mend=f"Review its contents, then run `chmod 600 {shlex.quote(path)}`.",
            )  # fmt: skip
        data = read_plain(path, FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise environment_failure(error, "read", path) from error
    if len(data) > FILE_BYTES_MAX:
        raise UsageError(f"{path} has more than {FILE_BYTES_MAX:,} bytes", safe="Nothing was read from it.")
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{path} is not valid TOML: {error}", safe="Nothing was read from it.", mend="Fix that line."
        ) from error


def _checked(name: str, value: Any, where: str, *, of_project: bool = False) -> Any:
    setting = _BY_NAME.get(name)
    if name == "agents" and of_project:
        raise RefusedError(
            f"{where}: a project cannot define agents, because each is a command that runs as you", safe="Nothing was run.",
            mend=f"Remove [agents] there; if you want such an agent, add it to your own {USER_FILE}.",
        )  # fmt: skip
    if setting is None:
        raise UsageError(f"{where}: there is no setting {name!r}", safe="Nothing was run.", mend=_meant(name))
    if of_project and not setting.of_project:
        raise RefusedError(
            f"{where}: a project cannot set {name!r}, only the user can", safe="Nothing was run.",
            mend=f"Remove it there; set it in your own {USER_FILE}, or with --{name.replace('_', '-')}.",
        )  # fmt: skip
    wanted = type(setting.default)
    if wanted is tuple:
        return _rules(value, where, of_project=of_project)
    if type(value) is not wanted:
        kinds = {str: "a text", int: "a whole number", bool: "true or false"}
        raise UsageError(f"{where}: {name} is {kinds[wanted]}, not {value!r:.80}", safe="Nothing was run.")
    if isinstance(value, int) and wanted is int and not setting.least <= value <= setting.most:
        raise UsageError(
            f"{where}: {name} is from {setting.least:,} to {setting.most:,}, not {value:,}", safe="Nothing was run."
        )
    if setting.one_of and value not in setting.one_of:
        raise UsageError(f"{where}: {name} is {', '.join(setting.one_of)}, not {value!r:.80}", safe="Nothing was run.")
    return value


def _rules(value: Any, where: str, *, of_project: bool) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value) or len(value) > _RULES_MAX:
        raise UsageError(f"{where}: rules is a list of up to {_RULES_MAX} texts", safe="Nothing was run.")
    for text in value:
        try:
            rule = parse_rule(text)
        except UsageError as error:
            raise UsageError(f"{where}: {error}", safe="Nothing was run.", mend=error.mend) from error
        if of_project and rule.effect == "allow":
            raise RefusedError(
                f"{where}: a project cannot allow anything ({text!r:.80})", safe="Nothing was run.",
                mend=f"Put that rule into your own {USER_FILE} if you want it.",
            )  # fmt: skip
    return tuple(value)


def _of_text(setting: Setting, text: str) -> Any:
    where = setting.variable
    if isinstance(setting.default, bool):
        if text.lower() not in ("0", "1", "true", "false", "no", "yes"):
            raise UsageError(f"{where}: {setting.name} is true or false, not {text!r:.80}", safe="Nothing was run.")
        return text.lower() in ("1", "true", "yes")
    if isinstance(setting.default, int):
        try:
            return _checked(setting.name, int(text), where)
        except ValueError as error:
            raise UsageError(
                f"{where}: {setting.name} is a whole number, not {text!r:.80}", safe="Nothing was run."
            ) from error
    if isinstance(setting.default, tuple):
        return _checked(setting.name, [one.strip() for one in text.split(";") if one.strip()], where)
    return _checked(setting.name, text, where)


def _providers(value: Any, where: str) -> dict[str, Provider]:
    import msgspec

    if not isinstance(value, dict):
        raise UsageError(f"{where}: providers is a table of tables", safe="Nothing was run.")
    found = {}
    for name, one in value.items():
        try:
            found[name] = msgspec.convert(one, Provider)
        except msgspec.ValidationError as error:
            raise UsageError(f"{where}: providers.{name}: {error}", safe="Nothing was run.",
                             mend=f"It has kind ({', '.join(KINDS)}) and base_url.") from error  # fmt: skip
    return found


def _search(value: Any, where: str) -> SearchService:
    import msgspec

    from periplus.agent.tools.web.web_search import SearchService

    try:
        return msgspec.convert(value, SearchService)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: search: {error}", safe="Nothing was run.",
                         mend=f"It has {', '.join(SearchService.__struct_fields__)}.") from error  # fmt: skip


def _agents(value: Any, where: str) -> tuple[AgentRow, ...]:
    if not isinstance(value, dict) or len(value) > _AGENTS_MAX:
        raise UsageError(f"{where}: agents is a table of up to {_AGENTS_MAX} tables", safe="Nothing was run.")
    return tuple(_agent(name, one, f"{where}: agents.{name:.60}") for name, one in value.items())


def _agent(name: str, value: Any, where: str) -> AgentRow:
    def refuse(wrong: str, mend: str = "") -> UsageError:
        return UsageError(f"{where}: {wrong}", safe="Nothing was run.", mend=mend)

    if not _AGENT_NAME.fullmatch(name):
        raise refuse("a name has small letters, digits and hyphens, at most 40")
    if not isinstance(value, dict):
        raise refuse("an agent is a table", 'For example: command = ["prog", "--file", "{prompt_file}"]')
    for given in value:
        if given not in _AGENT_FIELDS:
            raise refuse(f"there is no {given!r:.80}", f"It has {', '.join(_AGENT_FIELDS)}.")
    lists = {}
    for key in ("command", "resume", "environment"):
        words = value.get(key, [])
        if not isinstance(words, list) or len(words) > _WORDS_MAX or not all(isinstance(one, str) for one in words):
            raise refuse(f"{key} is a list of up to {_WORDS_MAX} texts")
        if any("\0" in word for word in words):
            raise refuse(f"{key} contains a zero byte")
        lists[key] = tuple(words)
    for variable in lists["environment"]:
        if not _VARIABLE.fullmatch(variable):
            raise refuse(f"{variable!r:.80} is not the name of a variable")
    prompt = value.get("prompt", "stdin")
    if prompt not in ("stdin", "file"):
        raise refuse(f"prompt is stdin or file, not {prompt!r:.80}")
    transcript = value.get("transcript", "")
    if not isinstance(transcript, str):
        raise refuse("transcript is a text", 'For example: transcript = "{home}/.prog/{session}.jsonl"')
    row = AgentRow(name, lists["command"], prompt, lists["environment"], lists["resume"], transcript)
    wrong, mend = _wrong_words(row)
    if wrong:
        raise refuse(wrong, mend)
    return row


def _wrong_words(row: AgentRow) -> tuple[str, str]:
    """Return what is wrong with the command lines of an agent, and what to do; empty for nothing."""
    if not row.command:
        return "the command is missing", 'For example: command = ["prog", "--file", "{prompt_file}"]'
    for kind, words in (("command", row.command), ("resume", row.resume)):
        if not words:
            continue
        if not words[0] or (os.sep in words[0] and not os.path.isabs(words[0])):
            return (
                f"{kind} starts {words[0]!r:.80}, which depends on the folder",
                "Give a name on the PATH, or an absolute path.",
            )
        places = {place for word in words[1:] for place in _PLACE.findall(word)}
        if "prompt" in places:
            return (
                f"{kind} would show the prompt to every process of this machine",
                'Use {prompt_file}, or prompt = "stdin".',
            )
        if places - set(_PLACES):
            return f"{kind} has an unknown {{{min(places - set(_PLACES))}}}", f"Known are: {', '.join(_PLACES)}."
        if row.prompt == "file" and "prompt_file" not in places:
            return f"{kind} does not name {{prompt_file}}", 'Name it, or leave prompt = "file" out.'
    if row.resume and row.resume[0] != row.command[0]:
        return "resume starts another program than command", "Start the same program in both."
    unknown = set(_PLACE.findall(row.transcript)) - set(_TRANSCRIPT_PLACES)
    return (
        (f"transcript has an unknown {{{min(unknown)}}}", f"Known are: {', '.join(_TRANSCRIPT_PLACES)}.")
        if unknown
        else ("", "")
    )


def _meant(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(
        name, [*_BY_NAME, "agents", "providers", "search", "server_variables", "servers"], n=1
    )
    return f"Did you mean {near[0]!r}?" if near else f"Known are: {', '.join(_BY_NAME)}."
