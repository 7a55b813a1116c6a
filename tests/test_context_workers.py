"""The threads of a context server: each with a store of its own, fair to all, and never in the way of the loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from periplus.server.workers import SEARCHES_AT_ONCE, Job, Lane, Workers

pytestmark = pytest.mark.quick


class Shelf:
    """What stands for a store: knows the thread that opened it, and refuses any other."""

    opened: list[Shelf]

    def __init__(self):
        self.thread = threading.get_ident()
        self.is_closed = False
        type(self).opened.append(self)

    def check(self):
        assert threading.get_ident() == self.thread

    def close(self):
        self.check()
        self.is_closed = True


def run(body, count):
    Shelf.opened = []

    async def main():
        workers = Workers(Shelf, count)
        try:
            await asyncio.wait_for(body(workers), 60)
        finally:
            await workers.stop()

    asyncio.run(main())
    assert all(shelf.is_closed for shelf in Shelf.opened)


def steps(shelf, count):
    for number in range(count):
        shelf.check()
        yield number


def test_whoever_asks_for_much_waits_as_often_as_whoever_asks_for_little():
    served = {"greedy": 0, "modest": 0}

    async def body(workers):
        done = asyncio.Event()
        greedy, modest = Lane(), Lane()

        def step(who):
            served[who] += 1
            return True

        for _ in range(200):
            workers.submit(Job(greedy, lambda shelf: steps(shelf, 10**9), lambda _: step("greedy"), lambda _: None))
        workers.submit(Job(modest, lambda shelf: steps(shelf, 50), lambda _: step("modest"), lambda _: done.set()))
        await done.wait()

    run(body, 1)
    assert served["modest"] == 50
    assert 45 <= served["greedy"] <= 55


def test_a_job_stays_with_the_thread_that_began_it_and_goes_on_when_it_is_let():
    outcomes = []

    async def body(workers):
        ended = asyncio.Queue()
        jobs = []
        for _ in range(12):
            job = Job(
                Lane(), lambda shelf: steps(shelf, 5), lambda step: outcomes.append(step) or False, ended.put_nowait
            )
            jobs.append(job)
            workers.submit(job)
        over = 0
        while over < 12:
            for job in jobs:
                workers.resume(job)  # of one that does not wait this is no order
            await asyncio.sleep(0)
            while not ended.empty():
                assert ended.get_nowait() is None
                over += 1

    run(body, 4)
    assert sorted(outcomes) == sorted(list(range(5)) * 12)


def test_what_goes_wrong_in_a_step_is_told_and_harms_no_other():
    async def body(workers):
        ended = asyncio.Queue()

        def begin(shelf):
            yield 1
            raise ValueError("wrong")

        workers.submit(Job(Lane(), begin, lambda _: True, ended.put_nowait))
        assert isinstance(await ended.get(), ValueError)
        workers.submit(Job(Lane(), lambda shelf: steps(shelf, 3), lambda _: True, ended.put_nowait))
        assert await ended.get() is None

    run(body, 2)


def test_a_job_that_is_ended_lets_go_of_what_it_holds_in_its_own_thread():
    closed = threading.Event()

    async def body(workers):
        began = asyncio.Event()

        def begin(shelf):
            try:
                while True:
                    yield None
            finally:
                shelf.check()
                closed.set()

        job = Job(Lane(), begin, lambda _: began.set() or True, lambda _: None)
        workers.submit(job)
        await began.wait()
        workers.end(job)
        workers.end(job)
        assert await asyncio.to_thread(closed.wait, 60)

    run(body, 2)


def test_what_takes_long_is_waited_for_by_its_like_alone():
    async def body(workers):
        go, ended = threading.Event(), asyncio.Queue()

        def slow(shelf):
            assert go.wait(60)
            yield None

        workers.submit(Job(Lane(), slow, lambda _: True, lambda _: ended.put_nowait("slow"), is_long=True))
        for _ in range(20):
            job = Job(Lane(), lambda shelf: steps(shelf, 3), lambda _: True, lambda _: ended.put_nowait("quick"))
            workers.submit(job)
        assert [await ended.get() for _ in range(20)] == ["quick"] * 20
        go.set()
        assert await ended.get() == "slow"

    run(body, 2)


def test_a_store_that_cannot_be_opened_is_told_to_each():
    async def main():
        def refuse():
            raise OSError("no such store")

        workers = Workers(refuse, 1)
        ended = asyncio.Queue()
        for _ in range(2):
            workers.submit(Job(Lane(), lambda store: iter(()), lambda _: True, ended.put_nowait))
        assert [str(await ended.get()) for _ in range(2)] == ["no such store"] * 2
        await workers.stop()

    asyncio.run(main())


def test_a_lane_searches_once_at_a_time_and_all_lanes_a_few_times():
    under_way = []
    most = [0]

    async def body(workers):
        ended = asyncio.Queue()
        greedy = Lane()

        def search(lane):
            def begin(shelf):
                under_way.append(lane)
                most[0] = max(most[0], len(under_way))
                assert under_way.count(greedy) <= 1
                yield from steps(shelf, 20)
                under_way.remove(lane)

            return begin

        for lane in [greedy] * 10 + [Lane() for _ in range(10)]:
            workers.submit(Job(lane, search(lane), lambda _: True, ended.put_nowait, is_search=True))
        assert [await ended.get() for _ in range(20)] == [None] * 20

    run(body, 1)
    assert most[0] == SEARCHES_AT_ONCE


def test_a_search_that_has_its_answer_or_is_given_up_leaves_its_place_to_another():
    async def body(workers):
        first_steps, ended = asyncio.Queue(), asyncio.Queue()

        def stay(_):
            first_steps.put_nowait(None)
            return False

        held = [
            Job(Lane(), lambda shelf: steps(shelf, 2), stay, ended.put_nowait, is_search=True)
            for _ in range(SEARCHES_AT_ONCE)
        ]
        for job in held:
            workers.submit(job)
        for _ in held:
            await first_steps.get()
        for leave in (lambda: workers.searched(held[0]), lambda: workers.end(held[1])):
            workers.submit(Job(Lane(), lambda shelf: steps(shelf, 2), stay, ended.put_nowait, is_search=True))
            assert first_steps.empty()
            leave()
            await first_steps.get()
        for job in held:
            workers.end(job)

    run(body, 1)
