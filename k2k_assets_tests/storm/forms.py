"""By which form the sessions of a storm have copied, as their logs tell."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from k2k_assets_tests.storm.instances import Engine

Form = Literal["records", "batches", "mixed"]
_SESSION = re.compile(r"slot \d+ copies by (records|whole batches) from now on$", re.MULTILINE)
_BACK = re.compile(r"slot \d+ copies record by record, not by whole batches: (.*)$", re.MULTILINE)


def forms_of(form: Form) -> Sequence[str]:
    """`transport.form` of the instances, in turns."""
    return ("batches", "records") if form == "mixed" else (form,)


@dataclass
class Sessions:
    """The sessions of a storm.

    Attributes:
        by_batches: How many there were.
        by_records: Likewise.
        back: Reasons for which slots went back to records, and how often.
    """

    by_batches: int = 0
    by_records: int = 0
    back: Counter[str] = field(default_factory=Counter)

    def words(self) -> str:
        """For people."""
        why = "".join(f"; {count} x back to records: {reason}" for reason, count in sorted(self.back.items()))
        return f"{self.by_batches} by whole batches, {self.by_records} by records{why}"

    def problems(self, form: Form, engine: Engine) -> list[str]:
        """What is wrong: these brokers and settings allow batches, so nothing may go back to records.

        Args:
            form: Of the storm.
            engine: Of the storm. Only slots in processes are known to say all that they do in the logs of instances.
        """
        found = [f"{count} x a slot went back to records: {reason}" for reason, count in sorted(self.back.items())]
        if engine == "processes" and form != "records" and not self.by_batches:
            found.append("no session copied by whole batches")
        if engine == "processes" and form != "batches" and not self.by_records:
            found.append("no session copied by records")
        return found


def sessions_of(directory: Path) -> Sessions:
    """The sessions that the logs of instances tell of.

    Args:
        directory: Of the logs.
    """
    found = Sessions()
    for log in directory.glob("*.log"):
        text = log.read_text(errors="replace")
        forms = Counter(_SESSION.findall(text))
        found.by_batches += forms["whole batches"]
        found.by_records += forms["records"]
        found.back.update(_BACK.findall(text))
    return found
