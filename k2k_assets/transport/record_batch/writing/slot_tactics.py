"""What the sinks of a slot have learned, for the next one. The correctness of the copy does not depend on it."""

from __future__ import annotations

# After so many transactions without trouble in a session, the trouble of an earlier session is forgotten.
_GOOD_COMMITS = 50
_NOTHING_JOINED = 1


class SlotTactics:
    """How a slot writes.

    Args:
        lone_writer: Whether no other source partition feeds the target partitions.
        batch_bytes: The largest batch that all target topics accept.

    Attributes:
        foresees: Whether target offsets are predicted, so that mapping records are written before the answers come.
        batch_bytes: Larger batches are split; one record may be larger.
    """

    def __init__(self, lone_writer: bool, batch_bytes: int) -> None:
        self._lone_writer, self._batch_bytes = lone_writer, batch_bytes
        self._good = 0
        self.foresees = lone_writer
        self.batch_bytes = batch_bytes

    @property
    def is_one_by_one(self) -> bool:
        """Whether each record is a batch of its own."""
        return self.batch_bytes == _NOTHING_JOINED

    def begin_session(self) -> None:
        """Notes that a new session begins: its transactions without trouble are counted from zero."""
        self._good = 0

    def was_mistaken(self) -> None:
        """Notes that a prediction was wrong, and turns predictions off."""
        self.foresees = False

    def seek_refused(self) -> None:
        """Notes that a record of a batch is refused, and that it is not known which: alone it will be."""
        self.batch_bytes = _NOTHING_JOINED

    def found_refused(self) -> None:
        """Notes that the refused record is known."""
        self.batch_bytes = self._batch_bytes

    def committed(self) -> None:
        """Notes a committed transaction with records; enough of them restore what is usual."""
        self._good += 1
        if self._good == _GOOD_COMMITS:
            self.foresees, self.batch_bytes = self._lone_writer, self._batch_bytes
