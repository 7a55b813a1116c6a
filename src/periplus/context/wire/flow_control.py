"""Flow control: windows limit the data in flight on a stream, buckets the rate of requests.

A window counts frames and the bytes of their payloads before compression. The sender spends it and stops at zero; the
receiver spends its own copy, so that a sender that does not stop is detected at the first excess frame.
"""

from __future__ import annotations

__all__ = ["Bucket", "Window"]

from periplus.context.wire.error_codes import ProtocolError


class Window:
    """The credit to send. Granted and unused credit never exceeds ``frames_max`` and ``bytes_max``."""

    __slots__ = ("bytes", "bytes_max", "frames", "frames_max")

    def __init__(self, frames: int, size_bytes: int, *, frames_max: int, bytes_max: int) -> None:
        self.frames = 0
        self.bytes = 0
        self.frames_max = frames_max
        self.bytes_max = bytes_max
        self.grant(frames, size_bytes)

    def grant(self, frames: int, size_bytes: int) -> None:
        """Add credit. Raises ProtocolError ``flow_control`` beyond the maximum."""
        if self.frames + frames > self.frames_max or self.bytes + size_bytes > self.bytes_max:
            raise ProtocolError("more credit than a window may have", "flow_control")
        self.frames += frames
        self.bytes += size_bytes

    def has_room(self, size_bytes: int) -> bool:
        return self.frames > 0 and self.bytes >= size_bytes

    def spend(self, size_bytes: int) -> None:
        """Spend credit. Raises ProtocolError ``flow_control`` if there is not enough."""
        if not self.has_room(size_bytes):
            raise ProtocolError("more was sent than the window allows", "flow_control")
        self.frames -= 1
        self.bytes -= size_bytes


class Bucket:
    """A token bucket with a maximum and a rate per second; the clock is passed in."""

    __slots__ = ("_at", "_level", "_rate", "_size")

    def __init__(self, rate: float, size: float) -> None:
        self._rate = rate
        self._size = size
        self._level = size
        self._at: float | None = None

    def take(self, now: float) -> bool:
        """Take a token, if there is one, and return whether there was. A clock that goes back adds none."""
        if self._at is not None and now > self._at:
            self._level = min(self._size, self._level + (now - self._at) * self._rate)
        if self._at is None or now > self._at:
            self._at = now
        if self._level < 1.0:
            return False
        self._level -= 1.0
        return True

    def refill(self, tokens: float) -> None:
        self._level = min(self._size, self._level + tokens)

    def wait_s(self) -> float:
        """Return the seconds until there is a token."""
        return max(0.0, (1.0 - self._level) / self._rate)
