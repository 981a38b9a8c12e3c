"""Finds pipelines that would copy each other's copies for ever, from their files. Pure.

```
 a -> b   orders -> orders
 b -> a   orders -> orders        each record goes round, and comes back as a new one each time
```

Clusters are told apart by their addresses, whichever client has them. Topics are told apart by the names in lists, and
by names that are made of the expressions: whether two expressions have names in common cannot be decided in general.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

from k2k_assets.pipeline.clients.client_properties import CLIENTS, ClusterRole
from k2k_assets.pipeline.model import Pipeline

# What stands for one character in an expression, and what says how often.
_ANY = re.compile(r"\[(?P<first>[a-zA-Z0-9._-])?[^\]]*\]|\\[a-zA-Z](?:\{\w+\})?|\.")
_OFTEN = re.compile(r"[*+?^$()]|\?:|\{[\d,]*\}")


def loops(pipelines: list[Pipeline]) -> Iterator[str]:
    """One message for each two pipelines that would copy in circles.

    Args:
        pipelines: Pipelines that run beside each other.
    """
    for one, other in combinations(pipelines, 2):
        if opposite(one, other) and (topics := _there_and_back(one, other)):
            both = f"{one.name} and {other.name} copy {topics} both ways"
            if why := _not_told(one, other):
                yield f"{both}, so each record would go round for ever: {why}"


def opposite(one: Pipeline, other: Pipeline) -> bool:
    """Whether the one copies from where the other copies to, and the other way round."""
    return bool(
        _addresses(one, "source") & _addresses(other, "target")
        and _addresses(one, "target") & _addresses(other, "source")
    )


def _addresses(pipeline: Pipeline, side: ClusterRole) -> set[str]:
    servers = ",".join(
        str(pipeline.client_properties(cluster, client).get("bootstrap.servers", ""))
        for cluster, client in CLIENTS
        if cluster == side
    )
    return {address.strip().lower() for address in servers.split(",") if address.strip()}


def _there_and_back(one: Pipeline, other: Pipeline) -> str:
    """The topics that come back under their own name, in words; empty if there are none."""
    listed = [*(one.selection.literal or ()), *(other.selection.literal or ())]
    found = sorted({topic for topic in listed if _comes_back(one, other, topic)})
    if found:
        return ", ".join(found)
    ours = {part.pattern for part in one.selection.parts if part.pattern}
    theirs = {part.pattern for part in other.selection.parts if part.pattern}
    if (same := sorted(ours & theirs)) and keeps_names(one) and keeps_names(other):
        return f"topics that match '{same[0]}'"
    made = (name for pattern in sorted(ours | theirs) for name in _names_of(pattern))
    example = next((name for name in made if _comes_back(one, other, name)), None)
    return f"topics such as '{example}'" if example else ""


def _names_of(pattern: str) -> Iterator[str]:
    """Names that an expression may match, made of its text; the one who asks tries each."""
    for part in pattern.split("|"):
        text = _ANY.sub(lambda found: found["first"] or "x", part.replace(r"\.", "\0"))
        yield _OFTEN.sub("", text).replace("\\", "").replace("\0", ".")


def _comes_back(one: Pipeline, other: Pipeline, topic: str) -> bool:
    there = one.routing.target_if_any(topic) if one.selection.matches(topic) else None
    return there is not None and other.selection.matches(there) and other.routing.target_if_any(there) == topic


def keeps_names(pipeline: Pipeline) -> bool:
    """Whether all topics have the same name on both sides."""
    sinks = [pair.routing.topic for pair in pipeline.pairs]
    return not any(sink.prefix or sink.suffix or sink.static or sink.static_mapping for sink in sinks)


def _not_told(one: Pipeline, other: Pipeline) -> str:
    """Why one does not know the other's copies; empty if both do."""
    marker, theirs = one.marker, other.marker
    if marker is None or theirs is None:
        without = " and ".join(each.name for each in (one, other) if each.marker is None)
        return f"write 'features.bidirectionalReplication: enabled' in the file of {without} too, or other target names"
    if (marker.header, marker.mode) != (theirs.header, theirs.mode):
        return "their bidirectional.mode and bidirectional.headers must be the same"
    if marker.pipeline != theirs.pipeline:
        return "in bidirectional.mode 'pipeline' both must have the same name, or write 'mode: cluster' in both"
    return ""
