"""How the sinks of a slot learn where records go: what one session finds out makes the next ones careful.

Two reports for a chunk will do, and mostly even less, where nothing else comes between its records. When something
does, and when the target refuses a record, only a report for each record tells the place; they cost, and are given up
again after a while without trouble.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from k2k_assets.transport.errors import RetryAtOnce, Undeliverable
from k2k_assets.transport.interface import Delivery

# After so many transactions of a session without trouble what befell an earlier one is past.
_GOOD_COMMITS = 50


class ReportMode:
    """Outlives the sessions of a slot; nothing that progress depends on.

    Args:
        lone_writer: Whether no other source partition feeds the target partitions.

    Attributes:
        report_each: Whether every record reports its target offset.
        foresees: Whether mappings may be written before the target has said where the records went.
    """

    def __init__(self, lone_writer: bool) -> None:
        self._lone_writer = lone_writer
        self._good = 0
        self.report_each = not lone_writer
        self.foresees = lone_writer

    def begin_session(self) -> None:
        """A new sink goes on."""
        self._good = 0

    def ensure_whole(self, deliveries: Iterable[Delivery]) -> None:
        """Makes sure that it is known where each record went.

        Raises:
            RetryAtOnce: A chunk that reported only its ends does not lie in one piece.
        """
        for delivery in deliveries:
            if delivery.each is None and delivery.last - delivery.first + 1 > delivery.sent.count:
                self.report_each = True
                raise RetryAtOnce(f"something came between records of {delivery.sent.source}")

    @contextmanager
    def learning_of_refusals(self) -> Iterator[None]:
        """A record that the target refuses, in the body: which one it is only a report for each record tells.

        Raises:
            RetryAtOnce: That is not known; the next sink will know.
            Undeliverable: It is, or cannot be.
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
        """Records did not go where it was foreseen."""
        self.foresees = False

    def committed(self) -> None:
        """A transaction with records was committed."""
        self._good += 1
        if self._good == _GOOD_COMMITS:
            self.report_each = not self._lone_writer
            self.foresees = self._lone_writer
