"""The locks of a query that has ended, released by whoever notices first."""

import threading
from types import SimpleNamespace

from statemigrate.embedded.query import RunningQuery


class Lock:
    """A lock whose release takes as long as the test wants."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.may_go_on = threading.Event()
        self.inside = self.most_inside = 0

    def release(self) -> None:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        self.entered.set()
        assert self.may_go_on.wait(60)
        self.inside -= 1


def test_two_that_notice_the_end_at_once_release_one_after_the_other() -> None:
    ends = threading.Event()
    lock = Lock()
    query = SimpleNamespace(awaitTermination=lambda: ends.wait(60))
    running = RunningQuery(query, SimpleNamespace(close=lambda: None), [lock])
    ends.set()
    assert lock.entered.wait(60)
    second = threading.Thread(target=running.release)
    second.start()
    second.join(0.2)
    assert second.is_alive()
    lock.may_go_on.set()
    second.join(60)
    assert (second.is_alive(), lock.most_inside) == (False, 1)
