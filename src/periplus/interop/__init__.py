"""Import of foreign records as trails: transcripts of coding agents, and git history."""

from typing import TYPE_CHECKING

from periplus.base.lazy_package import lazily

if TYPE_CHECKING:
    from periplus.interop.git_history.history_import import import_git
    from periplus.interop.model import FoundSession, Imported, SourceFormat, Tokens
    from periplus.interop.session_search import find_sessions
    from periplus.interop.transcripts import import_transcript, import_transcripts
else:
    __getattr__ = lazily(
        __name__,
        {
            "import_git": "git_history.history_import",
            "find_sessions": "session_search",
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
