"""Clients from ``provider/model`` names. Only the user configures where a provider is."""

from __future__ import annotations

__all__ = ["KINDS", "PROVIDERS", "ModelName", "Provider", "open_model", "parse_model", "provider_models"]

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import msgspec

from periplus.agent.contracts import StreamingClient
from periplus.agent.models.catalogue import OUTPUT_DEFAULT, ModelFacts, cost_of, facts_of
from periplus.base.errors import UsageError

Kind: TypeAlias = Literal["anthropic", "openai-chat", "openai-responses"]
KINDS: Final[tuple[Kind, ...]] = ("anthropic", "openai-chat", "openai-responses")
_OUTPUT_MAX: Final = 32_000  # for one request; a longer answer is continued


class Provider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Address and protocol of a provider. ``extra`` goes into the body of each request unchanged; ``needs_key`` is None if not configured."""

    kind: Kind
    base_url: str
    needs_key: bool | None = None
    window: int = 0
    output: int = 0
    extra: dict[str, Any] = {}

    @property
    def asks_for_key(self) -> bool:
        """Return whether requests need a key: as configured, else for every provider that is not on this machine."""
        if self.needs_key is not None:
            return self.needs_key
        from periplus.context.remotes.address import is_loopback

        try:
            host = urlsplit(self.base_url).hostname or ""
        except ValueError:  # not an address; reported when it is opened
            return True
        return not is_loopback(host)


PROVIDERS: Final[Mapping[str, Provider]] = {
    "anthropic": Provider(kind="anthropic", base_url="https://api.anthropic.com"),
    "openai": Provider(kind="openai-responses", base_url="https://api.openai.com/v1"),
    "local": Provider(kind="openai-chat", base_url="http://127.0.0.1:11434/v1"),
}


class ModelName(NamedTuple):
    """A model as ``provider/model``; the model's own name may contain slashes."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


def parse_model(text: str) -> ModelName:
    """Parse ``provider/model``. Raises UsageError."""
    provider, slash, model = text.partition("/")
    if not slash or not provider or not model or not text.isprintable() or len(text) > 200:
        raise UsageError(f"{text[:80]!r} is not a valid model name", safe="Nothing was sent.",
                         mend="Write it as provider/model, such as anthropic/claude-sonnet-5; `periplus models list` lists them.")  # fmt: skip
    return ModelName(provider, model)


def open_model(
    name: ModelName, providers: Mapping[str, Provider], key: str, *, max_tokens: int = 0, cache_key: str = ""
) -> tuple[StreamingClient, ModelFacts]:
    """Open a client for the model, with its facts. Nothing is sent yet.

    ``cache_key`` routes the requests of a session to one place of the provider. Raises UsageError for an unknown provider, a missing key, a
    missing package, and for an address to which a key must not be sent.
    """
    provider = providers.get(name.provider)
    if provider is None:
        known = ", ".join(sorted(providers))
        raise UsageError(
            f"there is no provider {name.provider!r}", safe="Nothing was sent.", mend=f"Known are {known}."
        )
    if provider.asks_for_key and not key:
        raise UsageError(f"there is no key for {name.provider}", safe="Nothing was sent.",
                         mend=f"Give one: periplus models key {name.provider}")  # fmt: skip
    _check_address(name.provider, provider, key)
    _check_installed(provider)
    facts = facts_of(name.provider, name.model)
    if provider.window or provider.output:
        facts = msgspec.structs.replace(
            facts, window=provider.window or facts.window, output=provider.output or facts.output
        )
    limit = min(max_tokens or min(facts.output, _OUTPUT_MAX) or OUTPUT_DEFAULT, facts.output)
    given: dict[str, Any] = {
        "key": key, "base_url": provider.base_url, "max_tokens": limit, "provider": name.provider,
        "extra": dict(provider.extra), "cost": lambda usage: cost_of(facts, usage),
    }  # fmt: skip
    is_official = provider.base_url == PROVIDERS["openai"].base_url
    if is_official and cache_key:
        given["extra"]["prompt_cache_key"] = cache_key
    client: StreamingClient
    if provider.kind == "anthropic":
        from periplus.agent.models.anthropic_messages import AnthropicClient

        client = AnthropicClient(name.model, **given)
    elif provider.kind == "openai-responses":
        from periplus.agent.models.openai_responses import OpenAIResponsesClient

        client = OpenAIResponsesClient(name.model, **given)
    else:
        from periplus.agent.models.openai_chat import OpenAIChatClient

        limit_name = "max_completion_tokens" if is_official else "max_tokens"
        client = OpenAIChatClient(name.model, limit_name=limit_name, **given)
    return client, facts


def provider_models(name: str, provider: Provider, key: str) -> list[str]:
    """Ask the provider for its models, sorted. Raises ModelError, UsageError."""
    from periplus.agent.models.parts import failure, inheriting, missing

    _check_address(name, provider, key)
    try:
        client: Any
        if provider.kind == "anthropic":
            import anthropic

            client = anthropic.Anthropic(api_key=key or "none", base_url=provider.base_url, max_retries=0, timeout=20)
        else:
            import openai

            client = openai.OpenAI(api_key=key or "none", base_url=provider.base_url, max_retries=0, timeout=20)
    except ImportError as error:
        raise missing("anthropic" if provider.kind == "anthropic" else "openai") from error
    inheriting(client)
    try:
        return sorted(str(model.id) for model, _ in zip(client.models.list(), range(1_000), strict=False))
    except Exception as error:  # any error of the SDK becomes ours
        raise failure(error, name) from error
    finally:
        client.close()


def _check_installed(provider: Provider) -> None:
    """Check that the SDK is installed before a session begins. Raises UsageError."""
    from importlib.util import find_spec

    from periplus.agent.models.parts import missing

    package = "anthropic" if provider.kind == "anthropic" else "openai"
    if find_spec(package) is None:
        raise missing(package)


def _check_address(name: str, provider: Provider, key: str) -> None:
    """Check that a key is sent over TLS or stays on this machine."""
    from periplus.context.remotes.address import is_loopback

    try:
        parts = urlsplit(provider.base_url)
        host = parts.hostname or ""
    except ValueError:  # an incomplete IPv6 address
        parts, host = urlsplit(""), ""
    if not host or parts.scheme not in ("http", "https") or parts.username or parts.query:
        raise UsageError(f"{name}: {provider.base_url!r} is not a valid provider address", safe="Nothing was sent.",
                         mend="Write it as https://host/path, without a key in it.")  # fmt: skip
    if key and parts.scheme == "http" and not is_loopback(host):
        raise UsageError(f"{name}: a key would go to {host} without TLS", safe="Nothing was sent.",
                         mend="Use https, or a provider that needs no key.")  # fmt: skip
