"""``inbox``: agents' mail, and what other projects know, which is ``sync_commands``'."""

from __future__ import annotations

__all__ = ["configure", "execute"]

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from periplus.cli.face import Face, visible

if TYPE_CHECKING:
    from periplus.cli.work_schemas import MessageOut
    from periplus.journal import Entity

_KEY = "repeat a write whose outcome is unknown: it is never written twice"


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    from periplus.cli import sync_commands
    from periplus.cli.work_text import add_insist

    actions = sync_commands.configure_inbox(parser, command)

    def action(name: str, what: str) -> argparse.ArgumentParser:
        found: argparse.ArgumentParser = actions.add_parser(
            name, help=what, description=what[0].upper() + what[1:] + ".", allow_abbrev=False
        )
        return found

    mail = action("mail", "your mail that is not read, or waits for your answer")
    mail.add_argument("--all", action="store_true", help="also what was read and answered")
    send = action("send", "leave a message for an agent or a person")
    send.add_argument("recipient", metavar="NAME", help="who gets it, as he calls himself with --as or PERIPLUS_AGENT")
    send.add_argument("text", metavar="TEXT", help="what you say (at most 8,000 characters)")
    send.add_argument("--ref", default="", metavar="ID", help="what it is about")
    send.add_argument("--needs-answer", action="store_true", help="it stays in his mail until he answers")
    send.add_argument("--key", default="", metavar="KEY", help=_KEY)
    add_insist(send)
    read = action("read", "read a message with its thread; it is unread no more")
    read.add_argument("id", metavar="ID", help="its id, or its unique beginning")
    answer = action("answer", "answer a message, in its thread")
    answer.add_argument("id", metavar="ID", help="its id, or its unique beginning")
    answer.add_argument("text", metavar="TEXT", help="what you say (at most 8,000 characters)")
    answer.add_argument("--key", default="", metavar="KEY", help=_KEY)
    add_insist(answer)


def execute(face: Face, arguments: argparse.Namespace) -> int:
    if arguments.action not in ("mail", "send", "read", "answer"):
        from periplus.cli import sync_commands

        return sync_commands.execute(face, arguments)
    from periplus.cli.work_text import check_typed, tell_who_is_meant

    check_typed(arguments)
    with face.open(allow_secrets=getattr(arguments, "insist", False)) as project:
        work = project.work
        if arguments.action == "mail":
            return _told(face, work.mail(with_read=arguments.all), "No mail.")
        if arguments.action == "send":
            sent = work.send(arguments.recipient, arguments.text, ref=arguments.ref, needs_answer=arguments.needs_answer,
                             key=arguments.key)  # fmt: skip
            tell_who_is_meant(face, project, arguments.recipient, "inbox send {} '…'")
            return _told(face, [sent], "")
        if arguments.action == "answer":
            return _told(face, [work.answer(arguments.id, arguments.text, key=arguments.key)], "")
        work.read_mail([arguments.id])
        return _told(face, work.thread(arguments.id), "")


def _told(face: Face, messages: list[Entity], nothing: str) -> int:
    from periplus.cli.work_schemas import MailOut

    result = MailOut([_out(one) for one in messages])

    def lines() -> Iterator[str]:
        for one in result.messages:
            wants = ", wants an answer" if one.needs_answer and one.state != "answered" else ""
            paint = face.palette
            yield f"{paint.name}{one.id}{paint.end} {visible(one.sender)} → {visible(one.recipient)}, {visible(one.state)}{wants}"
            yield f"  {visible(' '.join(one.text.split()))}"
        if not result.messages:
            yield nothing

    face.emit(result, lines)
    return 0 if result.messages else 1


def _out(entity: Entity) -> MessageOut:
    from periplus.cli.work_schemas import MessageOut

    value = entity.value
    names = ("state", "sender", "recipient", "text", "thread", "ref", "created")
    text = {name: str(value.get(name, "")) for name in names}
    return MessageOut(
        entity.item_id, text["state"], text["sender"], text["recipient"], text["text"], text["thread"], text["ref"],
        value.get("needs_answer") is True, text["created"],
    )  # fmt: skip
