"""Errors leave the process that met them as they are: a pool's worker raises in who asked."""

from __future__ import annotations

import copy
import importlib
import inspect
import multiprocessing
import pickle
import pkgutil
from concurrent.futures import ProcessPoolExecutor

import pytest

import periplus
from periplus import Project, Writer
from periplus.base.errors import ClaimedError, PeriplusError
from periplus.memory.coordination.claims import Asked

pytestmark = pytest.mark.quick

for _module in pkgutil.walk_packages(periplus.__path__, "periplus."):
    importlib.import_module(_module.name)


def kinds(kind=PeriplusError):
    yield kind
    for below in kind.__subclasses__():
        yield from kinds(below)


def made(kind):
    """One of ``kind``, with a value for all that it must be given."""
    wanted = [one for one in list(inspect.signature(kind.__init__).parameters.values())[1:] if one.default is one.empty]
    wanted = [one for one in wanted if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    given = [f"{one.name} of it" for one in wanted if one.kind != one.KEYWORD_ONLY]
    return kind(*given, **{one.name: f"{one.name} of it" for one in wanted if one.kind == one.KEYWORD_ONLY})


@pytest.mark.parametrize(
    "kind", sorted(set(kinds()), key=lambda kind: (kind.__name__, kind.__module__)), ids=lambda kind: kind.__name__
)
def test_an_error_is_the_same_after_a_way_through_bytes(kind):
    error = made(kind)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert (str(again), again.args, again.__dict__) == (str(error), error.args, error.__dict__)


def claim(folder, name):
    with Project.open(folder, Writer.named(name)) as project:
        project.work.claim(Asked(("src",)))


@pytest.mark.slow
def test_a_claim_of_somebody_else_is_told_by_a_worker(tmp_path):
    Project.init(str(tmp_path))
    claim(str(tmp_path), "ada")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        with pytest.raises(ClaimedError) as told:
            pool.submit(claim, str(tmp_path), "bob").result(60)
        assert told.value.claims
        assert told.value.mend
