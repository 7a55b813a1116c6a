"""``setup``: ask once for provider, key and model."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import os
import sys
from typing import TYPE_CHECKING, Final

from periplus.cli.agent.environment import user_folder
from periplus.cli.common.face import Face, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from periplus.agent.models.api_keys import Keys
    from periplus.agent.models.client_factory import Provider

_SHOWN: Final = 30
_MODEL: Final = "model"


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    assert command == "setup"
    add = parser.add_argument
    add("--provider", metavar="NAME", help="anthropic, openai, local, or one of your own (default: ask)")
    add("--model", metavar="NAME", help="the provider's name of the model (default: ask)")
    add("--key-stdin", action="store_true", help="read the API key from standard input and store it")
    add("--no-test", action="store_true", help="do not test the key")
    add("--show", action="store_true", help="show the settings and where each comes from")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.agent.models.api_keys import Keys
    from periplus.agent.settings import USER_FILE, load_settings
    from periplus.base.errors import UsageError
    from periplus.cli.agent.run_output import in_words
    from periplus.cli.agent.schemas import SetupOut

    folder = user_folder(face)
    settings = load_settings(folder, face.cwd, trusted=False, environment=face.environment, flags={})
    keys = Keys(folder, face.environment)
    if arguments.show:
        out = SetupOut(
            {name: str(value) for name, value in settings.values.items()}, dict(settings.sources), keys.providers()
        )

        def lines() -> Iterator[str]:
            for name, value in out.values.items():
                yield f"{name} = {visible(in_words(value))}  ({visible(out.sources[name])})"
            for name, where in out.keys.items():
                yield f"key of {visible(name)}: in the {where}"

        face.emit(out, lines)
        return 0
    asks = sys.stdin.isatty() and face.stderr.isatty() and not arguments.key_stdin
    name = arguments.provider or (_asked(face, f"Provider ({', '.join(settings.providers)})") if asks else "")
    if name not in settings.providers:
        raise UsageError(f"unknown provider {name!r}" if name else "no provider is given", safe="Nothing was changed.",
                         mend=f"Name one with --provider: {', '.join(settings.providers)}.")  # fmt: skip
    provider = settings.providers[name]
    key = _key(arguments, keys, name, provider, asks=asks)
    names = _models_of(face, name, provider, key, is_tested=not arguments.no_test)
    if asks and names and not arguments.model:
        for one in names[:_SHOWN]:
            face.stderr.write(f"  {visible(one)}\n")
        if len(names) > _SHOWN:
            face.stderr.write(f"  … and {len(names) - _SHOWN:,} more: periplus models list --ask {visible(name)}\n")
    model = arguments.model or (_asked(face, "Model") if asks else "")
    if not model:
        raise UsageError("no model is given", safe="Nothing was changed.", mend="Name one with --model.")
    if names and model not in names:
        raise UsageError(f"{name} has no model {model!r}", safe="Nothing was changed.",
                         mend=f"Models: {', '.join(names[:_SHOWN])}{' …' if len(names) > _SHOWN else ''}.")  # fmt: skip
    if key and key != keys.key(name):
        keys.set(name, key)
    path = os.path.join(folder, USER_FILE)
    _write_model(path, f"{name}/{model}")
    again = load_settings(folder, face.cwd, trusted=False, environment={}, flags={})
    out = SetupOut({_MODEL: again.text(_MODEL)}, {_MODEL: path}, keys.providers())
    face.emit(out, lambda: [f"The agent now uses {visible(again.text(_MODEL))} ({visible(path)}).",
                            'Try it in a project: periplus run "what does this project do?"'])  # fmt: skip
    return 0


def _asked(face: Face, what: str) -> str:
    face.stderr.write(f"{what}: ")
    face.stderr.flush()
    return sys.stdin.readline().strip()


def _key(arguments: argparse.Namespace, keys: Keys, name: str, provider: Provider, *, asks: bool) -> str:
    from periplus.base.errors import UsageError

    held = keys.key(name)
    if arguments.key_stdin:
        held = sys.stdin.read(8_192).strip()
    elif asks and provider.asks_for_key and not held:
        import getpass

        held = getpass.getpass(f"Key of {name} (not shown): ").strip()
    if provider.asks_for_key and not held:
        raise UsageError(f"there is no key for {name}", safe="Nothing was changed.",
                         mend=f"Pass it with --key-stdin, or: periplus models key {name}")  # fmt: skip
    return held


def _models_of(face: Face, name: str, provider: Provider, key: str, *, is_tested: bool) -> list[str]:
    """Ask the provider for its models, which also tests the key."""
    if not is_tested:
        return []
    from periplus.agent.models.client_factory import provider_models

    names = provider_models(name, provider, key)
    face.stderr.write(f"{visible(name)} answers; it has {len(names)} model{'s' * (len(names) != 1)}.\n")
    return names


def _write_model(path: str, model: str) -> None:
    """Set ``model`` in the user's file, and keep the rest of it unchanged. Raises UsageError, EnvironmentFailure."""
    import json
    import re
    import tomllib

    from periplus.agent.settings import FILE_BYTES_MAX, read_table
    from periplus.base.errors import UsageError, environment_failure
    from periplus.base.files import Files, read_plain, write_atomic

    before = read_table(path, private=True)
    line = f"model = {json.dumps(model)}\n"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        text = read_plain(path, FILE_BYTES_MAX).decode() if os.path.lexists(path) else ""
    except OSError as error:
        raise environment_failure(error, "read", path) from error
    if _MODEL in before:
        head, table, rest = text.partition("\n[") if not text.startswith("[") else ("", "", text)
        text = (
            re.sub(r"(?m)^[ \t]*\"?model\"?[ \t]*=[^\n]*\n?", lambda _: line, head + "\n", count=1)
            + table.removeprefix("\n")
            + rest
        )
    else:
        text = line + text
    if tomllib.loads(text) != before | {_MODEL: model}:
        raise UsageError(f"the model setting in {path} cannot be changed automatically", safe="Nothing was changed.",
                         mend=f"Change it yourself: {line.strip()}")  # fmt: skip
    write_atomic(Files(), path, text.encode(), mode=0o600)
