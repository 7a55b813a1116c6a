"""``periplus trail seal``."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator

from periplus.cli.common.face import Face, counted, plain, visible

_STATUSES = ("success", "error", "partial", "cancelled")


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run", metavar="RUN", nargs="?", help="an open run (default: every run whose process is gone)")
    add(
        "--status",
        choices=_STATUSES,
        default="partial",
        help="how RUN ended, if that is not recorded (default: partial)",
    )


def execute(face: Face, arguments: argparse.Namespace) -> int:
    from periplus.cli.trail.documents import sealed_out
    from periplus.cli.trail.schemas import TrailSealOut

    still_open: list[str] = []
    with face.open() as project:
        if arguments.run is not None:
            sealed, troubles = [project.seal_run(plain(arguments.run, "RUN"), arguments.status)], []
        else:
            found = project.seal_abandoned()
            sealed = [one.sealed for one in found if one.sealed is not None]
            troubles = [(one.run.id, one.trouble) for one in found if one.trouble is not None]
            failed = {run_id for run_id, _ in troubles}
            still_open = [run.id for run in project.unsealed_runs() if run.id not in failed]
    for run_id, trouble in troubles:
        face.stderr.write(f"periplus: run {run_id} was not sealed: {visible(str(trouble))}\n{visible(trouble.mend)}\n")
    result = TrailSealOut([sealed_out(one) for one in sealed], [run_id for run_id, _ in troubles])
    nothing = "There are no abandoned runs." if not troubles else "No run could be sealed."

    def lines() -> Iterator[str]:
        for one in result.sealed:
            steps = counted(one.steps, "steps")
            yield f"{one.trail}  {one.status}, {steps}{'' if one.changed else ' (sealed before)'}  {one.run}"
        if not result.sealed:
            yield nothing
        for run_id in still_open:  # its process is running, or it had a step within a day
            yield f"Still open: {run_id}. To end it: periplus trail seal {run_id} --status success"

    return face.emit(result, lines, troubles[0][1].exit_code if troubles else 0)
