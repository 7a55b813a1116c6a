"""Token counters: the estimate stays where it says, the vocabulary counts exactly, what a provider charged is covered."""

import builtins
import glob
import importlib.util
import os
import random
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from periplus.base.errors import UsageError
from periplus.base.text import token_estimate
from periplus.context.model import Atom, Entry, atom_digest, order_key
from periplus.context.selection import token_counters
from periplus.context.selection.search import select
from periplus.context.selection.token_counters import (
    BPE_ENCODINGS,
    ESTIMATE,
    ESTIMATE_SHARES,
    BpeCounter,
    Usage,
    calibrate,
)

pytestmark = pytest.mark.quick

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
needs_bpe = pytest.mark.skipif(
    importlib.util.find_spec("rs_bpe") is None, reason="the vocabularies (rs-bpe) have no build for this Python"
)

CJK = [
    (
        "记忆是代理在两次运行之间保留的知识。每个上下文都是一次提交，它记录了增加了什么、删除了什么，以及这些知识来自哪里。"
        "密码使用带盐的哈希函数保存，令牌十分钟后过期。所有写入都先追加到日志中，崩溃之后可以从日志恢复，索引和缓存都可以重新生成。"
        "服务器只是一种方便，从不拥有数据；每条命令都可以单独在存储上工作，并且与其他命令同时运行而不会互相破坏。测试必须在两分钟内完成。"
    ),
    (
        "エージェントは実行の間に学んだことを忘れてしまう。そのため、知識を小さな断片として保存し、関連度の高い順に読み込む。"
        "パスワードはソルト付きのハッシュで保存され、トークンは十分後に失効する。書き込みはまずログに追記され、停止した後もそこから復元できる。"
        "サーバーは便利なだけで、データを所有しない。テストは二分以内に終わらなければならず、失敗した場合はすぐに報告する。"
    ),
    (
        "에이전트는 실행 사이에 배운 것을 잊어버린다. 그래서 지식을 작은 조각으로 저장하고 관련성이 높은 순서대로 읽는다. "
        "비밀번호는 솔트와 함께 해시로 저장되고 토큰은 십 분 뒤에 만료된다. 모든 쓰기는 먼저 로그에 추가되며 중단된 뒤에도 로그에서 복구할 수 있다. "
        "서버는 편의를 위한 것일 뿐 데이터를 소유하지 않는다. 시험은 이 분 안에 끝나야 하며 실패하면 바로 알린다."
    ),
]


def pieces(pattern, size=500):
    for path in sorted(glob.glob(os.path.join(ROOT, pattern), recursive=True)):
        with open(path, encoding="utf-8") as file:
            text = "".join(
                line for line in file if not path.endswith(".md") or not line.startswith("|")
            )  # tables are no prose
        yield from (text[at : at + size] for at in range(0, max(len(text) - size, 1), 8 * size))


def emoji():
    chance = random.Random(1)
    every = [chr(code) for code in range(0x1F300, 0x1FAF9) if unicodedata.name(chr(code), "")]
    return ["".join(chance.choices(every, k=200)) for _ in range(20)] + ["🎉🚀🔥💡📦🧪🐛" * 30]


SAMPLES = {
    "code": lambda: list(pieces("src/periplus/[b-j]*/*.py")),
    "prose": lambda: list(pieces("docs/decisions/*.md")),
    "cjk": lambda: CJK,
    "emoji": emoji,
}


@needs_bpe
@pytest.mark.parametrize("encoding", BPE_ENCODINGS)
@pytest.mark.parametrize("kind", SAMPLES)
def test_the_estimate_is_as_near_as_it_says(kind, encoding):
    exact = BpeCounter(encoding)
    texts = [text for text in SAMPLES[kind]() if len(text) >= 100]
    assert len(texts) >= 3
    low, high = ESTIMATE_SHARES[kind]
    shares = [ESTIMATE.count(text) / exact.count(text) for text in texts]
    print(kind, encoding, len(shares), min(shares), max(shares))
    assert low <= min(shares)
    assert max(shares) <= high
    whole = sum(map(ESTIMATE.count, texts)) / sum(map(exact.count, texts))
    assert {"code": 1.0, "prose": 1.0, "cjk": 0.9, "emoji": 1.0}[kind] <= whole


