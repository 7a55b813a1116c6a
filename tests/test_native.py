"""The parts in C give what Python gives, byte for byte; an installation has them where there is a compiler, and runs without.

``make setup`` builds them. Where it could not, the tests of C are skipped and those of the plain form remain.
"""

from __future__ import annotations

import hashlib
import hmac
import importlib.util
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import sysconfig
from array import array
from pathlib import Path

import pytest
from bench.samples import session_file
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import periplus
import trail_samples
from periplus.base import ids, speed
from periplus.base.encoding import canonical as canonical_module
from periplus.base.errors import FormatError, UsageError
from periplus.base.text import secrets
from periplus.journal.records.record import seal_line, unseal_line
from periplus.merkle.tree import root_of
from periplus.trail import Digest, Header, Step, TrailReader, encode, withhold
from periplus.trail.format import identity, layout, string_table
from periplus.trail.model import OUTCOMES, Signed, TextObject
from test_attack_trail import mutated

try:
    from periplus.base import _speed, _values
except ImportError:
    _speed = _values = None

ROOT = Path(__file__).parents[1]
NEEDS_C = pytest.mark.skipif(_speed is None or _values is None, reason="installed without a C compiler")
PARTS = ("periplus.base._speed", "periplus.base._values")
HOSTILE_ROUNDS = 3_000
LENGTHS = (*range(200), 1_000, 4_096, 70_000)


def plain(name):
    """The module ``name`` once more, as it is where no part in C was built."""
    with pytest.MonkeyPatch.context() as patch:
        for part in PARTS:
            patch.setitem(sys.modules, part, None)
        spec = importlib.util.find_spec(name)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


PLAIN = plain("periplus.base.speed")


def run(form, code, *arguments):
    """The output of ``code`` in a process of its own, in the plain form or as it was installed."""
    if form == "plain":
        code = f"import sys\nsys.modules.update(dict.fromkeys({PARTS}))\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(params=[False, True], ids=["portable", "instructions"])
def functions(request):
    """The functions in C, with the processor's own instructions and without."""
    _speed.use_instructions(request.param)
    yield _speed
    _speed.use_instructions(True)


# -- which form it is


def test_the_form_is_that_of_what_was_built():
    assert (_speed is not None) == speed.IS_NATIVE
    assert ("native" if _speed is not None else "plain Python", "plain Python") == (speed.FORM, PLAIN.FORM)
    assert not PLAIN.IS_NATIVE


@NEEDS_C
def test_no_part_is_older_than_its_source():
    """An installation in place: what changes in C runs after the next `make setup`, which every target begins with."""
    if not Path(_speed.__file__).is_relative_to(ROOT / "src"):
        pytest.skip("the parts do not lie beside their sources")
    for part in (_speed, _values):
        folder = Path(part.__file__).parent
        sources = [*folder.glob("*.c"), *folder.glob("*.h")]
        assert sources
        assert Path(part.__file__).stat().st_mtime >= max(path.stat().st_mtime for path in sources), "run `make setup`"


@pytest.mark.slow
@NEEDS_C
def test_every_command_says_which_form_runs(tmp_path):
    code = "import sys, os\nos.chdir(sys.argv.pop(1))\nfrom periplus.cli.entry import run\nrun()\n"
    for form, told in (("native", "native"), ("plain", "plain Python")):
        assert run(form, code, str(tmp_path), "--version") == f"periplus {periplus.__version__} ({told})\n"
        run(form, code, str(tmp_path), "init")
        said = run(form, code, str(tmp_path), "doctor")
        assert f"\nchecked by periplus {periplus.__version__} ({told})\n" in said
        assert json.loads(run(form, code, str(tmp_path), "doctor", "--json"))["native"] == (form == "native")


