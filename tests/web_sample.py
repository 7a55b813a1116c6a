"""A store with something of everything that the page shows, written through the interfaces of the project; with plain texts or any others."""

from __future__ import annotations

import os

from agent_support import Bench, tape
from code_page_project import make_shop
from dispatch_records import Order
from periplus.agent.contracts import ToolResult
from periplus.agent.models.scripted import answer, call
from periplus.agent.persistence.run_log import StoreLog
from periplus.context.model import Atom, atom_digest
from periplus.journal import Writer
from periplus.memory.coordination.claims import Asked
from periplus.memory.coordination.dispatches import NewQuestion, ask_person
from periplus.memory.coordination.handoffs import NewHandoff
from periplus.memory.coordination.plans import NewStep
from periplus.memory.coordination.sessions import NewSession, begin_session
from periplus.memory.reflection.candidates import record_candidates
from periplus.memory.writing.remember import Memory
from periplus.project import Project
from periplus.project.context_store.lines import GivenAtom
from reflect_support import session
from web_support import ADA

BOB = Writer.named("bob", session="bob-1")
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": os.devnull}


class Sample:
    """The store in ``folder / "shop"``. ``say`` makes each text out of a plain one. ``ids`` has the id of one entity of each kind."""

    def __init__(self, folder, say=str, *, with_run=True):
        self.folder, self.home, self.say, self.ids = folder / "shop", folder, say, {}
        self.folder.mkdir()
        make_shop(self.folder, ENVIRONMENT)
        self.root = Project.init(os.fspath(self.folder)).root
        with Project(self.root, ADA) as ada, Project(self.root, BOB) as bob:
            self._memory(ada, bob)
            self._work(ada, bob)
            self._sessions(ada)
            self._contexts(ada)
        if with_run:
            self._run()
        stale = self.folder / "src/shop/prices.py"
        stale.write_text(stale.read_text().replace("1 + VAT", "VAT + 1.0"))

    def _memory(self, ada, bob):
        say = self.say
        for memory in (
            Memory("decision", say("Prices are kept in cents"), tags=("money", "prices"), about=("src/shop/prices.py:with_vat",),
                   extra={"rationale": say("Floats lose cents"), "alternatives": [say("Decimal everywhere")]}),
            Memory("constraint", say("A cart is never negative"), about=("src/shop/cart.py",), extra={"check": "test -f src/shop/cart.py"}),
            Memory("trap", say("Rounding twice changes a total"), extra={"severity": "high", "remedy": say("Round once, at the end")}),
            Memory("note", say("Bob looks after the release\n\nSee https://example.org/release and ask him.")),
            Memory("lesson", say("Run the slow tests before a release"), tags=("release",)),
        ):  # fmt: skip
            made = ada.remember(memory).entity
            self.ids.setdefault(memory.item_type, made.item_id)
        old = self.ids["decision"]
        new = bob.remember(
            Memory("decision", say("Prices are kept in thousandths of a cent"), supersedes=(old,))
        ).entity
        self.ids["newer"] = new.item_id
        ada.work.set_fields(self.ids["lesson"], {"text": say("Run the slow tests before each release")})
        ada.work.link(self.ids["trap"], "references", new.item_id)

    def _work(self, ada, bob):
        say = self.say
        made = ada.work.make_plan(
            say("Better slugs"),
            [NewStep(say("Cut long slugs")), NewStep(say("Leave out punctuation"), (1,))],
            rationale=say("They are read aloud"),
        )
        self.ids["plan"], self.ids["step"] = made.plan.item_id, made.steps[0].item_id
        ada.work.take(step=made.steps[0].item_id)
        begin_session(
            bob.journal, bob.writer, NewSession("bob-1", model="model-1", tool="codex", title=say("Count the cogs"))
        )
        ada.work.claim(Asked(("src/shop/cart.py:Cart",), text=say("rewrites it")))
        bob.work.claim(Asked(("web", "tests/*.py"), "shared", text=say("reads")))
        self.ids["message"] = bob.work.send(
            "ada", say("Which clock? See https://example.org/x"), needs_answer=True
        ).item_id
        self.ids["handoff"] = bob.work.hand_off(
            NewHandoff(say("It counts"), unfinished=(say("tests"),), tests=say("3 fail"))
        ).item_id
        order = Order(bob)
        order.carry()
        held = order.start(0)
        order.end_run(order.start(1, "gemini"), "failed", ending="exited", reason=say("tests fail"), summary=say("Mail is sent"),
                      findings=[{"severity": "blocking", "text": say("It loops"), "path": "src/mail.py", "line": 3}])  # fmt: skip
        ask_person(
            bob.journal, bob.writer, NewQuestion(say("May I?"), order.id, held.item_id, "codex", (say("yes"), "no"))
        )
        self.ids["dispatch"] = order.id
        other = self.home / "other"
        other.mkdir()
        with Project(Project.init(os.fspath(other), store=os.fspath(other)).root, Writer.named("eve")) as eve:
            lesson = eve.remember(Memory("lesson", say("Write to a file beside, then rename"))).entity
        (candidate,) = record_candidates(ada.journal, "st_other", [lesson], ada.writer).written
        self.ids["candidate"] = candidate

    def _sessions(self, ada):
        say = self.say
        for name, prompt in (("first", "Add the tax to prices"), ("second", "Add the tax to carts")):
            path = session(
                self.home / f"{name}.jsonl", ("prompt", say(prompt)), ("say", say("I look at the tests first.")), ("run", say("pytest -q"), say("1 failed")),
                ("edit", "src/shop/prices.py"), ("run", "pytest -q"), ("refused", say("git push"), say("not yet")), ("say", say("The tax is added.")),
                name=f"5e55{len(name)}{name}", cwd=os.fspath(self.folder),
            )  # fmt: skip
            self.ids[name] = ada.import_transcript(os.fspath(path)).entity.item_id
        ada.remember(Memory("lesson", say("The tax is added once"), evidence=(("step", f"{self.ids['first']}#3"),)))

    def _contexts(self, ada):
        def commit(*texts, ref="main", message=""):
            atoms = [Atom(self.say(text), "Fact", 1_790_000_000_000, 500_000, "", ()) for text in texts]
            return ada.contexts.commit(
                [GivenAtom(atom_digest(one), one) for one in atoms], ref=ref, message=self.say(message)
            )

        commit("prices are in cents", "a cart has items", message="what we know")
        self.ids["context"] = commit("the tax is 19 %", message="the tax").digest
        ada.contexts.set_ref("try", self.ids["context"])
        commit("only in try", ref="try", message="try goes on")

    def _run(self):
        """A session of our own agent."""
        with Project(self.root, Writer.named("ada", session="run-1")) as project:
            log = StoreLog(project, "run-1", title=self.say("Oil the engine"), model="scripted", checkpoints=False)
            bench = Bench(
                self.home, [answer(self.say("I look."), call("look")), self.say("Done.")], log=log, context=tape
            )
            bench.host.more["look"] = lambda: ToolResult(outcome="ok", output=self.say("all is well\n") * 30)
            bench.turn(self.say("Oil the engine"))

    def address(self, pattern):
        """Return the address of a page by the pattern of its route."""
        found = self.addresses().get(pattern, pattern)
        return found.replace("{id}", self.ids["first"]) if found.startswith("/sessions/") else found

    def addresses(self):
        """An address for each page that takes a part or needs a query, by the pattern of its route; the others are their own pattern."""
        ids = self.ids
        return {
            "/memory": "/memory?q=prices", "/memory/{id}": f"/memory/{ids['decision']}", "/leave": "/leave?to=https%3A%2F%2Fexample.org%2Fx",
            "/sessions/{id}": f"/sessions/{ids['first']}", "/sessions/{id}/step/{number}": f"/sessions/{ids['first']}/step/3",
            "/sessions/{id}/file": f"/sessions/{ids['first']}/file", "/sessions/{id}/verified": f"/sessions/{ids['first']}/verified",
            "/sessions/compare": f"/sessions/compare?a={ids['first']}&b={ids['second']}",
            "/journal/at": "/journal/at?seq=9", "/journal/difference": "/journal/difference?from=5&to=12", "/journal/proof": "/journal/proof?seq=3",
            "/journal/undo": "/journal/undo?session=bob-1", "/journal/{seq:int}": "/journal/4",
            "/work/plan/{id}": f"/work/plan/{ids['plan']}", "/work/dispatch/{id}": f"/work/dispatch/{ids['dispatch']}",
            "/run/{session:path}": "/run/run-1", "/code": "/code?by=memory", "/code/symbol": "/code/symbol?path=src/shop/prices.py&name=with_vat",
            "/code/impact": "/code/impact?since=HEAD", "/contexts/graph": "/contexts/graph?ref=main", "/contexts/show": "/contexts/show?ref=main",
            "/contexts/expand": "/contexts/expand?ref=main&budget=500", "/contexts/compare": "/contexts/compare?a=main&b=try",
        }  # fmt: skip
