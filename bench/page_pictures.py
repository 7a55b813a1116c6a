"""Take the pictures of the page for the README: ``python -m bench.page_pictures``.

Runs the tour, keeps its store, and has a headless Chromium photograph the overview and a session of it. Needs the extra ``web`` and Chromium.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
WIDTH, HEIGHT = 1280, 860


def periplus(*words, **options):
    return subprocess.Popen([sys.executable, "-m", "periplus", *words], stdout=subprocess.PIPE, text=True, **options)


def photograph(folder: Path, path: str, name: str) -> None:
    """Write the picture of one page; each address lets one browser in, so each has a server of its own."""
    with periplus("web", "--read-only", "--json", cwd=folder) as server:
        try:
            address = json.loads(server.stdout.readline())["url"]
            with tempfile.TemporaryDirectory() as profile:
                words = (
                    BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}",
                    f"--window-size={WIDTH},{HEIGHT}", "--virtual-time-budget=4000", f"--screenshot={ROOT / 'docs' / 'images' / name}",
                    f"{address}{path}",
                )  # fmt: skip
                subprocess.run(words, check=True, capture_output=True, timeout=60)
        finally:
            server.terminate()


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "shop"
        with periplus("tour", "--keep", os.fspath(folder)) as tour:
            assert tour.wait() == 0
        with periplus("trail", "list", "--json", cwd=folder) as listed:
            trails = json.load(listed.stdout)["trails"]
        longest = max(trails, key=lambda one: one["steps"])
        photograph(folder, "", "page-overview.png")
        photograph(folder, f"/sessions/{longest['id']}", "page-session.png")


if __name__ == "__main__":
    main()
