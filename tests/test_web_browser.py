"""The pages in a real Chromium: their policy, their width, what axe-core finds, keys, what is live, and scripts off."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from browser_support import MISSING, Browser
from periplus.web.routes import NAVIGATION, ROUTES
from web_sample import Sample
from web_support import Site

AXE = Path(__file__).parent / "node" / "node_modules" / "axe-core" / "axe.min.js"
DOWNLOADS = ("/sessions/{id}/file", "/journal/proof")
ENTER, TAB = "\ue007", "\ue004"
SERIOUS = ("serious", "critical")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return Sample(tmp_path_factory.mktemp("sample"))


@pytest.fixture(scope="module")
def site(sample):
    with Site(sample.folder, home=os.fspath(sample.home)) as made:
        yield made


@pytest.fixture
def window(site, tmp_path):
    with Browser(tmp_path) as made:
        made.go(site.server.url)
        yield made


def pages(sample):
    """An address of each page that a browser shows."""
    return [sample.address(row.address) for row in ROUTES if row.address not in DOWNLOADS]


def show(window, site, path):
    window.go(f"http://127.0.0.1:{site.port}{path}")


def place(window):
    return window.run("return location.pathname + location.search")


# -- how each page is -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_each_page_keeps_its_policy_and_width_and_has_no_serious_barrier(site, sample, tmp_path, width, dark):
    found = []
    if not AXE.is_file():
        pytest.skip("axe-core is not there: make node")
    with Browser(tmp_path, width=width, dark=dark) as window:
        window.go(site.server.url)
        for path in pages(sample):
            show(window, site, path)
            found += [f"{path}: {one}" for one in (*faults(window), *barriers(window))]
    assert not found, "\n".join(found)


def faults(window):
    """What is wrong with the page that is shown: its status, what its policy forbade, what is wider than the window."""
    if window.text("h1") in ("Problem", "Not found", "Not understood", "Refused", "Not possible now"):
        yield f"a problem is shown: {window.text('main')}"
    yield from window.complaints()
    if window.run("return document.documentElement.scrollWidth > innerWidth"):
        yield "wider than the window: " + window.run(WIDE)
    if window.run("return document.querySelectorAll('h1').length") != 1:
        yield "not one h1"


WIDE = """
return [...document.querySelectorAll('body *')]
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.scroll, pre, .picture, svg'))
  .slice(0, 5).map((one) => one.outerHTML.slice(0, 120)).join(' | ')
