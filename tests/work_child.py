"""A process of its own that takes steps of a plan until nothing is ready; prints what it took, one id a line."""

from __future__ import annotations

import sys

from periplus.base.errors import LockTimeoutError
from periplus.journal import Writer
from periplus.project import Project


def main(root, number):
    with Project(root, Writer(f"agent{number}", f"who_{number:016d}", "", 1)) as project:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        while (taken := patiently(project.work.take)) is not None:
            step = taken.step.item_id
            sys.stdout.write(step + "\n")
            patiently(lambda step=step: project.work.change_state([step], "done"))


def patiently(do):
    """Twenty processes on a busy machine may keep one waiting for longer than the lock's patience: it was told so, and asks again."""
    while True:
        try:
            return do()
        except LockTimeoutError:
            continue


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
