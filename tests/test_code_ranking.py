"""The map of a repository for a task: which files come first, within which budget, and the rank that their links give."""

from __future__ import annotations

import os
import random
import subprocess

import pytest

from periplus.base.text.token_estimate import estimate_tokens
from periplus.code.code_map import CodeMap
from periplus.code.ranking.page_rank import RESTART, global_rank, seeded_rank

pytestmark = pytest.mark.quick
ENVIRONMENT = {
    "PATH": os.environ.get("PATH", os.defpath),
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{
        f"GIT_{role}_{part}": value
        for role in ("AUTHOR", "COMMITTER")
        for part, value in (("NAME", "a"), ("EMAIL", "a@b"))
    },
}
FILES = {
    "shop/__init__.py": "",
    "shop/prices.py": "def rounded_price(amount):\n    return round(amount, 2)\n\ndef _table():\n    return {}\n",
    "shop/basket.py": (
        "from shop.prices import rounded_price\n\nclass Basket:\n    def total(self):\n        return rounded_price(1)\n"
    ),
    "shop/mail.py": "def send_mail(text):\n    print(text)\n",
    "shop/app.py": (
        "from shop.basket import Basket\nfrom shop.mail import send_mail\n\ndef main():\n    send_mail(str(Basket().total()))\n"
    ),
    "tests/test_basket.py": "from shop.basket import Basket\n\ndef test_total():\n    assert Basket().total() == 1\n",
}


@pytest.fixture(params=["with a graph", "without a graph"])
def code_map(request, tmp_path):
    folder = tmp_path / "work"
    for path, text in FILES.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run(["git", "-C", str(folder), *words], check=True, env=ENVIRONMENT)
    index = str(tmp_path / "cache" / "code.sqlite")
    with CodeMap(str(folder), index, environment=ENVIRONMENT, budget_s=60.0) as made:
        made.view()
        if request.param == "with a graph":
            yield made
            return
    with CodeMap(str(folder), index, environment=ENVIRONMENT, budget_s=5.0) as made:
        made.last_view().database.execute("UPDATE view SET graph = ''")  # as after an update of the rules
        with CodeMap(str(folder), index, environment=ENVIRONMENT, budget_s=0.01, go_on=lambda: None) as hurried:
            yield hurried


def test_files_that_say_the_words_come_first_and_then_what_they_need(code_map):
    found = code_map.map("send a mail", 1_000)
    assert found.files[0].path == "shop/mail.py"
    assert found.files[1].path == "shop/app.py"
    assert [one.signature for one in found.files[0].symbols] == ["def send_mail(text)"]


def test_seeds_of_the_caller_count(code_map):
    before = [one.path for one in code_map.map("", 1_000).files]
    seeded = [one.path for one in code_map.map("", 1_000, {"shop/mail.py": 1.0, "absent.py": 5.0}).files]
    assert sorted(seeded) == sorted(before) == sorted(FILES)
    assert seeded[0] == "shop/mail.py" != before[0]


@pytest.mark.parametrize("budget", [0, 10, 40, 100, 1_000])
def test_a_map_keeps_to_its_budget_and_repeats(code_map, budget):
    found = code_map.map("total of a basket", budget)
    assert found == code_map.map("total of a basket", budget)
    assert found.tokens <= budget
    assert estimate_tokens(found.text) <= found.tokens
    assert found.files_total == len(FILES)
    assert bool(found.files) is (budget > 0) or budget < 10


def test_no_word_and_no_file_is_no_fault(code_map):
    assert code_map.map("zzzz qqqq", 200).files
    for path in FILES:
        os.unlink(os.path.join(code_map.root, path))
    assert code_map.map("basket", 200).files == ()


def test_pushing_gives_what_many_rounds_give():
    rng = random.Random(1)
    links = []
    for _ in range(40):
        others = rng.sample(range(40), rng.randrange(5))
        links.append([(other, 1 / len(others)) for other in others])
    seeds = {3: 2.0, 17: 1.0}
    exact = [0.0] * 40
    moving = [seeds.get(at, 0.0) / 3 for at in range(40)]
    for _ in range(200):
        following = [0.0] * 40
        for at, held in enumerate(moving):
            exact[at] += held * (RESTART if links[at] else 1.0)
            for other, part in links[at]:
                following[other] += held * (1 - RESTART) * part
        moving = following
    found = seeded_rank(links, seeds)
    assert all(abs(found.get(at, 0.0) - rank) < 1e-3 for at, rank in enumerate(exact))
    assert sum(global_rank(links)) == pytest.approx(1.0)