"""


def barriers(window):
    """What axe-core finds of serious or critical impact. It is evaluated by the debugger, which the policy of the page does not bind."""
    window.devtools("Runtime.evaluate", expression=AXE.read_text(encoding="utf-8"))
    told = window.devtools(
        "Runtime.evaluate", awaitPromise=True, returnByValue=True,
        expression="axe.run(document, {resultTypes: ['violations']}).then((all) => JSON.stringify(all.violations))",
    )  # fmt: skip
    for one in json.loads(told["result"]["value"]):
        if one["impact"] in SERIOUS:
            yield f"{one['impact']} {one['id']}: " + " | ".join(
                f"{node['target']} {node['html'][:160]} {node['failureSummary'][:300]}" for node in one["nodes"][:4]
            )


# -- keys -------------------------------------------------------------------------------------------------------------------


def test_search_by_keys_alone_finds_an_entity_and_opens_it(window, site, sample):
    show(window, site, "/")
    window.keys("/")
    window.keys("release" + ENTER)
    window.until("return location.pathname === '/memory' && location.search.includes('release')")
    window.run("document.activeElement.blur()")
    window.keys("j")
    first = window.until("return document.activeElement.closest('.row') && document.activeElement.getAttribute('href')")
    window.keys("j")
    second = window.until("return document.activeElement.getAttribute('href')")
    window.keys("k")
    assert window.run("return document.activeElement.getAttribute('href')") == first
    assert first != second
    window.keys(ENTER)
    window.until("return location.pathname.startsWith('/memory/')")
    assert place(window) == first


@pytest.mark.parametrize(("address", "name", "key"), NAVIGATION)
def test_each_page_of_the_navigation_has_keys(window, site, address, name, key):
    show(window, site, "/leave?to=https://example.org")
    window.keys("g" + key)
    window.until("return location.pathname === arguments[0]", address)
    assert window.run("return document.querySelector('nav [aria-current=page]').textContent") == name


def test_the_keys_are_told_and_do_nothing_in_a_field(window, site):
    show(window, site, "/work")
    press(window, "?")
    assert window.until("return document.getElementById('keys').open")
    press(window, "Escape")
    window.until("return !document.getElementById('keys').open")
    press(window, "/")
    window.until("return document.activeElement.id === 'find'")
    for key in "gm?j/":
        press(window, key)
    assert window.run("return document.activeElement.value") == "gm?j/"
    assert place(window) == "/work"
    press(window, "Escape")
    window.until("return document.activeElement === document.body")


def press(window, key):
    """Press a key whatever has the focus."""
    more = {"text": key} if len(key) == 1 else {"windowsVirtualKeyCode": 27}
    window.devtools("Input.dispatchKeyEvent", type="keyDown", key=key, **more)
    window.devtools("Input.dispatchKeyEvent", type="keyUp", key=key)


def test_tab_reaches_every_link_button_and_field_of_each_page(window, site, sample):
    left = {}
    for path in pages(sample):
        show(window, site, path)
        window.run("for (const one of document.querySelectorAll('details')) one.open = true")
        wanted = window.run(REACHABLE)
        window.run("document.activeElement.blur(); getSelection().removeAllRanges()")
        for _ in range(wanted + 10):
            window.devtools("Input.dispatchKeyEvent", type="rawKeyDown", key="Tab", code="Tab", windowsVirtualKeyCode=9)
            window.devtools("Input.dispatchKeyEvent", type="keyUp", key="Tab", code="Tab", windowsVirtualKeyCode=9)
            window.run("document.activeElement.dataset.reached = '1'")
        missed = window.run(MISSED)
        if missed:
            left[path] = missed
    assert not left


REACHABLE = "return [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex=\"0\"]')].filter((one) => one.checkVisibility()).length"
MISSED = """
return [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary')]
  .filter((one) => one.checkVisibility() && !one.disabled && !one.dataset.reached && !(one.type === 'radio' && !one.checked))
  .slice(0, 5).map((one) => one.outerHTML.slice(0, 150))
"""


def test_a_form_is_sent_with_enter(window, site, sample):
    show(window, site, "/work")
    window.run(
        "const form = document.querySelector('form[action=\"/work/mail\"]'); const fold = form.closest('details'); if (fold) fold.open = true; form.querySelector('[name=to]').focus()"
    )
    window.keys("bob" + TAB + "Sent with a key")
    window.run("document.querySelector('form[action=\"/work/mail\"] [name=to]').focus()")
    window.keys(ENTER)
    assert "Sent to bob" in window.until(
        "const said = document.querySelector('[role=status].message'); return said && said.innerText"
    )


# -- live, and without scripts ----------------------------------------------------------------------------------------------


def remember(folder, text):
    environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    subprocess.run(
        [sys.executable, "-m", "periplus", "remember", text], cwd=folder, check=True, capture_output=True, timeout=60,
        env={**environment, "HOME": os.fspath(folder), "LOGNAME": "bob"},
    )  # fmt: skip


@pytest.mark.parametrize("path", ["/", "/memory", "/journal"])
def test_what_another_process_writes_appears_without_a_reload(window, site, sample, path):
    show(window, site, path)
    window.until("return document.getElementById('live-state').innerText.includes('live')")
    window.devtools("Emulation.setDeviceMetricsOverride", width=1280, height=420, deviceScaleFactor=1, mobile=False)
    window.run(
        "window.kept = 1; document.querySelector('footer a, footer code').focus({preventScroll: true}); scrollTo(0, 200)"
    )
    at = window.run("return [scrollY, document.activeElement.outerHTML]")
    text = f"A cart of {path.strip('/') or 'overview'} is never late"
    remember(sample.folder, text)
    window.until("return document.body.innerText.includes(arguments[0])", text)
    assert window.run("return window.kept") == 1
    assert window.run("return [scrollY, document.activeElement.outerHTML]") == at
    assert at[0] == 200
    assert window.complaints() == []


def test_a_field_that_somebody_writes_in_is_left_alone(window, site, sample):
    show(window, site, "/work")
    window.until("return document.getElementById('live-state').innerText.includes('live')")
    window.run(
        "const form = document.querySelector('form[action=\"/work/mail\"]'); const fold = form.closest('details'); if (fold) fold.open = true; form.querySelector('[name=text]').focus()"
    )
    window.keys("half a sent")
    window.run(
        "window.changes = 0; document.getElementById('live').addEventListener('changed', () => window.changes++)"
    )
    remember(sample.folder, "Somebody else writes at the same time")
    window.until("return window.changes > 0")
    window.keys("ence")
    assert window.run("return document.activeElement.value") == "half a sentence"


def test_with_scripts_off_each_page_works(window, site, sample):
    window.devtools("Emulation.setScriptExecutionDisabled", value=True)
    for path in pages(sample):
        show(window, site, path)
        assert window.text("h1") not in ("Problem", "Not found", "Not understood"), path
        assert "Scripts are off" in window.text("footer")
    show(window, site, "/memory")
    window.click("#find")
    window.keys("cents" + ENTER)
    assert "Prices are kept" in window.text("main")
    show(window, site, f"/memory/{sample.ids['lesson']}")
    window.click("details:has(form[action$='/confirm']) > summary")
    window.click(f"form[action$='{sample.ids['lesson']}/confirm'] button")
    assert "onfirmed" in window.text(".message")


def test_a_store_that_goes_away_is_said_on_the_open_page_which_comes_back(site, sample, window):
    store = sample.folder / ".periplus"
    show(window, site, "/")
    window.until("return document.getElementById('live-state').innerText.includes('live')")
    window.run("window.kept = 1")
    store.rename(sample.home / "away")
    try:
        window.until(
            "return document.getElementById('live-state').innerText.includes('Load the page again to see why')"
        )
        assert "Work in progress" in window.text("main")
        window.until("return document.getElementById('live-state').getBoundingClientRect().bottom <= innerHeight")
    finally:
        (sample.home / "away").rename(store)
    remember(sample.folder, "The store is back")
    window.until("return document.body.innerText.includes('The store is back')")
    assert window.run("return window.kept") == 1
    assert window.until("return document.getElementById('live-state').innerText.includes('live')")


def test_many_tabs_leave_connections_for_another(site, window):
    """A browser has six connections for all tabs of a server of HTTP/1.1: those that nobody looks at keep none."""
    show(window, site, "/work")
    window.until("return document.getElementById('live-state').innerText.includes('live')")
    url = f"http://127.0.0.1:{site.port}/work"
    for _ in range(9):
        window.devtools("Target.createTarget", url=url, background=True)
    begun = time.monotonic()
    for path in ("/memory", "/journal", "/work"):
        show(window, site, path)
    window.until("return document.getElementById('live-state').innerText.includes('live')")
    assert time.monotonic() - begun < 30


def test_what_changed_while_a_tab_was_hidden_is_there_when_it_is_looked_at(site, sample, window):
    show(window, site, "/memory")
    window.until("return document.getElementById('live-state').innerText.includes('live')")
    window.run("window.kept = 1")
    (own,) = (one for one in window.devtools("Target.getTargets")["targetInfos"] if one["url"].endswith("/memory"))
    other = window.devtools("Target.createTarget", url="about:blank")
    window.until("return document.hidden")
    remember(sample.folder, "Nobody looks at this tab")
    window.devtools("Target.activateTarget", targetId=own["targetId"])
    window.until("return document.body.innerText.includes('Nobody looks at this tab')")
    assert window.run("return window.kept") == 1
    window.devtools("Target.closeTarget", targetId=other["targetId"])


def test_a_server_that_ends_is_said_on_the_open_page(sample, tmp_path):
    with Site(sample.folder, home=os.fspath(sample.home)) as site, Browser(tmp_path) as window:
        window.go(site.server.url)
        window.until("return document.getElementById('live-state').innerText.includes('live')")
        site.server.__exit__(None, None, None)
        window.until("return document.getElementById('live-state').classList.contains('lost')")
        assert "Work in progress" in window.text("main")
