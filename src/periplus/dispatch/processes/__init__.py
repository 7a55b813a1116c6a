"""Jobs that outlive their starter: each has a run folder and a keeper process. Knows nothing of git or the journal.

``run_folder`` starts a job and tells how it stands, ``keeper`` is the program that carries it, ``output_files`` keeps what it
writes, ``evidence`` measures signs of life, ``process_tree`` finds and signals the processes of a job, ``layout`` names the files.
"""

from periplus.base.lazy_package import lazily

TYPE_CHECKING = False  # as that of `typing`, which takes longer to load than all else that a keeper needs
if TYPE_CHECKING:
    from periplus.dispatch.processes.evidence import Life
    from periplus.dispatch.processes.run_folder import Ended, Launch, RunFolder, Standing
else:
    __getattr__ = lazily(
        __name__, {"Life": "evidence", **dict.fromkeys(("Ended", "Launch", "RunFolder", "Standing"), "run_folder")}
    )

__all__ = ["Ended", "Launch", "Life", "RunFolder", "Standing"]
