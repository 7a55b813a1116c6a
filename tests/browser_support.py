"""A real browser, driven as the W3C's WebDriver says: chromium through its own chromedriver, without a package in between."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

DRIVER, BROWSER = shutil.which("chromedriver"), shutil.which("chromium") or shutil.which("google-chrome")
MISSING = "" if DRIVER and BROWSER else "no browser here: apt-get install chromium chromium-driver"
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
PATIENCE_S = 120


class Browser:
    """One window. ``folder`` takes its profile. What the page or its policy complains of is in ``complaints``."""

    def __init__(self, folder: Path, *, width=1280, height=900, dark=False) -> None:
        self._log = open(folder / "driver.log", "wb")  # noqa: SIM115 - closed with the browser
        environment = {"PATH": os.environ["PATH"], "HOME": os.fspath(folder), "XDG_CONFIG_HOME": os.fspath(folder)}
        self._process = subprocess.Popen(
            [DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=self._log, env=environment, cwd=folder
        )
        self._base = self._session = ""
        try:
            for line in self._process.stdout:
                if b"started successfully on port" in line:
                    self._base = f"http://127.0.0.1:{int(line.split()[-1].strip(b'.'))}"
                    break
            options = {
                "binary": BROWSER,
                "args": [
                    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                    f"--user-data-dir={folder / 'profile'}", f"--window-size={width},{height}", "--hide-scrollbars",
                    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--mute-audio",
                    *(["--blink-settings=preferredColorScheme=0"] if dark else []),
                ],
            }  # fmt: skip
            wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
            made = self._do("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
            self._session = "/session/" + made["sessionId"]
            scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            self.devtools("Emulation.setEmulatedMedia", features=[scheme])
            self.devtools(
                "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
            )
        except BaseException:  # whatever it is: no process is left behind
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        try:
            if self._session:
                self._do("DELETE", self._session)
        finally:
            self._process.terminate()
            self._process.wait(PATIENCE_S)
            self._process.stdout.close()
            self._log.close()

    def go(self, url):
        self._do("POST", f"{self._session}/url", {"url": url})

    def run(self, script, *arguments):
        """The value of a function's body."""
        return self._do("POST", f"{self._session}/execute/sync", {"script": script, "args": list(arguments)})

    def devtools(self, command, **parameters):
        return self._do("POST", f"{self._session}/goog/cdp/execute", {"cmd": command, "params": parameters})

    def keys(self, text):
        """Into whatever has the focus."""
        element = self._do("GET", f"{self._session}/element/active")[_ELEMENT]
        self._do("POST", f"{self._session}/element/{element}/value", {"text": text})

    def click(self, selector):
        found = self._do("POST", f"{self._session}/element", {"using": "css selector", "value": selector})[_ELEMENT]
        self._do("POST", f"{self._session}/element/{found}/click", {})

    def until(self, script, *arguments):
        """Wait until a script gives something, and give it."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            found = self.run(script, *arguments)
            if found:
                return found
            time.sleep(0.05)  # there is no event to wait for across the driver
        raise AssertionError(f"{script} never held; the page says: {self.run('return document.body.innerText')[:2000]}")

    def text(self, selector="body"):
        return self.run("return document.querySelector(arguments[0]).innerText", selector)

    def complaints(self):
        return [one["message"] for one in self._do("POST", f"{self._session}/se/log", {"type": "browser"})]

    def picture(self, path):
        Path(path).write_bytes(base64.b64decode(self._do("GET", f"{self._session}/screenshot")))

    def _do(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self._base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            told = json.loads(error.read())["value"]
            raise AssertionError(f"{path}: {told['error']}: {told['message'][:500]}") from error
