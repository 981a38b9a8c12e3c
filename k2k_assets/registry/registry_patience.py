"""Asks a registry again that refuses a login, or does not answer, and leaves it in peace in between.

It refuses good logins too while its own user directory restarts:

```
 asked at    0    2    6    14   30 s       refused each time: believed, and the topic stops
             401  401  200                  not: goes on, and nothing was stopped
```

Few times, because a user may be locked out after some wrong passwords. One that does not answer costs seconds each
time; so for a while all that need it are told at once that it does not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from k2k_assets.core.words import plural
from k2k_assets.registry.schemas import (
    MoreToRegister,
    RegistryRefused,
    RegistryUnreachable,
    SchemaNotFound,
    SchemaOfOthers,
    SchemaRefused,
)

T = TypeVar("T")

PAUSES = (2.0, 4.0, 8.0, 16.0)
"""Seconds before a registry that has refused is asked again."""
# How long one that took so many seconds to give no answer is left in peace.
_SLOW_SECONDS, _SILENT_SECONDS = 1.0, 2.0
# A refusal after so many quiet seconds has nothing to do with those before.
_FORGOTTEN = 60.0


class RegistryPatience:
    """Remembers the refusals and the silences of a slot's registries.

    Args:
        clock: Seconds that only rise.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refusals = 0
        self._last = self._next = float("-inf")
        self._words = ""
        self._silence = ""
        self._silent_until = float("-inf")

    def ask(self, call: Callable[[], T]) -> T:
        """Asks a registry, unless it has to be left in peace for a while.

        Raises:
            RegistryRefused: It has refused for as long as it was asked, or with what does not pass by itself.
            RegistryUnreachable: It refuses for now, or does not answer.
        """
        now = self._clock()
        if now < self._next:
            raise self._for_now(now)
        if now < self._silent_until:
            raise RegistryUnreachable(self._silence)
        if now - self._last > _FORGOTTEN:
            self._refusals = 0
        try:
            answer = call()
        except RegistryRefused as refused:
            if not refused.may_pass or self._refusals >= len(PAUSES):
                self._last = self._clock()
                raise
            self._last = now = self._clock()
            self._next = now + PAUSES[self._refusals]
            self._refusals += 1
            self._words = str(refused)
            raise self._for_now(now) from None
        except (SchemaNotFound, SchemaOfOthers, SchemaRefused, MoreToRegister):
            self._refusals = 0
            raise
        except RegistryUnreachable as silent:
            if self._clock() - now >= _SLOW_SECONDS:
                self._silence, self._silent_until = str(silent), self._clock() + _SILENT_SECONDS
            raise
        self._refusals = 0
        return answer

    def _for_now(self, now: float) -> RegistryUnreachable:
        left = len(PAUSES) + 1 - self._refusals
        return RegistryUnreachable(
            f"{self._words}. That may pass: it is asked again in {self._next - now:.0f} s, and after "
            f"{plural(left, 'more refusal')} the topic stops"
        )
