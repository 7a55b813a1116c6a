"""``inbox``: mail of agents and people, questions of agents, and memory of other projects to accept or refuse."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from periplus.cli.common.face import Face, number, visible

if TYPE_CHECKING:
    from periplus.cli.work.schemas import MessageOut
    from periplus.journal import Entity

_LISTED: Final = 50
_KEY: Final = "repeat a write with an unknown outcome under its key; it is written at most once"


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    from periplus.cli.common.changes import add_insist

    assert command == "inbox"
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    what = "list candidates that are not decided yet, and questions of agents"
    listing = actions.add_parser("list", help=what, description=what[0].upper() + what[1:] + ".")
    listing.add_argument(
        "--limit", type=number(1), metavar="N", help=f"at most N (default: {_LISTED}; all with --json)"
    )
    listing.add_argument("--all", action="store_true", help="include accepted and refused ones")
    for name, what in (("accept", "accept a candidate into this memory"), ("refuse", "refuse a candidate")):
        sub = actions.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".")
        sub.add_argument("id", metavar="ID", help="the id of the candidate, or a unique prefix of it")

    def action(name: str, what: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".", allow_abbrev=False)

    mail = action("mail", "list your mail that is unread or needs your answer, and questions of agents")
    mail.add_argument("--all", action="store_true", help="include read and answered mail")
    send = action("send", "send a message to an agent or a person")
    send.add_argument("recipient", metavar="NAME", help="the recipient, by the name used with --as or PERIPLUS_AGENT")
    send.add_argument("text", metavar="TEXT", help="the message (at most 8,000 characters)")
    send.add_argument("--ref", default="", metavar="ID", help="what it is about")
    send.add_argument(
        "--needs-answer", action="store_true", help="keep it in the recipient's mail until it is answered"
    )
    send.add_argument("--key", default="", metavar="KEY", help=_KEY)
    add_insist(send)
    read = action("read", "show a message with its thread, and mark it as read")
    read.add_argument("id", metavar="ID", help="its id, or a unique prefix of it")
    answer = action("answer", "answer a message, or a question of an agent")
    answer.add_argument("id", metavar="ID", help="its id, or a unique prefix of it")
    answer.add_argument("text", metavar="TEXT", help="the message (at most 8,000 characters)")
    answer.add_argument("--key", default="", metavar="KEY", help=_KEY)
    add_insist(answer)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    if arguments.action not in ("mail", "send", "read", "answer"):
        if arguments.action == "list":
            return _list(face, with_decided=arguments.all, limit=arguments.limit)
        return _decide(face, arguments.action, arguments.id)
    from periplus.cli.common.changes import check_typed
    from periplus.cli.work.text import tell_who_is_meant

    check_typed(arguments)
    with face.open(allow_secrets=getattr(arguments, "insist", False)) as project:
        work = project.work
        if arguments.action == "mail":
            return _told(face, work.mail(with_read=arguments.all), "No mail.", work.dispatched.questions())
        if arguments.action == "send":
            sent = work.send(arguments.recipient, arguments.text, ref=arguments.ref, needs_answer=arguments.needs_answer,
                             key=arguments.key)  # fmt: skip
            tell_who_is_meant(face, project, arguments.recipient, "inbox send {} '…'")
            return _told(face, [sent], "")
        if arguments.action == "answer":
            if project.show(arguments.id).item_type == "question":
                return _told(face, [], "", [work.dispatched.answer(arguments.id, arguments.text, key=arguments.key)])
            return _told(face, [work.answer(arguments.id, arguments.text, key=arguments.key)], "")
        work.read_mail([arguments.id])
        return _told(face, work.thread(arguments.id), "")


def _told(face: Face, messages: list[Entity], nothing: str, questions: Sequence[Entity] = ()) -> int:
    from periplus.cli.work.dispatch_text import question_lines, question_outs
    from periplus.cli.work.schemas import MailOut

    result = MailOut([_out(one) for one in messages], question_outs(questions))

    def lines() -> Iterator[str]:
        for one in result.messages:
            wants = ", needs an answer" if one.needs_answer and one.state != "answered" else ""
            paint = face.palette
            yield f"{paint.name}{one.id}{paint.end} {visible(one.sender)} → {visible(one.recipient)}, {visible(one.state)}{wants}"
            yield f"  {visible(' '.join(one.text.split()))}"
        yield from question_lines(face, result.questions)
        if not result.messages and not result.questions:
            yield nothing

    face.emit(result, lines)
    return 0 if result.messages or result.questions else 1


def _out(entity: Entity) -> MessageOut:
    from periplus.cli.work.schemas import MessageOut

    value = entity.value
    names = ("state", "sender", "recipient", "text", "thread", "ref", "created")
    text = {name: str(value.get(name, "")) for name in names}
    return MessageOut(
        entity.item_id, text["state"], text["sender"], text["recipient"], text["text"], text["thread"], text["ref"],
        value.get("needs_answer") is True, text["created"],
    )  # fmt: skip


def _list(face: Face, *, with_decided: bool, limit: int | None) -> int:
    from periplus.cli.memory.candidate_schemas import InboxOut
    from periplus.cli.memory.candidate_text import between, candidate_out
    from periplus.cli.work.dispatch_text import question_lines, question_outs

    with face.open() as project:
        found = project.inbox(with_decided=with_decided)
        questions = question_outs(project.work.dispatched.questions())
    count = len(found)
    if limit or not face.as_json:
        found = found[: limit or _LISTED]
    result = InboxOut([candidate_out(one) for one in found], questions)

    def lines() -> Iterator[str]:
        yield from question_lines(face, questions)
        for one in result.candidates:
            state = "" if one.state == "pending" else f" ({one.state})"
            yield f"{one.id}  {visible(one.type)}{state} of {visible(one.store or one.origin)}{between(one)}"
            yield f"  {visible(one.text, face.width and face.width - 2)}"
        if len(found) < count:
            every = " --all" if with_decided else ""
            yield f"… and {count - len(found):,} more: periplus inbox list{every} --limit {count}, or --json"
        if not result.candidates:
            yield "There are no open candidates."
        elif not with_decided:
            yield "Next: periplus inbox accept ID, or refuse ID"

    return face.emit(result, lines, 0 if result.candidates or questions else 1)


def _decide(face: Face, action: str, reference: str) -> int:
    from periplus.cli.memory.candidate_schemas import DecidedOut

    with face.open() as project:
        if action == "accept":
            done = project.accept(reference)
            result = DecidedOut("accepted", done.entity.item_type, done.entity.item_id, done.is_new)
        else:
            entity = project.refuse(reference)
            result = DecidedOut("rejected", entity.item_type, entity.item_id, new=False)

    def lines() -> Iterator[str]:
        if action == "refuse":
            yield f"Refused {result.id}"
        elif result.new:
            yield f"Accepted as {visible(result.type)} {result.id}"
        else:
            yield f"Accepted: {visible(result.type)} {result.id} already says the same"

    face.emit(result, lines)
    return 0
