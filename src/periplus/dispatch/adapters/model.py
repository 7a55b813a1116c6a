"""Model of an adapter: a row that says how an agent is started without a person, and how its output is read."""

from __future__ import annotations

__all__ = ["Adapter", "Command", "Explanation", "Probe", "Prompt", "SignedIn", "Sought", "Start", "setting_folder"]

import os
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from periplus.base.errors import NotFoundError
from periplus.dispatch.adapters.environment import built_environment, program_folders
from periplus.dispatch.adapters.output import Reading, Spent, Wants
from periplus.project.agent_hooks.connection import program_path

Prompt: TypeAlias = Literal["stdin", "file"]
_LAST_MAX: Final = 300


class Start(NamedTuple):
    """One run that an adapter is asked to start.

    ``session`` is a UUID for the agent's session, used by agents that accept one; ``resume`` is the id of a session of the agent's own
    that goes on, empty for a new one. ``prompt_path`` is the file with the prompt, for agents that do not read it from standard input.
    ``environment`` is that of the person, from which only named variables are taken. ``command`` starts Periplus. ``excludes`` is the
    file for git's ``core.excludesFile``, ``email`` the address of the person's git. ``cents`` and ``tokens`` limit the run where the
    agent can limit itself; 0 is no limit.
    """

    worktree: str
    run_folder: str
    run: str
    session: str
    prompt_path: str
    environment: Mapping[str, str]
    resume: str = ""
    model: str = ""
    agent: str = ""
    email: str = ""
    excludes: str = ""
    command: tuple[str, ...] = ("periplus",)
    cents: int = 0
    tokens: int = 0

    @property
    def home(self) -> str:
        return self.environment.get("HOME", "")


class Command(NamedTuple):
    """A process to start. With ``prompt`` "file" its standard input is empty."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    prompt: Prompt


class Sought(NamedTuple):
    """The session whose transcript is looked for; ``environment`` is that of the person."""

    session: str
    worktree: str
    environment: Mapping[str, str]

    @property
    def home(self) -> str:
        return self.environment.get("HOME", "")


class SignedIn(NamedTuple):
    """Evidence for a login, found without a request: ``is_known`` False where the agent may still be signed in."""

    is_found: bool
    says: str
    is_known: bool = True


class Probe(NamedTuple):
    """A call of the program that needs no model: its output must name each of ``options``."""

    words: tuple[str, ...]
    options: tuple[str, ...]


class Explanation(NamedTuple):
    """How a run ended in words for a person: ``wants`` is what only a person can give, empty for nothing."""

    wants: Wants
    text: str


class Adapter(NamedTuple):
    """One agent.

    ``programs`` are its names on the PATH, ``versions`` those it was tried with. ``connects`` is its name in `periplus.interop.agents`,
    empty where nothing of ours is written for it. ``environment`` are the variables of the person that it is given beyond those of all
    agents, ``constants`` are variables of ours. ``words`` makes the arguments. ``chooses``: the id of its session is ours, otherwise
    the output tells it. ``adds_up``: its usage is that of the whole session, so a reader needs what was spent before. ``codes`` explain
    exit codes. ``records``: it writes its trail into the store itself. ``commits``: False where its sandbox keeps git from being
    written. ``leaves`` are patterns of files that it leaves in the worktree. ``sign_in`` says what a person types to sign in.
    ``models`` are its names for classes of models that roles ask for; without one it works with the model that the person has chosen.
    """

    name: str
    title: str
    programs: tuple[str, ...]
    versions: str
    connects: str
    environment: tuple[str, ...]
    words: Callable[[Start], tuple[str, ...]]
    reader: Callable[[Spent], Reading]
    transcripts: Callable[[Sought], list[str]]
    signed_in: Callable[[Mapping[str, str]], SignedIn]
    sign_in: str
    prompt: Prompt = "stdin"
    constants: Mapping[str, str] = {}
    chooses: bool = True
    adds_up: bool = False
    can_resume: bool = True
    records: bool = False
    commits: bool = True
    codes: Mapping[int, Explanation] = {}
    leaves: tuple[str, ...] = ()
    models: Mapping[str, str] = {}
    probe: Probe = Probe(("--help",), ())

    def start(self, start: Start) -> Command:
        """Return the process of a run. Raises NotFoundError where the program is not found."""
        environment = built_environment(
            start.environment, self.environment, self.constants, agent=start.agent or self.name, session=start.session,
            run=start.run, email=start.email, excludes=start.excludes,
        )  # fmt: skip
        return Command((self.program(start), *self.words(start)), environment, self.prompt)

    def program(self, start: Start) -> str:
        """Return the path of the program; of our own agent it is that of ``start.command``."""
        programs = self.programs or start.command[:1]
        folders = program_folders(start.environment)
        for name in programs:
            if found := program_path(name, folders):
                return found
        raise NotFoundError(
            f"{self.title} is not installed: no {' or '.join(programs)} on the PATH", safe="Nothing was started.",
            mend=f"Install it, then try it with: periplus dispatch agents {self.name} --check",
        )  # fmt: skip

    def reading(self, before: Spent = Spent()) -> Reading:  # noqa: B008 - a frozen value
        """Return a reader for the output of one run; ``before`` is what earlier runs of the same session spent."""
        return self.reader(before)

    def explanation(self, reading: Reading, code: int | None) -> Explanation:
        """Return how the run ended; ``code`` is the exit code, None after a signal."""
        by_code = self.codes.get(code) if code is not None else None
        wants = reading.wants or (by_code.wants if by_code is not None else "")
        said = reading.problem or (by_code.text if by_code is not None else "")
        if not said and code is None:
            said = "it was killed"
        elif not said and code:
            said = f"it ended with {code}{f': {reading.last_line[:_LAST_MAX]}' if reading.last_line else ''}"
        if wants == "login":
            said = f"{said or 'it is not signed in'}. {self.sign_in}"
        return Explanation(wants, said)


def setting_folder(environment: Mapping[str, str], variable: str, *below_home: str) -> str:
    """Return the folder that an absolute path in ``variable`` names, or the one below the home folder."""
    named = environment.get(variable, "")
    return named if os.path.isabs(named) else os.path.join(environment.get("HOME", ""), *below_home)
