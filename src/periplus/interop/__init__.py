"""Foreign records as trails: transcripts of coding agents, and the history of a git repository."""

from typing import TYPE_CHECKING

from periplus.base.lazy import lazily

if TYPE_CHECKING:
    from periplus.interop.git import import_git
    from periplus.interop.model import FoundSession, Imported, SourceFormat, Tokens
    from periplus.interop.sessions import find_sessions
    from periplus.interop.transcripts import import_transcript, import_transcripts
else:
    __getattr__ = lazily(
        __name__,
        {
            "import_git": "git",
            "find_sessions": "sessions",
            **dict.fromkeys(("FoundSession", "Imported", "SourceFormat", "Tokens"), "model"),
            **dict.fromkeys(("import_transcript", "import_transcripts"), "transcripts"),
        },
    )

__all__ = [
    "FoundSession",
    "Imported",
    "SourceFormat",
    "Tokens",
    "find_sessions",
    "import_git",
    "import_transcript",
    "import_transcripts",
]