@given(st.text(st.sampled_from("aZz09 \t\n\x1c\x00_-=#~.(é日🎉"), max_size=40))
@settings(max_examples=500, deadline=None)
def test_both_ways_of_the_estimate_count_alike(text):
    plain = token_estimate._of_pieces(text)
    if text.isascii():
        assert token_estimate._of_ascii(text.encode()) in {plain, None}
    assert ESTIMATE.count(text) == max((plain + 3) // 4, 1 if text else 0)


_PIECES = ["word", "Word", "fooBar", "HTTPServer", "ABC", "A", "x" * 25, "X" * 9, "aB" * 4, "7" * 3, "12", "9" * 40, "-", "==", "(" * 6, "-" * 12,
           "=" * 5 + "#", " ", "  ", "\n        ", "\x1d", "\x00", "é", "日本", "🎉"]  # fmt: skip


@pytest.mark.slow
@given(st.lists(st.sampled_from(_PIECES), max_size=30), st.sampled_from([1, 1, 1, 97, 1_500]))
@settings(max_examples=300, deadline=None)
def test_all_pieces_at_once_count_as_one_by_one(pieces, times):
    text = "".join(pieces) * times
    assert ESTIMATE.count(text) == max((token_estimate._of_pieces(text) + 3) // 4, 1 if text else 0)
    if text.isascii() and "\x00" not in text and "9" * 30 not in text and times == 1:
        assert token_estimate._of_ascii(text.encode()) is not None, "counted the short way"


@pytest.mark.parametrize("mark", ["… 20 lines left out", "✓ über", "\U0001f389 日本"])
def test_a_sign_of_another_script_does_not_make_all_of_a_text_be_counted_the_long_way(mark):
    text = "\n".join([f"{row}:\tdef turn(engine, cogs={row}):  # {mark}" for row in range(300)])
    assert token_estimate._of_mixed(text) == token_estimate._of_pieces(text)


def test_every_kind_that_is_stated_is_measured():
    assert SAMPLES.keys() == ESTIMATE_SHARES.keys()


@needs_bpe
def test_a_vocabulary_counts_exactly():
    assert BpeCounter().name == "o200k_base"
    assert BpeCounter("cl100k_base").count("hello world") == 2
    assert BpeCounter("o200k_base").count("") == 0
    assert BpeCounter("o200k_base").count("日本語") <= 4


@needs_bpe
@given(st.lists(st.text(max_size=60), max_size=15), st.integers(0, 120))
@settings(max_examples=100, deadline=None)
def test_a_budget_is_kept_exactly_under_a_vocabulary(texts, budget):
    counter = BpeCounter()
    entries = {atom_digest(Atom(text)): Atom(text) for text in texts}
    given_entries = [Entry(digest, atom, b"o" * 32) for digest, atom in entries.items()]
    given_entries.sort(key=lambda item: order_key(item.digest, item.atom))
    result = select(given_entries, budget_tokens=budget, now_ms=0, counter=counter)
    assert result.tokens == sum(counter.count(item.atom.content) for item in result.entries) <= budget


def test_an_unknown_vocabulary_is_named():
    with pytest.raises(UsageError, match="no vocabulary 'p50k'; there are cl100k_base and o200k_base"):
        BpeCounter("p50k")


def test_a_vocabulary_that_is_not_installed_is_asked_for(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.startswith("rs_bpe"):
            raise ImportError(name)
        return real(name, *rest, **more)

    token_counters._bpe.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError) as caught:
        BpeCounter()
    assert "rs-bpe is not installed" in caught.value.wrong
    assert caught.value.mend == "pip install 'periplus[tokens]'"


def test_nothing_loads_a_vocabulary_that_does_not_count_with_one():
    import subprocess

    code = (
        "import sys\nfrom periplus.context.selection.search import select\nselect([], budget_tokens=1, now_ms=0)\n"
        "assert not [name for name in sys.modules if name.startswith('rs_bpe')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


PAIRS = st.lists(st.builds(Usage, st.integers(1, 10**6), st.integers(1, 10**6)), min_size=1, max_size=30)


@given(PAIRS, st.sampled_from([0.0, 0.01, 0.05, 0.5, 0.999]))
def test_no_request_is_counted_lower_than_allowed(pairs, allowed):
    class Given:
        """Counts a text of digits as the number that it is."""

        name = "given"
        request_tokens = 0

        def count(self, text, /):
            return int(text)

    fitted = calibrate(pairs, base=Given(), allowed=allowed)
    for counted, charged in pairs:
        half = counted // 2
        for texts in ([counted], [half, counted - half], [1] * min(counted, 5) + [max(counted - 5, 0)]):
            total = fitted.request_tokens + sum(fitted.count(str(part)) for part in texts)
            assert total >= charged * (1 - allowed) - 1e-6
    assert fitted.count("0") == 0


def test_a_line_is_found_where_there_is_one():
    fitted = calibrate([Usage(size, 40 + size * 5 // 4) for size in range(100, 10_000, 100)])
    assert abs(fitted.factor - 1_250_000) < 100
    assert 39 <= fitted.request_tokens <= 42
    assert calibrate([Usage(100, 150)] * 3).factor == 1_500_000
    assert "calibrated by 3 requests, at most 5.0% under" in calibrate([Usage(100, 150)] * 3, allowed=0.05).name


def test_one_odd_request_does_not_stretch_every_token():
    fitted = calibrate([*(Usage(size, size) for size in range(100, 2_000, 10)), Usage(50, 500)])
    assert fitted.factor < 1_100_000
    assert fitted.request_tokens + fitted.factor * 50 // 1_000_000 >= 500


@pytest.mark.parametrize(
    ("pairs", "allowed", "named"),
    [([], 0.0, "pairs"), ([Usage(0, 1)], 0.0, "pairs[0]"), ([Usage(1, 1), Usage(1, 0)], 0.0, "pairs[1]"),
     ([Usage(1, 1)], 1.0, "allowed"), ([Usage(1, 1)], -0.1, "allowed"), ([Usage(1, 1)], float("nan"), "allowed"),
     ([Usage(1, 1)] * 10_001, 0.0, "pairs")],
)  # fmt: skip
def test_what_cannot_be_calibrated_by_is_named(pairs, allowed, named):
    with pytest.raises(UsageError) as caught:
        calibrate(pairs, allowed=allowed)
    assert str(caught.value).startswith(named + ":")
