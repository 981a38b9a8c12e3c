"""The page on stopped topics, made from the list of reasons: `python -m k2k_assets.core.stops.page`.

Prints the page; docs/stops.md is its output (`make docs`), and a test compares the two.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator

from k2k_assets.core.stops.catalog import ALL
from k2k_assets.core.stops.reason import StopReason, render

_WIDTH = 120
_NO_BREAK = "\0"
_COMMAND = re.compile(r"(?:k2k-tool|kafka-transactions\.sh) [a-z-]+(?: --?[a-z-]+(?: [^\s-]\S*)?)*")

_INTRO = """# Stopped topics, and how to go on

What cannot be copied truthfully is not copied: that topic stops, the others go on. Nothing is skipped, and nothing is
copied into the wrong place, until somebody says so.

Each reason has a code, such as `records-deleted`. Codes never change, so that alerts and programs can rely on them; the
text may. Look the code up in the [list](#reasons).

This page is generated from `k2k_assets/core/stops/reasons/` and `k2k_assets/core/stops/page.py`: `make docs`.

## Where a stop shows

- In the log, and in the summary of `k2k start` when it ends, with exit code 5: `orders-0: [records-deleted] records 3
  to 7 were deleted ...`. The same text is in the termination log. Without `--once` it goes on, or stands by.
- In Dagster: the check `copies_on` of the topic fails when it happens, while the run copies the others on, and stays
  so until the topic goes on. It reads the commit log, so it also shows what stopped in `k2k start`; the replication
  sensor brings it up to date each tick. A click that meets a stop fails, and names topic, code, reason and what to do;
  the other topics are materialized. The table `k2k/stopped` of the failure and the table of `commit_log` have a column
  `stop code`. While nothing of a topic is committed yet, and nothing has stopped it, the check warns: nothing is
  proven.
- In the commit topic: the record that releases the partition holds the reason, the code and the facts. Where the
  partition has no position yet, a record of its own does ([control-topics.md](control-topics.md)).
- In `k2k status`, with the command that goes on ([status.md](status.md)), and in `k2k-tool describe`, on any machine:

```sh
k2k-tool describe -f pipeline.yaml
k2k-tool describe -f pipeline.yaml --yaml
```

On a terminal the first one is a table of all partitions with their lag and totals (`--table`). `--yaml`, which is what
a pipe or a file gets without it, prints each partition with `committed` (the next offset to copy), `last` (the end of
the source), `stopped` with the reason, `stop_code` with its code, and `override` where somebody set the position by
hand. `--json` prints the same as JSON. It changes nothing.

## Going on

Each reason names the command. `FILE` in it is the pipeline file; the programs name it where they know it. An instance
that runs has released what it stopped, and takes it up again within seconds of the command, also where all of its
partitions are stopped: then it stands by. The command refuses while an instance holds another partition that it names:
stop that instance first.

Where the reason was put right elsewhere (a permission, a setting of a topic, the pipeline file), start again; a click
on the topic does the same under Dagster.

"""

_OVERRIDES = """## `set` and `reset`

```sh
k2k-tool set -f pipeline.yaml -o orders:0:earliest --reason "retention was too short in May" --dry-run
k2k-tool set -f pipeline.yaml -o orders:0:2816 -o orders:1:latest
k2k-tool set -f pipeline.yaml -o orders:all:current --accept-foreign-records
k2k-tool reset -f pipeline.yaml --reason "the target cluster was built anew" --accept-new-topic
```

- `-o TOPIC:PARTITION:OFFSET`, repeated for several. PARTITION is a number or `all`; OFFSET is the next offset to copy:
  a number that the source holds, `earliest` (the log start), `latest` or `end` (the end of what the pipeline can read),
  `current` (stay).
- `reset` sets all partitions of the pipeline to `earliest`. On a terminal it shows what that means and asks; `--yes`
  answers for you. In a script it asks nobody.
- Either all of it is written or nothing. `--dry-run` shows what would be changed.
- A topic that was created anew is refused without `--accept-new-topic`, so that a position is never taken for one of
  another topic.
- `--force` takes partitions from an instance that has not released them: a dead one, or one that runs. It is fenced and
  can commit nothing more.

An override is written like any copy: by an instance of a new generation that claims the partitions, after it has fenced
whoever held them, in one transaction. The commit record is of kind `override` and says who, when, why, and what was
there before ([control-topics.md](control-topics.md)).

What it does to offset mappings:

- **Forward.** The range that is jumped over is covered by a mapping record without runs, marked with who set it:
  nothing of it is on the target, so a group that stands in it goes on at the next record. The coverage check passes.
  The note stays in the mapping topic when the commit record has been compacted away.
- **Back.** What was mapped from there on is cancelled. Records are copied a second time, behind the first copies, and
  positions translate to the second ones.

"""


def page() -> str:
    """The page in Markdown."""
    rows = "".join(f"| [`{code}`](#{code}) | {kind.title} |\n" for code, kind in ALL.items())
    index = f"## Reasons\n\n| code | what was found |\n| --- | --- |\n{rows}\n"
    return _INTRO + _OVERRIDES + index + "\n".join("".join(_section(kind.example())) for kind in ALL.values())


def _section(example: StopReason) -> Iterator[str]:
    yield f"### {example.code}\n\n"
    yield _filled(f"**{example.title[0].upper()}{example.title[1:]}.** {example.meaning}") + "\n\n"
    yield f"```text\n{_filled(render(example))}\n```\n\n"
    yield _filled(example.advice) + "\n"


def _filled(text: str) -> str:
    """Lines of the usual width; a command stays on one line, so that it can be copied."""
    whole = _COMMAND.sub(lambda command: command[0].replace(" ", _NO_BREAK), text)
    return textwrap.fill(whole, _WIDTH, break_long_words=False, break_on_hyphens=False).replace(_NO_BREAK, " ")


if __name__ == "__main__":
    sys.stdout.write(page())
