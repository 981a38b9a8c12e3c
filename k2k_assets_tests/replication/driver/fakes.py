"""An instance and its generations, without clusters."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from k2k_assets.replication.driver.generations import Generations
from k2k_assets.replication.driver.instance import Instance
from k2k_assets.replication.driver.progress import Progress
from k2k_assets.replication.extent import Continuous, Extent

UNUSED: Any = None


def instance_on(snapshot: Any, changes: Any, extent: Extent | None = None) -> Instance:
    nothing = Progress({}, 0.0)
    progress: Any = SimpleNamespace(
        set_by_hand={},
        read=list,
        new_stops=list,
        **dict.fromkeys(("refresh", "current", "as_seen_now"), lambda: nothing),
    )
    peers: Any = SimpleNamespace(paused={})
    takeover: Any = SimpleNamespace(waited_for=set(), refresh=lambda *_: False, copies_still=lambda _: True)
    slots: Any = SimpleNamespace(has_changed=lambda: False)
    told = UNUSED, extent or Continuous(), snapshot, slots, (UNUSED, UNUSED), progress, peers, takeover, changes
    return Instance(Generations(*told))


def generations_on(snapshot: Any, changes: Any) -> Generations:
    return instance_on(snapshot, changes)._generations
