"""A plan with a dispatch, written through the records of coordination, as a supervisor writes them."""

from __future__ import annotations

import os

from periplus.base.files import Files
from periplus.base.process.process_marks import process_mark
from periplus.journal import Writer
from periplus.memory.coordination.assignments import Offer, change_assignment, offer_again, offer_step
from periplus.memory.coordination.dispatches import NewDispatch, change_dispatch, start_dispatch
from periplus.memory.coordination.plans import NewStep

GONE = {"pid": 2**22 - 1, "started": "1", "boot": "another-boot", "host": os.uname().nodename, "space": ""}


class Order:
    """A dispatch of a plan of four steps: `hash` and `mail` are ready, `docs` waits for the first, `site` is free."""

    def __init__(self, project, **more):
        self.project, self.journal, self.writer = project, project.journal, project.writer
        steps = [
            NewStep("hash", about=("src/auth.py",)), NewStep("mail", about=("src/mail.py",)), NewStep("docs", (1,)),
            NewStep("site", about=("site",)),
        ]  # fmt: skip
        made = project.work.make_plan("Move to argon2", steps)
        self.plan, self.steps = made.plan, made.steps
        new = NewDispatch(
            "Move to argon2", made.plan.item_id, ("codex", "gemini"), "main", "periplus/x", "0" * 40, ("claude-code",), **more
        )  # fmt: skip
        self.dispatch = start_dispatch(self.journal, self.writer, new)

    @property
    def id(self):
        return self.dispatch.item_id

    def offer(self, place, agent="codex"):
        offer = Offer(
            self.dispatch,
            self.steps[place].item_id,
            agent,
            Writer.named(f"{agent}-{place}"),
            branch=f"periplus/{place}",
        )
        return offer_step(self.journal, self.writer, offer)

    def offer_again(self, held, place, agent):
        return offer_again(
            self.journal, self.writer, held, Offer(self.dispatch, self.steps[place].item_id, agent, Writer.named(f"{agent}-{place}"))
        )  # fmt: skip

    def change(self, held, state="", **more):
        """Change an assignment as it is now; ``fields`` are the rest."""
        now = self.journal.get("assignment", held.item_id)
        return change_assignment(self.journal, self.writer, now, state=state, **more)

    def carry(self, process=None):
        """Name the supervisor: this process, or ``process``."""
        mark = process or process_mark(os.getpid(), Files())._asdict()
        self.dispatch = change_dispatch(self.journal, self.writer, self.id, fields={"process": mark})

    def start(self, place, agent="codex", run="r1"):
        held = self.offer(place, agent)
        return self.begin_run(held, run)

    def begin_run(self, held, run, purpose="work", agent="", state="running"):
        now = self.journal.get("assignment", held.item_id)
        runs = [*now.value.get("runs", []), self.run(now, run, purpose, agent)]
        return self.change(held, state if now.value["state"] != state else "", fields={"run": run, "runs": runs})

    def run(self, now, run, purpose, agent):
        from periplus.base.clock import format_ms

        started = format_ms(self.journal.clock.now_ms())
        return {"id": run, "agent": agent or now.value["agent"], "purpose": purpose, "started": started}

    def end_run(self, held, state="", *, tokens=(0, 0, 0), cost=0, wall_ms=0, ending="exited", reason="", **fields):
        """End the last run, which spent this, and go to ``state``."""
        from periplus.base.clock import format_ms

        now = self.journal.get("assignment", held.item_id)
        spent = dict(zip(("tokens_in", "cached", "out"), tokens, strict=True)) | {"cost": cost, "wall_ms": wall_ms}
        ended = format_ms(self.journal.clock.now_ms())
        runs = [dict(one) for one in now.value["runs"]]
        runs[-1] |= {"ended": ended, "ending": ending} | {name: count for name, count in spent.items() if count}
        sums = {name: now.value.get(name, 0) + count for name, count in spent.items()}
        return self.change(held, state, reason=reason, fields={"runs": runs, **sums, **fields})

    def integrate(self, held, commit="c" * 40):
        self.change(held, "verified", fields={"verified": "b" * 40})
        return self.change(held, "integrated", fields={"merged": commit})
