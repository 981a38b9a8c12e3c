"""Decides how the sinks of a slot learn target offsets: by few delivery reports, by one for each record, or beforehand.

Two reports for a chunk are enough, and mostly even fewer, if no other record comes between its records. If one does, or
if the target refuses a record, only a report for each record tells the offsets. Such reports are expensive, so they are
turned off again after some transactions without trouble. The mode passes from one session of the slot to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from k2k_assets.transport.errors import RetryAtOnce, Undeliverable
from k2k_assets.transport.interface import Delivery

# After so many transactions without trouble in a session, the trouble of an earlier session is forgotten.
_GOOD_COMMITS = 50


class ReportMode:
    """The report mode of a slot. It outlives the slot's sessions; the correctness of the copy does not depend on it.

    Args:
        lone_writer: Whether no other source partition feeds the target partitions.

    Attributes:
        report_each: Whether every record is reported with its target offset.
        foresees: Whether target offsets are predicted, so that mapping records are written before the reports come.
    """

    def __init__(self, lone_writer: bool) -> None:
        self._lone_writer = lone_writer
        self._good = 0
        self.report_each = not lone_writer
        self.foresees = lone_writer

    def begin_session(self) -> None:
        """Notes that a new session begins: its transactions without trouble are counted from zero."""
        self._good = 0

    def ensure_whole(self, deliveries: Iterable[Delivery]) -> None:
        """Makes sure that the target offset of each record is known; turns reports for each record on if not.

        Raises:
            RetryAtOnce: Other records lie between those of a chunk of which only the ends were reported.
        """
        for delivery in deliveries:
            if delivery.each is None and delivery.last - delivery.first + 1 > delivery.sent.count:
                self.report_each = True
                raise RetryAtOnce(f"something came between records of {delivery.sent.source}")

    @contextmanager
    def learning_of_refusals(self) -> Iterator[None]:
        """Handles a record that the target refuses in the body: only a report for each record tells which one it is.

        Raises:
            RetryAtOnce: The refused record is not known. Reports for each record are on now: the next sink learns it.
            Undeliverable: The refused record is known, or reports for each record could not tell it.
        """
        try:
            yield
        except Undeliverable as refusal:
            if refusal.index is None and not self.report_each:
                self.report_each = True
                raise RetryAtOnce(refusal.why) from None
            if refusal.index is not None and refusal.final:
                self.report_each = not self._lone_writer
            raise

    def was_mistaken(self) -> None:
        """Notes that a prediction was wrong, and turns predictions off."""
        self.foresees = False

    def committed(self) -> None:
        """Notes a committed transaction with records; enough of them restore the cheap mode."""
        self._good += 1
        if self._good == _GOOD_COMMITS:
            self.report_each = not self._lone_writer
            self.foresees = self._lone_writer
