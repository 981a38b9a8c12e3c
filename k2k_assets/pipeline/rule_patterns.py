"""Rules of a pipeline file whose pattern matches no topic, and topics without a rule.

A typo in the pattern of a mask copies in clear.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from difflib import get_close_matches

from k2k_assets.pipeline.java_regex import compile_java
from k2k_assets.pipeline.model import Pipeline

_MOST_NAMED = 5  # the search for the topic that was meant takes time


def rules_for_nothing(pipeline: Pipeline, topics: Collection[str]) -> str:
    """Says which rules are for none of the selected topics, in one line; empty if there are none.

    Args:
        pipeline: The pipeline.
        topics: All source topics that it selects now.
    """
    unused = [each for each in _patterns(pipeline) if not any(map(compile_java(each[1]).matches, topics))]
    if not unused:
        return ""
    named = [f"{rule} '{pattern}'{_meant(pattern, topics)}" for rule, pattern in unused[:_MOST_NAMED]]
    more = f" and {len(unused) - len(named)} more" if len(unused) > len(named) else ""
    what = "this rule applies" if len(unused) == 1 else "these rules apply"
    return (
        f"none of the selected topics ({len(topics)}) matches {', '.join(named)}{more}: {what} to nothing. A pattern "
        "must match the whole name of a source topic"
    )


def topics_without_schemas(pipeline: Pipeline, topics: Collection[str]) -> str:
    """Says of which selected topics no schema ids are mapped, because no rule is for them; empty if there are none."""
    rules = pipeline.schema_mapping.topics if pipeline.features.schema_mapping else ()
    if not rules:
        return ""
    left = sorted(t for t in topics if not any(compile_java(rule.pattern).matches(t) for rule in rules))
    more = f" and {len(left) - _MOST_NAMED} more" if len(left) > _MOST_NAMED else ""
    named = f"{', '.join(left[:_MOST_NAMED])}{more}"
    return f"no rule of schemaMapping.topics is for {named}: schema ids stay those of the source" if left else ""


def _patterns(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """The rules for source topics that are in force: their places in the file, and their patterns."""
    creation = pipeline.topic_creation.replication
    schemas = pipeline.schema_mapping.topics if pipeline.features.schema_mapping else ()
    patterns = {
        "transform": [rule.pattern for rule in pipeline.transform],
        "throttle.topics": [rule.pattern for rule in pipeline.throttle.topics],
        "schemaMapping.topics": [rule.pattern for rule in schemas],
        "topicCreation.replication.rules": [rule.pattern for rule in creation.rules] if creation else [],
    }
    for place, of_place in patterns.items():
        yield from ((f"{place}[{position}].pattern", pattern) for position, pattern in enumerate(of_place))


def _meant(pattern: str, topics: Collection[str]) -> str:
    nearest = get_close_matches(pattern, topics, n=1, cutoff=0.7)
    return f" (did you mean '{nearest[0]}'?)" if nearest else ""