@pytest.mark.slow
def test_an_installation_has_the_parts_where_there_is_a_compiler_and_runs_without(tmp_path):
    if importlib.util.find_spec("setuptools") is None or importlib.util.find_spec("pip") is None:
        pytest.skip("an installation without a network needs pip and setuptools")
    has_compiler = shutil.which((sysconfig.get_config_var("CC") or "cc").split()[0]) is not None
    has_headers = Path(sysconfig.get_path("include"), "Python.h").exists()
    if not (has_compiler and has_headers):
        pytest.skip("no C compiler here, or Python's header files are not installed")
    for form, environment in (("native", {}), ("plain Python", {"CC": "false"})):
        source, target = tmp_path / form / "source", tmp_path / form / "target"
        shutil.copytree(
            ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
        )
        for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, source)
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--verbose",
            "--no-index",
            "--no-build-isolation",
            "--no-deps",
            "--no-compile",
        ]
        done = subprocess.run(
            [*command, "--target", str(target), str(source)], env={**os.environ, **environment},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2_000:] + done.stderr
        told = re.findall(r'building extension "(.*?)" failed', done.stdout + done.stderr)
        assert sorted(set(told)) == ([] if form == "native" else list(PARTS))
        parts = {path.name.partition(".")[0] for path in target.rglob("*.so")}
        assert parts == ({"_speed", "_values"} if form == "native" else set())
        plain_files = {
            path.relative_to(target / "periplus") for path in (target / "periplus").rglob("*") if path.is_file()
        }
        here = {
            path.relative_to(ROOT / "src/periplus") for path in (ROOT / "src/periplus").rglob("*") if path.is_file()
        }
        built = {path for path in plain_files | here if path.suffix in (".so", ".pyc")}
        assert plain_files - built == here - built
        version = subprocess.run(
            [sys.executable, "-m", "periplus", "--version"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(target)},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert version.stdout == f"periplus {periplus.__version__} ({form})\n"


# -- the same bytes and the same faults

BYTES = """
import hashlib, random, sys, trail_samples
from bench import codec
from periplus.base.errors import PeriplusError
from periplus.base.speed import IS_NATIVE
from periplus.interop import import_transcript
from periplus.trail import Header, TrailReader, encode, verify
from test_attack_trail import mutated
data = trail_samples.golden_trail()
assert verify(data).ok
steps = [codec._step(step) for step in codec._worklog(3_000)]
long = encode(Header("a", "t"), steps, "success", bytes(32))
assert list(TrailReader(long).steps()) == steps
keep = lambda data: hashlib.sha256(data).digest()
made = import_transcript(sys.argv[1], trail_key=bytes(32), put_object=keep)
told, chance = hashlib.sha256(), random.Random(3)
for _ in range(1_500):
    try:
        reader = TrailReader(mutated(data, chance, [b"\\0\\0"]))
        found = repr((list(reader.steps()), reader.computed_identity(), verify(reader.to_bytes()).ok))
    except PeriplusError as error:
        found = f"{type(error)} {error} {getattr(error, 'offset', None)}"
    told.update(found.encode())
print(IS_NATIVE)
print(keep(data).hex(), keep(long).hex(), keep(made.trail).hex(), made._replace(trail=b""), told.hexdigest())
"""


@NEEDS_C
@pytest.mark.slow
def test_both_forms_write_the_same_bytes_and_find_the_same_faults(tmp_path):
    session = session_file(str(tmp_path), 200_000)
    told = {form: run(form, BYTES, session.path).partition("\n") for form in ("plain", "native")}
    assert [told[form][0] for form in ("plain", "native")] == ["False", "True"]
    assert len(told["plain"][2]) > 200
    assert told["plain"][2] == told["native"][2]


@pytest.mark.slow
@NEEDS_C
def test_c_looks_for_the_same_secrets():
    check_needles(_speed)


def test_python_looks_for_the_same_secrets():
    check_needles(PLAIN)


@NEEDS_C
def test_c_takes_the_same_lines_for_sealed(functions):
    check_sealed(functions)


def test_python_takes_the_same_lines_for_sealed():
    check_sealed(PLAIN)


@NEEDS_C
def test_the_functions_of_c_are_those_of_hashlib(functions):
    check_functions(functions)


def test_the_functions_of_python_are_those_of_hashlib():
    check_functions(PLAIN)


@NEEDS_C
def test_c_refuses_what_it_was_not_made_for():
    check_refusals(_speed)


@NEEDS_C
@pytest.mark.slow
def test_the_loops_of_c_find_what_those_of_python_find_in_hostile_bytes():
    accepted, by_c = check_loops()
    assert accepted > HOSTILE_ROUNDS // 50
    assert by_c == accepted


@NEEDS_C
@pytest.mark.slow
def test_the_steps_that_c_makes_are_those_of_python():
    assert check_made() > HOSTILE_ROUNDS // 50


# -- values

TEXTS = st.text(max_size=100) | st.text(alphabet=' \t\n\x0b\x1c\x1f"\\a\x7fé\u2028\udcff', max_size=100)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | TEXTS | st.floats(),
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner) | st.tuples(inner),
    max_leaves=30,
)


