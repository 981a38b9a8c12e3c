"""Watches the slots of a generation until they end; stands by while there is nothing to copy."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Set
from dataclasses import dataclass, replace

from k2k_assets.control.assignment_writing import write_stop
from k2k_assets.core.errors import K2KError
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.driver.events import HandedOver, ProgressRead
from k2k_assets.replication.driver.generations import Generations
from k2k_assets.replication.driver.job import Job

log = logging.getLogger("k2k.replication")

_POLL_SECONDS = 0.25
_OBSERVE_SECONDS = 1.0
_ASK_AGAIN_SECONDS = 5.0


@dataclass(slots=True)
class JobWatch:
    """Reads what the slots do, emits events, and asks the slots to end when it is time.

    Attributes:
        generations: The generations of the instance, with all that follows their slots.
    """

    generations: Generations
    _next_observation: float = 0.0
    _asks_again: float = 0.0

    def until_done(self, job: Job, stop: threading.Event) -> bool:
        """Waits for the end of a job; stops the slots when `stop` is set, and when a new generation is needed.

        Returns:
            Whether a new generation is needed.
        """
        asked = stopping = False
        while not job.done.wait(_POLL_SECONDS):
            self._read_progress()
            if stop.is_set() and not stopping:
                stopping = True
                self._write_stop(again=False)
            elif not (stopping or asked):
                asked = self.generations.is_new_one_needed(copying=True)
                if asked:
                    self.ask_to_end(again=True)
            elif time.monotonic() >= self._asks_again:
                self.ask_to_end(again=not stopping)
            self._observe()
        self._read_progress()
        self._next_observation = 0.0
        self._observe()
        return asked

    def stand_by(self, stop: threading.Event, stopped: Set[TopicPartition] = frozenset()) -> bool:
        """Waits until there is something to copy, or `stop` is set.

        Args:
            stop: Ends the wait.
            stopped: Partitions that this instance has stopped, and that nobody else has taken over.

        Returns:
            False if newer instances have taken over all of these, which is told.
        """
        while not stop.wait(_POLL_SECONDS) and not self.generations.is_new_one_needed(copying=False):
            self._read_progress()
            self._observe()
            if stopped and stopped <= (taken := self.generations.taken_over(stopped)).keys():
                self.generations.listener(HandedOver(taken, nothing_left=True))
                return False
        return True

    def ask_to_end(self, again: bool) -> None:
        """Writes the stop record; logs an error, after which the record may be there or not."""
        try:
            self._write_stop(again)
        except K2KError as error:
            log.warning("the slots cannot be asked to end: %s", error)

    def _write_stop(self, again: bool) -> None:
        """Writes the stop record; called again and again, because an instance that announces itself may remove it.

        It removes the records of generations that have not claimed anything yet.
        """
        self._asks_again = time.monotonic() + _ASK_AGAIN_SECONDS
        write_stop(self.generations.pipeline, self.generations.number, again)

    def _read_progress(self) -> None:
        """Reads what the slots did; logs an error only, because the slots themselves handle a target that restarts."""
        try:
            self.generations.slot_events.tell()
        except K2KError as error:
            log.warning("progress is not known: %s", error)

    def _observe(self) -> None:
        """Asks the source for its ends about once a second; logs an error only: the slots handle a silent source."""
        if time.monotonic() < self._next_observation:
            return
        self._next_observation = time.monotonic() + _OBSERVE_SECONDS
        try:
            self.generations.progress.refresh()
        except K2KError as error:
            log.warning("progress is not known: %s", error)
        progress = self.generations.progress.as_seen_now()
        self.generations.listener(ProgressRead(replace(progress, paused=self.generations.peers.paused)))
