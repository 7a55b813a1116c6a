"""``models``: list models, and store the API keys of their providers."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
import sys
from typing import TYPE_CHECKING, Any

from periplus.cli.agent.environment import leave_out_relative_folders, user_folder
from periplus.cli.common.face import Face, visible

if TYPE_CHECKING:
    from collections.abc import Iterator


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    assert command == "models"
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)

    def action(name: str, what: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".", allow_abbrev=False)

    listing = action("list", "list known models, and which providers have a key")
    listing.add_argument("--ask", metavar="PROVIDER", help="ask this provider for its models")
    key = action("key", "store a provider's API key, read from standard input; empty input removes it")
    key.add_argument("provider", metavar="PROVIDER", help="anthropic, openai, or one of your own")


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.agent.models.api_keys import Keys

    leave_out_relative_folders()
    keys = Keys(user_folder(face), face.environment)
    if arguments.action == "key":
        return _key(face, keys, arguments.provider)
    from periplus.agent.models.catalogue import as_of, known_models
    from periplus.agent.models.client_factory import provider_models
    from periplus.agent.settings import load_settings
    from periplus.base.errors import UsageError
    from periplus.cli.agent.schemas import ModelOut, ModelsOut

    settings = load_settings(user_folder(face), face.cwd, trusted=False, environment=face.environment, flags={})
    held = keys.providers()
    if arguments.ask:
        provider = settings.providers.get(arguments.ask)
        if provider is None:
            raise UsageError(
                f"unknown provider {arguments.ask!r}", mend=f"Known providers: {', '.join(sorted(settings.providers))}."
            )
        names = [
            f"{arguments.ask}/{name}" for name in provider_models(arguments.ask, provider, keys.key(arguments.ask))
        ]
    else:
        names = list(known_models())
    known = known_models()
    models = [
        ModelOut(name, known[name].window if name in known else 0, known[name].output if name in known else 0,
                 known[name].price_in if name in known else None, known[name].price_out if name in known else None)
        for name in names
    ]  # fmt: skip
    providers = {
        name: held.get(name, "" if provider.asks_for_key else "none needed")
        for name, provider in settings.providers.items()
    }

    def lines() -> Iterator[str]:
        for name, key in providers.items():
            none = f"no key; add one: periplus models key {visible(name)}"
            yield f"{visible(name)}: {none if not key else key if key == 'none needed' else 'a key from the ' + key}"
        for model in models:
            price = (
                f", ${model.price_in / 1000:g} in, ${model.price_out / 1000:g} out for a million tokens"
                if model.price_in and model.price_out
                else ""
            )
            yield f"  {visible(model.name)}" + (f": {model.window:,} tokens{price}" if model.window else "")
        if not arguments.ask:
            yield f"(prices and windows of {as_of()}; other models work as well)"

    face.emit(ModelsOut(as_of(), providers, models), lines)
    return 0


def _key(face: Face, keys: Any, provider: str) -> int:
    from periplus.agent.models.api_keys import check_provider
    from periplus.agent.settings import load_settings
    from periplus.agent.tools.web.web_search import SEARCH_KEY
    from periplus.base.errors import NotFoundError
    from periplus.cli.agent.schemas import ModelKeyOut

    check_provider(provider)
    held = keys.held(provider)
    known = load_settings(user_folder(face), face.cwd, trusted=False, environment=face.environment, flags={}).providers
    if sys.stdin.isatty():
        import getpass

        key = getpass.getpass(f"API key of {provider} (not shown; empty removes it): ")
    else:
        key = sys.stdin.read(8_192)
    if not key.strip() and not held:
        raise NotFoundError(f"there is no key of {provider} in {keys.path}", safe="Nothing was changed.",
                            mend="Enter one on the terminal, or pass it on standard input.")  # fmt: skip
    keys.set(provider, key.strip())
    out = ModelKeyOut(provider, keys.path, bool(key.strip()))
    face.emit(
        out,
        lambda: [
            f"The key of {visible(provider)} was {'saved in' if out.kept else 'removed from'} {visible(keys.path)}."
        ],
    )
    if out.kept and provider not in known and provider != SEARCH_KEY:
        face.stderr.write(
            f"There is no provider {visible(provider)}; the key is used where your agent.toml says ${{key:{visible(provider)}}}. "
            f"Providers are {', '.join(sorted(known))}.\n"
        )
    return 0
