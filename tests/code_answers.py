"""What the code map answers for the references of a line, as text to compare."""

from __future__ import annotations

__all__ = ["ctags_lines", "resolved", "walk_all"]

import subprocess

import pytest

from periplus.code.extraction.parse import parse_source
from periplus.code.resolution.resolver import Resolver
from periplus.code.resolution.sources import MemorySources


def resolved(files, path, line):
    """Return the references of a line as ``name -> grade target``, sorted."""
    facts = {name: parse_source(name, text.encode()).facts for name, text in files.items()}
    sources = MemorySources(facts)
    resolver = Resolver(sources)
    found = set()
    for one in facts[path].references():
        if one.line != line:
            continue
        target = facts[path].targets[one.target]
        answer = resolver.resolve(path, target)
        places = []
        for entity in answer.found:
            where = sources.file(entity.path).definitions[entity.symbol].qualified if entity.symbol >= 0 else ""
            places.append(f"{entity.path}:{where}")
        said = answer.grade or ("external" if answer.is_external else "unknown")
        found.add(f"{facts[path].final_name(target)} -> {' '.join([said, *places])}")
    return sorted(found)


def walk_all(path, data):
    """Resolve each reference of a file that stands alone; return the state of its parse."""
    parsed = parse_source(path, data)
    if parsed.facts is not None:
        resolver = Resolver(MemorySources({path: parsed.facts}))
        for one in parsed.facts.references():
            resolver.resolve(path, parsed.facts.targets[one.target])
    return parsed.state


def ctags_lines(path, language, kinds):
    """Return names and lines of the definitions that universal-ctags finds in a file."""
    command = [
        "/usr/bin/ctags",
        "-x",
        "--_xformat=%N %n",
        f"--languages={language}",
        f"--kinds-{language}={kinds}",
        str(path),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except OSError:
        pytest.skip("universal-ctags is not installed")
    return {(name, int(line)) for name, line in map(str.split, done.stdout.splitlines())}
