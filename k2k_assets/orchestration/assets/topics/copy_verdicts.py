"""The checks of topics while a run copies: which are stopped or paused, and a verdict when that has changed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from k2k_assets.control.commit_log import CommitLog
from k2k_assets.control.pause_records import Pause
from k2k_assets.core.stops.reason import StopReason, render
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.orchestration.checks.evaluations import VerdictSink, evaluations
from k2k_assets.orchestration.checks.topic_checks import topic_check_keys
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.replication.driver.progress import Progress
from k2k_assets.verification.stops import check_copies_on
from k2k_assets.verification.verdict import Judgement, Verdict


@dataclass(slots=True)
class CopyVerdicts:
    """Gives the verdicts of the topics of one run.

    Attributes:
        names: The pipeline's names.
        shown: The topics that have an asset since the run began; others may have got one since.
        sink: Takes the verdicts.
        read_log: Reads the commit log; None if it cannot be read now.
        log: Takes a line.
        warn: Takes a line that needs attention.
        stopped: Stopped partitions, with the reason and the position at that time.
        paused: Paused topics of the run.
    """

    names: AssetNames
    shown: Collection[str]
    sink: VerdictSink
    read_log: Callable[[], CommitLog | None]
    log: Callable[[str], None]
    warn: Callable[[str], None]
    stopped: dict[TopicPartition, tuple[StopReason, int]] = field(default_factory=dict)
    paused: Mapping[str, Pause] = field(default_factory=dict)
    _turned: set[str] = field(default_factory=set)
    _shown_stopped: set[TopicPartition] = field(default_factory=set)
    _topics: AbstractSet[str] = frozenset()

    def stop(self, tp: TopicPartition, reason: StopReason, position: int) -> None:
        """A partition is stopped, or is so for another reason than before: its topic's check fails, and says why.

        Args:
            tp: The source partition.
            reason: The stop reason.
            position: Its position, as far as it is known.
        """
        if tp in self.stopped and self.stopped[tp][0] == reason:
            return
        self.stopped[tp] = reason, position
        self._shown_stopped.discard(tp)
        self._turned.add(tp.topic)
        self.warn(f"{tp} is stopped: {render(reason)}")
        self._report_turned()

    def see(self, progress: Progress) -> None:
        """Takes in the progress: partitions that are copied on, topics that are paused or resumed."""
        self._topics = {tp.topic for tp in progress.partitions}
        self._note_recovered(progress)
        self._note_paused(progress.paused)
        self._report_turned()

    def _note_recovered(self, progress: Progress) -> None:
        """An override by hand, or a click, lets a partition be copied on, perhaps at the position where it stopped.

        The progress may not have shown the stop yet: then only a position that has changed tells.
        """
        recovered = []
        for tp, (_, position) in self.stopped.items():
            now = progress.partitions.get(tp)
            if now is not None and now.stopped is not None:
                self._shown_stopped.add(tp)
            elif now is not None and (now.position != position or tp in self._shown_stopped):
                recovered.append(tp)
        self._forget_gone(progress)
        for tp in recovered:
            del self.stopped[tp]
            self._shown_stopped.discard(tp)
            self._turned.add(tp.topic)
            self.log(f"{tp} is not stopped any more")

    def _forget_gone(self, progress: Progress) -> None:
        """Of a topic that was created anew with fewer partitions, the others; the commit log tells of them."""
        for tp in [tp for tp in self.stopped if tp.topic in self._topics and tp not in progress.partitions]:
            del self.stopped[tp]
            self._shown_stopped.discard(tp)
            self._turned.add(tp.topic)

    def _note_paused(self, paused: Mapping[str, Pause]) -> None:
        """A topic that was paused, or is resumed, is told of by its check and its next report."""
        known = self._topics & (paused.keys() | self.paused.keys())
        changed = {topic for topic in known if paused.get(topic) != self.paused.get(topic)}
        for topic in sorted(changed):
            self.log(f"{topic} is {paused[topic]}" if topic in paused else f"{topic} is resumed")
        self._turned |= changed
        self.paused = {topic: pause for topic, pause in paused.items() if topic in self._topics}

    def _report_turned(self) -> None:
        """The checks of topics that were stopped, or are copied on: of each until it has been told."""
        if not self._turned or (log := self.read_log()) is None:
            return
        self._give(self._verdicts(self._turned, log))
        self._turned.clear()

    def give_of_reported(self, topics: Collection[str], log: CommitLog) -> None:
        """Gives the verdicts of topics that are reported.

        Args:
            topics: The topics.
            log: The commit log.
        """
        verdicts = self._verdicts(topics, log)
        # Nothing of a topic is committed yet: that passes by itself, and the next report may be far away.
        self._give({topic: v for topic, v in verdicts.items() if v.judgement is not Judgement.WARNED})

    def _verdicts(self, topics: Collection[str], log: CommitLog) -> dict[str, Verdict]:
        logs = log.by_topic()
        stops: dict[str, dict[int | None, StopReason]] = {}
        for tp, (why, _) in self.stopped.items():
            stops.setdefault(tp.topic, {})[tp.partition] = why
        return {
            topic: check_copies_on(topic, logs[topic], stops.get(topic), self.paused.get(topic))
            for topic in sorted(topics)
        }

    def _give(self, verdicts: Mapping[str, Verdict]) -> None:
        checks = topic_check_keys(self.names, {*self.shown, *verdicts, *self._topics})
        self.sink.give_unless_shown(evaluations(checks, verdicts))
