"""The environment of the templates: everything is escaped, and what is hidden in a text becomes visible."""

from __future__ import annotations

__all__ = ["Site", "environment", "render"]

import os
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from periplus.base.named_tuple import NamedTuple
from periplus.web.rendering import text

if TYPE_CHECKING:
    from jinja2 import Environment


class Site(NamedTuple):
    """What every page shows around its content. ``form_token`` is empty where nothing may be written; ``mark`` is that of the journal
    before the page was made.
    """

    project: str
    person: str
    version: str
    form_token: str = ""
    is_read_only: bool = False
    is_live: bool = True
    navigation: tuple[tuple[str, str, str], ...] = ()
    message: str = ""
    mark: str = ""


def render(template: str, site: Site, values: Mapping[str, object]) -> str:
    """Return the page of a template."""
    page: str = environment().get_template(template).render(site=site, **values)
    return page


@cache
def environment() -> Environment:
    """Return the environment of all templates."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder = os.path.join(os.path.dirname(os.path.dirname(__file__)), "templates")
    made = Environment(
        loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined, finalize=_finalized, trim_blocks=True,
        lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    made.filters.update(
        bytes=text.bytes_text, count=text.count_text, duration=text.duration_text, money=text.money_text, prose=text.prose,
        tokens=text.tokens_text, visible=text.visible,
    )  # fmt: skip
    return made


def _finalized(value: object) -> object:
    """Return what is output for a value: hidden characters of a text are shown, an absent value is empty."""
    if value is None:
        return ""
    if type(value) is str:
        return text.visible(value)
    return value
