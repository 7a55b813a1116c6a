"""``python -m bench``: measure, print the table, keep the result with its machine and commit."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Final

from bench import (
    agent_tape,
    appends,
    code_files,
    code_map,
    code_search,
    contexts,
    contexts_select,
    contexts_server,
    dispatch,
    files,
    hooks,
    importing,
    locks,
    mcp,
    merkle,
    proofs,
    reading,
    rebuild,
    recall,
    recall_questions,
    recall_work,
    report,
    start,
    trail,
    trail_scale,
    web,
    writers,
)
from bench.machine import machine
from bench.measure import Bench, Row
from bench.samples import REPOSITORY

PARTS: Final[dict[str, Callable[[Bench], Iterator[Row]]]] = {
    "append": appends.measure,
    "lock": locks.measure,
    "files": files.measure,
    "read": reading.measure,
    "rebuild": rebuild.measure,
    "import": importing.measure,
    "recall": recall.measure,
    "recall-work": recall_work.measure,
    "recall-words": recall_questions.measure,
    "code-search": code_search.measure,
    "code-files": code_files.measure,
    "code-map": code_map.measure,
    "start": start.measure,
    "hooks": hooks.measure,
    "mcp": mcp.measure,
    "web": web.measure,
    "merkle": merkle.measure,
    "proofs": proofs.measure,
    "context": contexts.measure,
    "trail": trail.measure,
    "scale": trail_scale.measure,
    "select": contexts_select.measure,
    "server": contexts_server.measure,
    "agent": agent_tape.measure,
    "dispatch": dispatch.measure,
    "writers": writers.measure,
}
RESULTS: Final = os.path.join(REPOSITORY, "bench", "results")


def main() -> int:
    arguments = _arguments()
    os.makedirs(arguments.results, exist_ok=True)
    begun, started = time.monotonic(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    load_before = os.getloadavg()
    rows: list[Row] = []
    notes: list[str] = []
    # Not in the folder for temporary files: on many machines that is memory, where a sync costs nothing.
    folder = tempfile.mkdtemp(prefix="work-", dir=os.path.abspath(arguments.results))  # processes work in other folders
    try:
        where = machine(folder)
        for name in arguments.only or PARTS:
            rows += PARTS[name](_bench(name, folder, notes, is_quick=arguments.quick, is_full=arguments.full))
    finally:
        shutil.rmtree(folder)
    result = report.Result(
        started,
        time.monotonic() - begun,
        arguments.quick,
        load_before,
        os.getloadavg(),
        tuple(notes),
        where,
        tuple(rows),
    )
    _keep(result, arguments.results)
    if arguments.json:
        print(json.dumps(report.to_json(result), ensure_ascii=False))
    else:
        print("\n".join((report.markdown if arguments.markdown else report.plain)(result)))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="What Periplus costs beside the bare work.")
    parser.add_argument("--only", action="append", choices=tuple(PARTS), help="this part (may be repeated)")
    parser.add_argument("--quick", action="store_true", help="small sizes, a few seconds: shows that it runs, no more")
    parser.add_argument("--full", action="store_true", help="the largest sizes: a million records; minutes")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the result as JSON")
    form.add_argument("--markdown", action="store_true", help="print the page for the documentation")
    parser.add_argument(
        "--results", default=RESULTS, metavar="DIR", help="where to work, and to keep the result (bench/results)"
    )
    return parser.parse_args()


def _bench(name: str, folder: str, notes: list[str], *, is_quick: bool, is_full: bool) -> Bench:
    own = os.path.join(folder, name)
    os.mkdir(own)

    def say(text: str) -> None:
        sys.stderr.write(f"{name}: {text}\n")
        if name == "import":
            notes.append(f"imported: {text}")

    return Bench(own, is_quick, say, is_full)


def _keep(result: report.Result, folder: str) -> None:
    name = f"{result.started.replace(':', '')}{'-quick' if result.is_quick else ''}.json"
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(report.to_json(result), file, ensure_ascii=False, indent=1)
        file.write("\n")


if __name__ == "__main__":
    sys.exit(main())