@pytest.mark.slow
@NEEDS_C
@given(VALUES)
def test_c_writes_the_canonical_text_of_python_or_none(value):
    by_python = plain_canonical(value)
    found = _values.canonical(value)
    assert found is None or found == by_python
    assert (canonical_module.canonical(value) if by_python is not None else None) == by_python


def plain_canonical(value):
    """Canonical text as the plain form writes it; None for what it refuses."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(canonical_module, "_quickly", nothing)
        try:
            return canonical_module.canonical(value)
        except UsageError:
            return None


@NEEDS_C
def test_c_writes_usual_values_itself():
    value = {"v": 1, "text": 'an é and a " and a \n', "tags": ["a", "b"], "of": {"n": -3, "yes": True, "no": None}}
    assert _values.canonical(value) == plain_canonical(value) is not None


PLAIN_IDS = plain("periplus.base.ids")


@given(st.text(max_size=60) | st.from_regex(r"[a-z_]{0,34}_[0-9a-z]{15,17}", fullmatch=True))
def test_an_id_has_the_same_shape_in_both_forms(text):
    prefix, found, tail = text.rpartition("_")
    is_shape = bool(found) and re.fullmatch("[a-z0-9_]{1,32}", prefix) and re.fullmatch("[0-9a-hjkmnp-tv-z]{16}", tail)
    assert ids.is_id(text) == PLAIN_IDS.is_id(text) == bool(is_shape)


# -- how they are compared


def check_needles(functions):
    """Against Python's own search, on texts made of needles, their parts and anything else."""
    needles = [*secrets._EXACT_NEEDLES, *secrets._FOLDED_NEEDLES]
    parts = []  # as many as a plan takes: exact ones, folded ones, and some of both
    for exact, folded in ((secrets._EXACT_NEEDLES[:64], ()), ((), secrets._FOLDED_NEEDLES[:64]),
                          (secrets._EXACT_NEEDLES[-30:], secrets._FOLDED_NEEDLES[-30:])):  # fmt: skip
        parts.append((functions.needle_plan(exact, folded), exact, folded))
    pieces = st.one_of(
        st.sampled_from(needles).flatmap(lambda word: st.sampled_from([word, word.upper(), word.title(), word[:-1]])),
        st.text(max_size=4),
        st.sampled_from(["K", "\u212a", "\u017f", "\u0130", "é", "\u0141", "\U0001f511", "\udcff", "-", "_"]),
    )

    @settings(max_examples=150, deadline=None, database=None)
    @given(st.lists(pieces, max_size=12).map("".join))
    def check(text):
        lower = "".join(letter.lower() if letter.isascii() else letter for letter in text)
        for plan, exact, folded in parts:
            present = [needle in text for needle in exact] + [needle in lower for needle in folded]
            assert functions.needles_in(plan, text) == sum(is_there << at for at, is_there in enumerate(present))
        everywhere = [one for one in secrets._EXACT_NEEDLES if one in text] + [
            one for one in secrets._FOLDED_NEEDLES if one in lower
        ]
        found = secrets._needles_in(text)
        assert found == (everywhere if secrets._PLANS else [one for one in everywhere if one in found])

    check()


def check_sealed(functions):
    """Against the journal's own look at one line: sound, torn, short, long, of any bytes, one byte altered."""
    trailer = (b',"sum":"', b'"}')
    bodies = st.one_of(
        st.sampled_from([0, 1, 20, 37, 38, 54, 55, 56, 63, 64, 119, 120, 300_000]).map(lambda size: b"x" * size),
        st.binary(max_size=200),
        st.just('{"a":"é€"'.encode()),
    )
    sealed = bodies.map(lambda body: seal_line(body)[0][:-1])
    others = st.one_of(
        st.tuples(sealed, st.integers(0, 40), st.integers(1, 255)).map(lambda how: altered(*how)),
        st.tuples(sealed, st.integers(0, 40)).map(lambda how: how[0][: -how[1]]),
        st.tuples(sealed, st.integers(1, 40)).map(lambda how: how[0][how[1] :]),
        sealed.map(lambda line: line[:-18] + line[-18:].upper()),
        st.sampled_from([b"", b"}", *(b',"sum":"0123456789abcdef"}'[cut:] for cut in range(3)), b"\0" * 26, bytes(25)]),
    )

    @settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(sealed, max_size=3), st.lists(others, max_size=2), st.lists(sealed, max_size=2))
    def check(first, then, last):
        lines = first + then + last
        expected = list(itertools.takewhile(lambda leaf: leaf is not None, map(unseal_line, lines)))
        assert functions.sealed_leaves(lines, *trailer) == expected
        assert len(expected) >= len(first)

    check()
    many = [seal_line(b"%d" % number)[0][:-1] for number in range(1_000)]
    assert functions.sealed_leaves(many, *trailer) == [unseal_line(line) for line in many]
    many[700] = many[700][1:]
    assert len(functions.sealed_leaves(many, *trailer)) == 700


