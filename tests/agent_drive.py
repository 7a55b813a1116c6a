"""Drives a tape as the loop does, with files that are a dict: for tests of the tape and its bench."""

from __future__ import annotations

import hashlib

import msgspec

from periplus.agent.contracts import AssistantMessage, ToolCall, ToolResult
from periplus.agent.episodes import Answered, Ended, Episode, Fed, Noted, Requested, Resulted
from periplus.agent.tape.compiler import Tape
from periplus.agent.tape.prefix_survival import serialised


def digest(data):
    return hashlib.sha256(data).hexdigest() if data is not None else None


class DictFiles:
    """Files that are a dict, and every state of each that was seen."""

    def __init__(self, **files):
        self.files = dict(files)
        self.objects = {}
        for data in self.files.values():
            self.objects[digest(data)] = data

    def read(self, path):
        return self.files.get(path)

    def kept(self, sha256):
        return self.objects.get(sha256)

    def write(self, path, data):
        """As a tool: what was before and after is kept, and told as an effect."""
        before = self.files.get(path)
        self.objects[digest(before)] = before
        self.put(path, data)
        self.objects[digest(data)] = data
        return {"path": path, "before": digest(before), "after": digest(data)}

    def put(self, path, data):
        """As somebody else."""
        if data is None:
            self.files.pop(path, None)
        else:
            self.files[path] = data


class Driver:
    """A session: everything goes into ``log`` as JSON would keep it, and from there into the tape."""

    def __init__(self, files=None, *, tape=None, log=(), **options):
        self.files = files if files is not None else DictFiles()
        self.options = options
        self.tape = tape or Tape("system prompt", (), files=self.files, **options)
        self.log: list[Episode] = []
        self.requests: list[bytes] = []
        self.messages: list[tuple] = []
        self.measures: list[dict] = []
        self.turn = 0
        self.step = 0
        for episode in log:
            self.take(episode)

    def take(self, *episodes):
        for episode in episodes:
            kept = msgspec.json.decode(msgspec.json.encode(episode), type=Episode)
            self.log.append(kept)
            self.tape.take(kept)

    def again(self):
        """Another process that reads the log."""
        other = Driver(self.files, log=self.log, **self.options)
        other.turn, other.step = self.turn, self.step
        return other

    def bytes(self):
        return b"".join(serialised(message) for message in self.tape.messages())

    def ask(self):
        messages = self.tape.messages()
        self.measures.append(dict(self.tape.sent(messages)))
        self.messages.append(tuple(messages))
        self.requests.append(b"".join(serialised(message) for message in messages))

    def begin(self, text, topic=""):
        self.turn += 1
        self.step = 0
        request = Requested(turn=self.turn, text=text, topic=topic)
        self.take(request, *self.tape.begin(request))

    def do(self, name, output="", *, effects=(), outcome="ok", exit_code=None, content="", **args):
        """A step of one call."""
        self.ask()
        self.step += 1
        call = ToolCall(id=f"c{self.turn}.{self.step}", name=name, args=args)
        self.take(
            Answered(turn=self.turn, step=self.step, message=AssistantMessage(content=content, tool_calls=(call,)))
        )
        result = ToolResult(outcome=outcome, output=output, exit_code=exit_code, effects=tuple(effects))
        self.take(Resulted(turn=self.turn, step=self.step, call_id=call.id, name=name, result=result))

    def feed(self, text, source):
        self.take(Fed(turn=self.turn, step=self.step, source=source, text=text))

    def end(self, text="Done.", reason="done", note=""):
        if reason == "done":
            self.ask()
            self.step += 1
            self.take(Answered(turn=self.turn, step=self.step, message=AssistantMessage(content=text)))
        ended = Ended(turn=self.turn, step=self.step, reason=reason, note=note, text=text)
        self.take(ended, *self.tape.seal(ended))

    def write(self, path, text):
        data = text.encode() if isinstance(text, str) else text
        self.do("write", "written", effects=[self.files.write(path, data)], path=path)

    def notes(self, topic):
        return [episode for episode in self.log if isinstance(episode, Noted) and episode.topic == topic]
