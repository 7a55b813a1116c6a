"""docs/guides/web.md is run: its commands, its pages, what it says of writing, of a socket and of a shared file."""

from __future__ import annotations

import http.cookiejar
import os
import re
import signal
import socket
import subprocess
import urllib.parse
import urllib.request

import pytest

from test_readme import PROGRAM, ROOT, commands_of
from web_support import Parsed

PAGE = (ROOT / "docs" / "guides" / "web.md").read_text()
FILES = {"src/auth.py": "def check(password): ...\n"}


def told(text):
    """Without what differs from start to start: the port and the token."""
    return re.sub(r"http://127\.0\.0\.1:\d+/open/\S+", "ADDRESS", text)


@pytest.fixture
def shop(tmp_path):
    folder = tmp_path / "ada" / "shop"
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(text)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PERIPLUS_", "XDG_", "GIT_"))}
    environment = {**kept, "HOME": str(tmp_path / "ada"), "LOGNAME": "ada", "GIT_CONFIG_NOSYSTEM": "1"}

    def run(*words):
        words = [str(PROGRAM), *words[1:]] if words[0] == "periplus" else words
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    run(*"git init -q -b main".split())
    run(*"git -c user.name=Ada -c user.email=ada@example.org add .".split())
    run(*"git -c user.name=Ada -c user.email=ada@example.org commit -qm Auth".split())
    run("periplus", "init")
    run("periplus", "remember", "Passwords are hashed with argon2id", "--type", "decision", "--about", "src/auth.py")
    run("periplus", "trail", "import", "--git")
    run.folder, run.environment = folder, environment
    return run


def serving(shop, *words):
    return subprocess.Popen(
        [str(PROGRAM), "web", *words], cwd=shop.folder, env=shop.environment, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.slow
def test_its_pages_and_what_is_written_there(shop):
    commands = dict(commands_of(PAGE))
    with serving(shop) as process:
        try:
            lines = [process.stdout.readline(), process.stdout.readline()]
            assert [told(line.strip()) for line in lines] == [told(line) for line in commands["periplus web"] if line]
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
            home = browser.open(lines[1].strip()).read().decode()
            base = lines[1].partition("/open/")[0]
            names = re.findall(r"^\| (\w+) \|", PAGE, re.MULTILINE)[1:]
            links = {one.text: one.attributes["href"] for one in Parsed(home).all("a") if "data-go" in one.attributes}
            assert names == list(links)
            for address in links.values():
                assert browser.open(base + address).status == 200
            entity = re.search(r"/memory/(dec_\w{16})", browser.open(f"{base}/memory").read().decode())[1]
            page = Parsed(browser.open(f"{base}/memory/{entity}").read().decode())
            token = page.all("input", name="form_token")[0].attributes["value"]
            (confirm,) = [one for one in page.all("form") if one.attributes.get("action", "").endswith("/confirm")]
            fields = {
                one.attributes["name"]: one.attributes.get("value", "")
                for one in page.all("input", type="hidden")
                if one.attributes["name"] != "form_token"
            }
            body = urllib.parse.urlencode({**fields, "form_token": token}).encode()
            said = browser.open(base + confirm.attributes["action"], body).read().decode()
            assert Parsed(said).all("p", class_="message")
        finally:
            process.send_signal(signal.SIGINT)
    written = shop("periplus", "log", "--json")
    session = re.search(r'"session":"(web-[0-9a-f]+)"', written)[1]
    assert "decision confirmed" in shop("periplus", "log", "--session", session)


@pytest.mark.slow
def test_a_unix_socket_behind_a_forwarded_port(shop, tmp_path):
    path = tmp_path / "page"
    with serving(shop, "--socket", str(path)) as process:
        try:
            process.stdout.readline()
            address = process.stdout.readline().strip()
            assert os.stat(path).st_mode & 0o777 == 0o600
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(path))
                target = urllib.parse.urlsplit(address).path
                connection.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost:8000\r\n\r\n".encode())
                assert connection.recv(4096).startswith(b"HTTP/1.1 303")
        finally:
            process.send_signal(signal.SIGINT)
    assert not path.exists()


@pytest.mark.slow
def test_a_session_as_a_file(shop):
    (trail,) = set(re.findall(r"trl_\w{16}", shop("periplus", "trail", "list")))
    for command, _ in commands_of(PAGE):
        if command.startswith("periplus trail"):
            shop(*re.sub(r"trl_\w{16}", trail, command).split())
    assert "verified" in shop("periplus", "trail", "verify", "session.html")
    shop("periplus", "trail", "export", "--all", "--format", "html", "site")
    assert (shop.folder / "site" / "index.html").exists()
