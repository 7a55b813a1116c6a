"""Each page of a store whose every field was written by a stranger: nothing runs, nothing breaks, nothing comes from elsewhere."""

from __future__ import annotations

import os

import pytest

from browser_support import MISSING, Browser
from periplus.web.routes import ROUTES
from web_hostile import check_harmless, crawl, hostile_sample
from web_support import Site

PAGE_BYTES_MAX = 2_000_000
browser = pytest.mark.skipif(bool(MISSING), reason=MISSING)


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return hostile_sample(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def site(sample):
    with Site(sample.folder, home=os.fspath(sample.home)) as made:
        yield made


def starts(sample):
    """An address of each page, and those of what is in the store."""
    found = [sample.address(route.address) for route in ROUTES]
    return [*found, f"/memory/{sample.ids['huge']}", "/memory?sort=oldest", "/journal?type=decision"]


@pytest.mark.slow
def test_every_page_that_links_lead_to_shows_hostile_texts_as_texts(site, sample):
    count = 0
    for address, page in crawl(site, starts(sample)):
        count += 1
        assert page.status in (200, 307, 404), (address, page.text[:500])
        if page.headers.get("content-type", "").startswith("text/html") and "content-disposition" not in page.headers:
            assert len(page.body) < PAGE_BYTES_MAX, address
            assert "Traceback" not in page.html, address
            check_harmless(address, page)
    assert count > 90
    assert not site.defects


@pytest.mark.slow
@browser
def test_a_browser_runs_nothing_of_them(site, sample, tmp_path):
    with Browser(tmp_path) as window:
        window.go(site.server.url)
        for address in starts(sample):
            headers = site.get(address).headers
            if headers.get("content-type", "").startswith("text/html") and "content-disposition" not in headers:
                window.go(f"http://127.0.0.1:{site.port}{address}")
                assert window.run("return document.title") != "owned", address
                assert window.run("return document.querySelectorAll('img, iframe, style').length") == 0, address
                assert [one for one in window.complaints() if "status of 404" not in one] == [], address
