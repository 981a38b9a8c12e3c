"""The reloads of the definitions that a sensor has asked for, and when it asks again. Pure.

A reload can be lost: it is asked for by a code server, which another reload may just replace. So it is asked for again
while the definitions lack something.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

_FIRST_PAUSE = 60.0
_LONGEST_PAUSE = 3600.0
_MOST_DOUBLINGS = 6  # an hour is reached by then, and many more would be no number any more


class AskedReloads(BaseModel):
    """The reloads that a sensor has asked for; part of its cursor.

    Attributes:
        lacking: A digest of what the definitions lack; empty if nothing.
        asked: How many reloads were asked for because of that.
        asked_at: When the last one was; seconds since the epoch.
    """

    model_config = ConfigDict(frozen=True)

    lacking: str = ""
    asked: int = 0
    asked_at: float = 0.0

    def after_look(self, lacking: str, now: float) -> AskedReloads:
        """What is to be noted after a look at the definitions; one reload more if it is time for one.

        Args:
            lacking: A digest of what they lack now; empty if nothing.
            now: Seconds since the epoch.
        """
        if not lacking:
            return AskedReloads()
        if lacking != self.lacking:
            return AskedReloads(lacking=lacking, asked=1, asked_at=now)
        pause = min(_FIRST_PAUSE * 2.0 ** min(self.asked - 1, _MOST_DOUBLINGS), _LONGEST_PAUSE)
        if 0.0 <= now - self.asked_at < pause:
            return self
        return AskedReloads(lacking=lacking, asked=self.asked + 1, asked_at=now)
