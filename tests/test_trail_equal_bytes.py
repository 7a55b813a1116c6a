"""Equal content and secret give equal bytes: in every process, under every hash seed and every Python; and what is decoded and
encoded again, whole, redacted, signed, concatenated or of a newer version, is what it was.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from periplus.trail import Parts, TrailReader, Withheld, concat, encode, open_parts, sign, verify, withhold
from periplus.trail.format import layout
from real_trails import hundred
from trail_samples import SECRET, golden_trail, headers, sections_of, small_trail, statuses, steps, with_sections

SRC = Path(__file__).parents[1] / "src"
CHILD = Path(__file__).with_name("trail_child.py")
KEY = bytes(range(7, 39))
MADE_BY_THE_CHILD = "8ab588b0292bf340"  # of the trail that the child makes itself: the same on every machine
quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def pythons():
    """Other Pythons that this machine has, of versions that Periplus supports."""
    found = {}
    roots = [os.environ.get("PYENV_ROOT"), Path.home() / ".pyenv"]
    paths = [path for root in roots if root for path in sorted(Path(root).glob("versions/3.*/bin/python3"))]
    paths += [Path(path) for minor in range(11, 20) if (path := shutil.which(f"python3.{minor}"))]
    for path in paths:
        asked = subprocess.run([path, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True)
        if asked.returncode == 0:
            found.setdefault(tuple(map(int, asked.stdout.split())), path)
    return [path for version, path in sorted(found.items()) if version >= (3, 11) and version != sys.version_info[:2]]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trails")
    trails = [golden_trail(), small_trail()]
    try:
        trails += hundred()[::10]
    except pytest.skip.Exception:
        pass  # the two are enough where no real ones are
    paths = []
    for number, data in enumerate(trails):
        paths.append(folder / f"{number}.trail")
        paths[-1].write_bytes(data)
    return paths


def told(python, seed, files):
    environment = {"PATH": os.environ["PATH"], "PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run([python, CHILD, SRC, *files], env=environment, capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


@pytest.mark.slow
def test_equal_bytes_in_every_process(files):
    first = told(sys.executable, "0", files)
    assert len(set(first)) == len(first) == 4 * len(files) + 3
    assert first[-2].startswith(MADE_BY_THE_CHILD)
    for seed in ("1", "4294967295", "random"):
        assert told(sys.executable, seed, files) == first


@pytest.mark.slow
def test_equal_bytes_in_every_python(files):
    others = pythons()
    if not others:
        pytest.skip("no other Python of a supported version on this machine; golden digests stand for them")
    first = told(sys.executable, "0", files)
    for python in others:
        assert told(python, "random", files) == first, python


def again(data):
    """``data`` by way of its values."""
    reader = TrailReader(data)
    extra = dict(reader.extra)
    if reader.signature is not None:
        extra[layout.TAG_SIGNATURE] = reader.signature
    return encode(reader.header, reader.steps(), reader.status, reader.secret, extra=extra)


trails = st.builds(encode, headers, st.lists(steps(), max_size=6), statuses, st.binary(min_size=32, max_size=32))


@pytest.mark.slow
@given(trails, st.dictionaries(st.integers(8, 254), st.binary(max_size=20), max_size=2))
@quick
def test_signed_and_newer_trails_come_back_from_their_values(data, extra):
    whole = sign(with_sections(data, extra), KEY)
    assert again(whole) == whole
    assert TrailReader(whole).extra == extra
    assert verify(whole).ok


@pytest.mark.slow
@given(trails, st.data())
@quick
def test_a_redacted_trail_says_what_the_whole_one_says_but_for_what_is_withheld(data, chosen):
    reader = TrailReader(data)
    hidden = chosen.draw(st.sets(st.integers(0, len(reader.strings) - 1)))
    redacted = withhold(data, lambda index, _: index in hidden)
    assert withhold(again(data), lambda index, _: index in hidden) == redacted
    commitments = reader.commitments()
    gone = {reader.string(index): Withheld(commitments[32 * index : 32 * index + 32]) for index in hidden}

    def shown(value):
        if isinstance(value, int) or value is None:
            return value
        return tuple(map(shown, value)) if type(value) is tuple else gone.get(value, value)

    found = TrailReader(redacted)
    assert list(found.steps()) == [
        step._replace(
            operands=shown(step.operands), error=shown(step.error), result=shown(step.result), note=shown(step.note)
        )
        for step in reader.steps()
    ]
    assert found.header == reader.header._replace(
        **{name: shown(value) for name, value in reader.header._asdict().items() if name != "started_ms"}
    )
    assert sections_of(redacted)[layout.TAG_STEPS] == sections_of(data)[layout.TAG_STEPS]


@pytest.mark.slow
@given(st.lists(trails, min_size=1, max_size=4), st.booleans())
@quick
def test_a_concatenation_comes_back_from_the_values_of_its_parts(files, is_signed):
    whole = sign(concat(files), KEY) if is_signed else concat(files)
    made = concat([again(reader.to_bytes()) for reader in open_parts(whole)])
    assert (sign(made, KEY) if is_signed else made) == whole
    assert Parts(whole).with_files(Parts(whole).files()) == whole
    hidden = withhold(whole, lambda index, _: index % 2 == 0)
    assert Parts(hidden).digest == Parts(whole).digest
    assert verify(hidden).ok


FORGED = {
    "agent": "another",
    "trail_id": "another",
    "tool": "another",
    "tool_version": "9",
    "base": "another",
    "model": None,
    "host": "another",
    "source": None,
    "title": "another",
    "parents": (),
    "started_ms": 1,
}


@pytest.mark.parametrize("field", [*FORGED, "status", "step", "order", "time", "duration", "source number"])
def test_a_signature_covers_the_header_the_steps_and_the_times(field):
    """The forger computes everything anew that can be computed, and keeps the signature."""
    signed = sign(golden_trail(), KEY)
    reader = TrailReader(signed)
    header, status, found = reader.header, reader.status, list(reader.steps())
    changes = {
        "status": lambda: (header, "success", found),
        "step": lambda: (header, status, found[:-1]),
        "order": lambda: (header, status, [found[1], found[0], *found[2:]]),
        "time": lambda: (header, status, [found[0]._replace(delta_ms=found[0].delta_ms + 1), *found[1:]]),
        "duration": lambda: (header, status, [found[0]._replace(duration_ms=77_777), *found[1:]]),
        "source number": lambda: (header, status, [found[0]._replace(source=77_777), *found[1:]]),
    }
    if field in FORGED:
        assert getattr(header, field) != FORGED[field]
        changed = header._replace(**{field: FORGED[field]}), status, found
    else:
        changed = changes[field]()
    kept = {layout.TAG_SIGNATURE: reader.signature}
    new_header, new_status, new_steps = changed
    forged = encode(new_header, new_steps, new_status, SECRET, extra=kept)
    assert [check.name for check in verify(forged).checks if check.verdict == "error"] == ["signature"]
    assert verify(encode(header, found, status, SECRET, extra=kept)).ok


def test_the_golden_trail_needs_no_other_secret():
    assert TrailReader(golden_trail()).secret == SECRET
    assert again(golden_trail()) == golden_trail()