def altered(line, back, by):
    at = len(line) - 1 - min(back, len(line) - 1)
    return line[:at] + bytes([line[at] ^ by]) + line[at + 1 :]


def check_functions(functions):
    material = bytes(number * 7 % 251 for number in range(max(LENGTHS) + 64))
    for length in LENGTHS:
        data = material[:length]
        cut = length // 3
        pieces = [data[:cut], b"", data[cut : cut + 70], data[cut + 70 :]]
        assert functions.sha256(data) == hashlib.sha256(data).digest(), length
        assert functions.sha256_joined(pieces) == hashlib.sha256(data).digest(), length
        nodes = b"".join(
            hashlib.sha256(b"\1" + material[at : at + 64]).digest() for at in range(0, length // 64 * 64, 64)
        )
        assert functions.sha256_nodes(material[: length // 64 * 64]) == nodes
    last = bytes(32)
    for piece in pieces:
        last = hashlib.sha256(b"prefix" + last + piece).digest()
    assert functions.sha256_chained(b"prefix", bytes(32), pieces) == last
    assert functions.sha256_chained(b"prefix", bytes(32), []) == bytes(32)
    secret = bytes(range(32))
    pads = [bytes(byte ^ mask for byte in secret.ljust(64, b"\0")) for mask in (0x36, 0x5C)]
    for first in (0, 250, 2**40):
        salts = [hmac.digest(secret, (first + at).to_bytes(8, "big"), "sha256") for at in range(len(pieces))]
        salted = [hashlib.sha256(salt + piece).digest() for salt, piece in zip(salts, pieces, strict=True)]
        assert functions.sha256_salted(*pads, first, pieces) == b"".join(salted)
    values = (0xA2, ("text",), "ok", None, None, None, 0, None, 0, None, None)
    for operands in (("text",), (), ([],), (("a",), "b")):
        made = functions.record(Step, (0xA2, operands, *values[2:]))
        assert made == Step(0xA2, operands)
        assert type(made) is Step
        assert made.operands is operands


def check_loops():
    """Entries and steps changed at random, read by the loops of C and by those of Python: how many tables were sound,
    and of how many of these C found it.
    """
    chance = random.Random(11)
    texts = ("", "a", "é", "€", "\U0001f600", "x" * 127, "y" * 128, "z" * 4_096, "ß" * 300)
    steps = [Step(0xA2, (text,)) for text in texts] + [Step(0xC1, (Digest("git-sha1", bytes(20)),))]
    made = [trail_samples.golden_trail(), encode(Header("a", "t"), steps, "success", bytes(32))]
    made.append(withhold(made[0], lambda index, _: index % 2 == 0))
    sound = [trail_samples.sections_of(data) for data in made]
    spare = [b"\x00\x03\xed\xa0\x80", b"\x00\x02\xc1\x81", b"\x00\x04\xf4\x90\x80\x80", sound[0][layout.TAG_STRINGS]]
    accepted = by_c = 0
    for index in range(HOSTILE_ROUNDS):
        sections = sound[index % len(sound)]
        entries, program = sections[layout.TAG_STRINGS], sections[layout.TAG_STEPS]
        is_changed = index >= len(sound)
        if is_changed:
            entries = mutated(entries, chance, spare)
        is_by_c, in_c = read_by(_speed.check_entries, entries)
        _, in_python = read_by(nothing, entries)
        assert in_c == in_python, entries.hex()
        accepted += len(in_c) == 3
        by_c += is_by_c and len(in_c) == 3
        assert len(in_c) == 3 or not is_by_c or in_c[0] == "bytes after the last string"
        if not is_changed:
            leaves = list(identity.step_leaves(program, 0, len(program), in_c[2]))
            found = _speed.hash_steps(program, 1, len(program), program[0], in_c[2], bytes(32))
            assert found[:2] == (len(program), root_of(leaves))
        changed = mutated(program, chance, spare)
        _speed.hash_steps(changed, 0, len(changed), chance.randrange(400), bytes(32 * chance.randrange(9)), bytes(32))
    return accepted, by_c


def check_made():
    """Steps made by the loop of C and by that of Python: of sound trails and of changed ones that are sound all the same;
    and C is let loose on steps that nobody has checked. How many changed ones were sound.
    """
    from periplus.trail.format import steps_section as module

    chance = random.Random(12)
    everything = [
        Step(0xA2, ("a",), "failed", -7, "error", Digest("sha256", bytes(32)), 2**40, "note", -(2**40), 0, 5),
        Step(0xAD, ("m", 2**61, 0, 1, None), source=4), Step(0x9C, ("bob", -(2**60)), "unknown", delta_ms=300),
        Step(0x9F, (), "denied", error=TextObject(bytes(32), 5_000)), Step(0xFE, (Signed(-3), None, "new", 7), source=9),
    ]  # fmt: skip
    everything += [Step(0xA2, (f"text {at % 6_000}",), duration_ms=at) for at in range(9_000)]
    whole = encode(Header("a", "t"), everything, "success", bytes(32))
    made = [trail_samples.golden_trail(), encode(Header("a", "t"), everything[:12], "success", bytes(32)), whole]
    made.append(withhold(made[1], lambda index, _: index % 2 == 0))
    for data in made:
        reader = TrailReader(data)
        assert list(reader.steps()) == by_python(reader, reader._data)
    assert list(TrailReader(whole).steps()) == everything
    sound = 0
    for index in range(HOSTILE_ROUNDS):
        reader = TrailReader(made[index % 2])
        start, end = reader.span(layout.TAG_STEPS)
        program = mutated(reader._data[start:end], chance, [b"\x01\x9f\x02\x00\x00"])
        table = reader._strings
        data = reader._data[:start] + program + reader._data[end:]
        keys, held = array("Q", bytes(8 * 16)), [None] * 16
        found, *_ = _speed.take_steps(data, Step, table.forms, table.contents, OUTCOMES, module._ROW_MOST, keys, held,
                                      table.value, *(chance.randrange(len(data) + 9) for _ in range(3)), 0, 99)  # fmt: skip
        assert all(type(step) is Step and len(step) == 11 for step in found)
        try:
            count = judged_alike(_speed, module, program, table.forms)
        except FormatError:  # the number of steps is none
            continue
        if count is not None and count <= reader.step_count:
            sound += 1
            assert by_c(reader, data, count) == by_python(reader, data, count)
    return sound


def judged_alike(functions, module, program, forms):
    """How many steps the section has, None where they are not sound; C has to find so what the loop in Python finds."""
    from periplus.base.encoding.varint import read_uint

    count, at = read_uint(program, 0, len(program))
    of_c = functions.sound_steps(
        program, at, len(program), count, forms, module._ROW_MASKS, module._ROW_LEAST, module._ROW_MOST
    )
    check = module._StepsCheck(program, at, len(program), forms)
    try:
        check.pass_over(min(count, len(program)))
        is_sound = check.at == len(program)
    except (FormatError, IndexError):
        is_sound = False
    assert of_c == (check.used if is_sound and not check.unknown else None), program.hex()
    return count if is_sound else None


def by_c(reader, data, count):
    decoder = decoder_of(reader, data)
    found = []
    while len(found) < count:
        found += decoder.take(count - len(found))
    return found


def by_python(reader, data, count=None):
    return decoder_of(reader, data)._made(reader.step_count if count is None else count)


def decoder_of(reader, data):
    """The times stand where they stood: as many of them as the trail has steps."""
    from periplus.base.encoding.varint import read_uint
    from periplus.trail.format import steps_section as module

    shift = len(data) - len(reader._data)
    _, at = read_uint(data, *reader.span(layout.TAG_STEPS))
    start, end = reader.span(layout.TAG_TIMES)
    _, clock = read_uint(data, start + shift, end + shift)
    sources = reader._sections.get(layout.TAG_SOURCES)
    return module._Decoder(data, at, clock, -1 if sources is None else sources[0] + shift, reader._strings)


def nothing(*_):
    return None


def read_by(loop, data):
    """Whether ``loop`` found the strings section ``data`` sound; and its entries, offsets and commitments, or the fault
    and its place.
    """
    answers = []

    def spy(*arguments):
        answers.append(loop(*arguments))
        return answers[-1]

    kept = string_table.check_entries, identity.commit_whole
    string_table.check_entries = spy
    if loop is nothing:
        identity.commit_whole = nothing
    try:
        table = string_table.StringTable(data, 0, len(data))
        entries = [(entry, table.value(index)) for index, entry in enumerate(table.entries())]
        offsets = [table.offset(index) for index in range(len(table))]
        return answers != [None], (entries, offsets, identity.commit_entries(data, 0, len(data)))
    except FormatError as error:
        return any(answer is not None for answer in answers), (error.wrong, error.offset)
    finally:
        string_table.check_entries, identity.commit_whole = kept


def check_refusals(functions):
    reading = [b"", Step, b"", array("Q"), OUTCOMES, bytes(256), array("Q", bytes(8)), [None], len, 0, 0, -1, 0, 1]
    for call in (
        lambda: functions.take_steps(*reading[:-1]),
        lambda: functions.take_steps(*reading[:1], dict, *reading[2:]),
        lambda: functions.take_steps(*reading[:5], bytes(255), *reading[6:]),
        lambda: functions.needle_plan(("ab",), ()),
        lambda: functions.needle_plan(("a" * 17,), ()),
        lambda: functions.needle_plan(("abcé",), ()),
        lambda: functions.needle_plan(("abc",) * 60, ("abc",) * 5),
        lambda: functions.needles_in(b"no plan", "text"),
        lambda: functions.sha256("text"),
        lambda: functions.sealed_leaves((b"",), b"", b""),
        lambda: functions.sealed_leaves([bytearray(40)], b"", b""),
        lambda: functions.sealed_leaves([], b"", "text"),
        lambda: functions.sealed_leaves([], b""),
        lambda: functions.sha256_joined([b"", "text"]),
        lambda: functions.sha256_joined(b"bytes"),
        lambda: functions.sha256_nodes(bytes(65)),
        lambda: functions.sha256_chained(b"", bytes(31), []),
        lambda: functions.sha256_chained(b"", bytes(32), ["text"]),
        lambda: functions.sha256_salted(bytes(64), bytes(63), 0, []),
        lambda: functions.sha256_salted(bytes(64), bytes(64), 0, [7]),
        lambda: functions.check_entries("", 0, 0, 0, False),
        lambda: functions.check_entries(b"", 0, 0, 0),
        lambda: functions.commit_whole(b"", 0, 0, 0, bytes(64), bytes(63)),
        lambda: functions.hash_steps(b"", 0, 0, 0, b"", bytes(31)),
        lambda: functions.sound_steps(b"", 0, 0, 0, b"", bytes(8_191), bytes(256), bytes(256)),
        lambda: functions.text_at(b""),
        lambda: functions.record(dict, ()),
        lambda: functions.record(Step, []),
    ):
        with pytest.raises(TypeError, match="expected"):
            call()
    for call in (
        lambda: functions.take_steps(*reading[:2], bytes(1), *reading[3:]),
        lambda: functions.take_steps(*reading[:7], [], *reading[8:]),
        lambda: functions.take_steps(*reading[:6], array("Q", bytes(24)), [None] * 3, *reading[8:]),
        lambda: functions.check_entries(bytes(3), 0, 4, 1, False),
        lambda: functions.commit_whole(bytes(3), 0, 4, 1, bytes(64), bytes(64)),
        lambda: functions.hash_steps(bytes(3), 3, 2, 1, b"", bytes(32)),
        lambda: functions.sound_steps(bytes(3), 0, 4, 1, b"", bytes(8_192), bytes(256), bytes(256)),
        lambda: functions.text_at(b"\x05abcd", 0),
        lambda: functions.text_at(b"", 1),
    ):
        with pytest.raises(ValueError, match=r"expected|no text"):
            call()
