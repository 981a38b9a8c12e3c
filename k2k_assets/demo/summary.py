"""The demo's last words: what was copied, what the checks say, and whether all of it is good. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from k2k_assets.core.words import plural
from k2k_assets.demo.decoded import Decoded
from k2k_assets.demo.groups import Resumed
from k2k_assets.orchestration.materialize import CheckResult, Materialized

_MOST_LINES = 5
_HEAD = ("topic", "records", "bytes", "source end", "target end", "ranges", "seconds")


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One copied topic. Offsets are sums over its partitions.

    Attributes:
        topic: The source topic.
        written: Records that were committed to the source.
        records: Records that were copied.
        bytes: Bytes of their values.
        source_end: End offsets on the source.
        target_end: End offsets on the target.
        runs: Stretches in which both offsets rise by one.
        seconds: From the claim to the last commit; topics are copied side by side.
    """

    topic: str
    written: int
    records: int
    bytes: int
    source_end: int
    target_end: int
    runs: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Shown:
    """What the demo has to show.

    Attributes:
        rows: One a topic.
        groups: How consumer groups went on on the target.
        decoded: How the topic with schemas was decoded there; None without schema registries.
        result: What the Dagster run did.
    """

    rows: Sequence[TopicRow]
    groups: Sequence[Resumed]
    decoded: Decoded | None
    result: Materialized


def summary(shown: Shown, width: int) -> str:
    """The text.

    Args:
        shown: What there is to show.
        width: Columns of the terminal.
    """
    rows, groups, result = shown.rows, shown.groups, shown.result
    parts = ["\n".join(_table(rows)), _offsets_explained(width)] if rows else []
    if on_the_copy := [check for check in result.checks if not _of_group(check)]:
        parts.append("\n".join(["Checks on topics and offset mappings", *_checks(_together(on_the_copy), width)]))
    if groups:
        on_groups = {check.asset: check.judgement for check in result.checks if _of_group(check)}
        parts.append(
            "\n".join(["Consumer groups, resumed on the target by real consumers", *_groups(groups, on_groups)])
        )
    if shown.decoded:
        parts.append(f"Values with schemas, decoded on the target with its own registry\n{_ids(shown.decoded)}")
    return "\n\n".join([*parts, "\n".join(verdict(shown))])


def faults(shown: Shown) -> list[str]:
    """What is not as it must be, a line each."""
    rows, result = shown.rows, shown.result
    undecoded = shown.decoded.faults if shown.decoded else ()
    lost = [
        f"{row.topic}: {plural(row.written, 'record')} written, {row.records:,} copied"
        for row in rows
        if row.written != row.records
    ]
    missing = [f"{key}: not materialized" for key in result.missing]
    failed = [f"check {check.name}: failed" for check in result.checks if check.judgement == "failed"]
    strayed = (_strayed(group) for group in shown.groups if not group.good)
    return [*lost, *result.failures, *missing, *failed, *strayed, *_first(undecoded)]


def _first(lines: Sequence[str]) -> list[str]:
    more = [f"and {len(lines) - _MOST_LINES:,} more"] if len(lines) > _MOST_LINES else []
    return [*lines[:_MOST_LINES], *more]


def _strayed(group: Resumed) -> str:
    order = "" if group.in_order else ", not in the order of the source"
    return f"group {group.group}: {plural(group.skipped, 'record')} skipped, {group.again:,} read again{order}"


def verdict(shown: Shown) -> list[str]:
    """The closing lines."""
    rows, result = shown.rows, shown.result
    bad = faults(shown)
    if bad:
        return ["Not everything is as it must be:", *(f"  {line}" for line in bad)]
    warned = sum(check.judgement == "warned" for check in result.checks)
    said = f"{plural(len(result.checks), 'check')} passed" if not warned else f"{plural(warned, 'check')} in doubt"
    return [
        f"{plural(sum(row.written for row in rows), 'record')} written and committed on the source, "
        f"{sum(row.records for row in rows):,} copied. {plural(len(result.metadata), 'asset')} materialized, {said}."
    ]


def _table(rows: Iterable[TopicRow]) -> list[str]:
    cells = [_HEAD, *(_cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in cells
    ]


def _cells(row: TopicRow) -> tuple[str, ...]:
    numbers = (row.records, row.bytes, row.source_end, row.target_end, row.runs)
    return (row.topic, *(f"{number:,}" for number in numbers), f"{row.seconds:.1f}")


def _offsets_explained(width: int) -> str:
    return textwrap.fill(
        "Ends are end offsets, summed over partitions. They differ on purpose: aborted records and the markers of "
        "transactions take offsets on the source, our own commits do on the target. The offset mappings know which "
        "offset became which.",
        min(width, 100),
    )


def _of_group(check: CheckResult) -> bool:
    return "/consumer_groups/" in check.asset


def _together(checks: Iterable[CheckResult]) -> Iterable[CheckResult]:
    """One line for all topics that passed the same check; those that did not have their own."""
    passed: dict[str, int] = {}
    rest = []
    for check in checks:
        if "/topics/" in check.asset and check.judgement == "passed":
            passed[check.name] = passed.get(check.name, 0) + 1
        else:
            rest.append(check)
    lines = [CheckResult(name, "passed", f"holds for {plural(count, 'topic')}") for name, count in passed.items()]
    return [*lines, *rest]


def _groups(groups: Sequence[Resumed], checks: Mapping[str, str]) -> Iterable[str]:
    longest = max(len(group.group) for group in groups)
    for group in groups:
        found = [judgement for key, judgement in checks.items() if key.endswith(f"/{group.group}")]
        head = f"  {found[0] if found else 'not checked'}  {group.group.ljust(longest)}  {group.state}: "
        yield (
            f"{head}{group.read:,} read on the source, {group.unread:,} unread; {group.resumed:,} read on the target, "
            f"skipped {group.skipped:,}, read again {group.again:,}"
        )


def _ids(decoded: Decoded) -> str:
    source, target = (", ".join(map(str, ids)) for ids in (decoded.source_ids, decoded.target_ids))
    said = "failed" if decoded.faults else "passed"
    return f"  {said}  {decoded.topic}  {plural(decoded.values, 'value')}: schemas {source} of the source are {target}"


def _checks(checks: Iterable[CheckResult], width: int) -> Iterable[str]:
    checks = list(checks)
    longest = max(len(check.name) for check in checks)
    for check in checks:
        head = f"  {check.judgement}  {check.name.ljust(longest)}  "
        yield (
            textwrap.fill(check.summary, min(width, 110), initial_indent=head, subsequent_indent=" " * len(head))
            if check.summary
            else head.rstrip()
        )
