"""What a filter and a query may say; what is wrong is named by its field."""

import msgspec
import pytest

from periplus.base.errors import UsageError
from periplus.context.selection.filters import Filters, Query, check_filters, check_query

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("query", "field"),
    [
        (Query(limit=0), "query.limit"),
        (Query(limit=1_001), "query.limit"),
        (Query(page=-1), "query.page"),
        (Query(text="x" * 20_001), "query.text"),
        (Query(at_ms=1 << 63), "query.at_ms"),
        (Query(filters=Filters(relevance_min=-1)), "query.filters.relevance_min"),
        (Query(filters=Filters(relevance_min=1_000_001)), "query.filters.relevance_min"),
        (Query(filters=Filters(since_ms=1 << 63)), "query.filters.since_ms"),
        (Query(filters=Filters(age_ms_max=-1)), "query.filters.age_ms_max"),
        (Query(filters=Filters(source="s" * 4_097)), "query.filters.source"),
        (Query(filters=Filters(tags=("a",) * 65)), "query.filters.tags"),
        (Query(filters=Filters(tags=("a", ""))), "query.filters.tags[1]"),
    ],
)
def test_what_is_wrong_is_named_by_its_field(query, field):
    with pytest.raises(UsageError) as caught:
        check_query(query)
    assert str(caught.value).startswith(f"{field}: ")


def test_what_is_right_passes():
    check_query(Query())
    check_query(
        Query("hash passwords", Filters(type="String", relevance_min=1_000_000, since_ms=-1, tags=("a",)), limit=1_000)
    )
    check_filters(Filters(age_ms_max=0, source="src/auth.py"))


def test_a_query_travels_as_it_is():
    query = Query("日本", Filters(type="Any", source="src/", tags=("a", "b")), limit=3, page=2, at_ms=5)
    for codec in (msgspec.json, msgspec.msgpack):
        assert codec.decode(codec.encode(query), type=Query) == query
    assert msgspec.json.encode(Query()) == b"{}"
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"limits": 3}', type=Query)
