"""When a sensor asks for a reload of the definitions, and when again."""

from __future__ import annotations

from k2k_assets.orchestration.sensors.asked_reloads import AskedReloads


def test_a_reload_that_was_lost_is_asked_for_again_later_and_later() -> None:
    """The code server that asked for the first one may have been replaced before it did."""
    reloads, asked = AskedReloads(), []
    for now in range(0, 30_000, 10):
        after = reloads.after_look("topic late", float(now))
        if after != reloads:
            asked.append(now)
        reloads = after
    assert asked == [0, 60, 180, 420, 900, 1860, 3780, 7380, 10980, 14580, 18180, 21780, 25380, 28980]


def test_something_else_that_is_lacking_is_asked_for_at_once() -> None:
    reloads = AskedReloads().after_look("one", 100.0)
    assert reloads.after_look("one", 101.0) == reloads
    assert reloads.after_look("two", 102.0) == AskedReloads(lacking="two", asked=1, asked_at=102.0)


def test_nothing_is_asked_for_where_nothing_is_lacking() -> None:
    assert AskedReloads().after_look("", 5.0) == AskedReloads()
    assert AskedReloads(lacking="one", asked=3, asked_at=1.0).after_look("", 5.0).asked == 0


def test_a_clock_that_was_set_back_delays_nothing() -> None:
    reloads = AskedReloads(lacking="one", asked=9, asked_at=5000.0)
    assert reloads.after_look("one", 4000.0).asked_at == 4000.0


def test_what_is_never_shown_is_asked_for_each_hour_for_ever() -> None:
    reloads = AskedReloads(lacking="one", asked=5000, asked_at=1.0)
    assert reloads.after_look("one", 3600.0) == reloads
    assert reloads.after_look("one", 3601.0).asked == 5001
