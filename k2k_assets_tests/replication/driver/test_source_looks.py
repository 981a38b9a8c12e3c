"""For how long a record waits at most, told by looks at the source's end."""

from __future__ import annotations

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.driver.source_looks import LooksByPartition, SourceLooks


def test_what_waits_came_after_the_last_end_that_is_reached() -> None:
    looks = SourceLooks(100.0, 500)
    assert looks.longest_wait(101.0) is None
    looks = looks.then(499, 510, 101.0)
    assert looks.longest_wait(101.0) is None, "nobody knows since when the record at 499 waits"
    looks = looks.then(500, 620, 102.0)
    assert looks.longest_wait(102.0) == 2.0, "the record at 500 was not there at 100.0"
    looks = looks.then(619, 620, 103.0)
    assert looks.longest_wait(200.0) == 100.0, "so it may wait since then"
    looks = looks.then(620, 620, 104.0)
    assert looks.longest_wait(200.0) == 98.0


def test_what_is_seen_for_the_first_time_may_have_come_a_moment_ago() -> None:
    looks = SourceLooks(100.0, 500)
    assert looks.are_new(104.0)
    assert not looks.are_new(105.0), "it has stood there for some time"
    assert not looks.then(500, 600, 101.0).are_new(101.0)


def test_who_looks_at_many_is_told_of_each() -> None:
    looks, busy, late = LooksByPartition(), TopicPartition("t", 0), TopicPartition("t", 1)
    assert looks.look({busy: (4, 5), late: (0, 5)}, 100.0) == {}
    assert looks.look({busy: (5, 9), late: (4, 9)}, 130.0) == {busy: 30.0}
    assert looks.look({late: (4, 9)}, 160.0) == {}
    assert looks.look({busy: (9, 9), late: (4, 9)}, 190.0) == {}, "it is looked at for the first time again"
