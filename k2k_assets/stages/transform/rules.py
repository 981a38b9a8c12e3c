"""The rules of `transform`, compiled: what they make of a batch.

```
 rule 0   filter > masks > drops > function       each rule sees what the rules before it have left
 rule 1   filter > ...
```

One code applies them on the copy path and in the checks, to batches of any size: what becomes of a record depends on
the record alone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ValidationError

from k2k_assets.core.errors import Refused
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.stops.reasons.expressions import MatchTooSlow
from k2k_assets.core.stops.reasons.functions import FunctionEndsItsProcess, FunctionTooSlow
from k2k_assets.core.stops.reasons.records import TransformFailed
from k2k_assets.core.stops.reasons.unusable_functions import FunctionCannotBeLoaded, FunctionKeepsCrashing
from k2k_assets.functions.answers import (
    Call,
    FunctionCrashed,
    FunctionCrashesOften,
    FunctionError,
    FunctionNotLoaded,
    FunctionTimedOut,
    in_this_process,
)
from k2k_assets.functions.crash_limit import MINUTES, MOST_CRASHES_OF_A_TOPIC
from k2k_assets.functions.module_source import code_of
from k2k_assets.functions.process import MOST_CRASHES
from k2k_assets.functions.user_code import load_function
from k2k_assets.pipeline.java_regex import compile_java
from k2k_assets.pipeline.sections.predicates import GROUPS
from k2k_assets.pipeline.sections.transform import TransformRule
from k2k_assets.stages.transform.batch import Batch, DeadLetter, Failure
from k2k_assets.stages.transform.changes import compile_drop, compile_mask
from k2k_assets.stages.transform.conditions import MatchTimedOut, compile_condition
from k2k_assets.stages.transform.documents import RecordFault
from k2k_assets.stages.transform.user_function import UserFunction, take

_LOOK_SECONDS = 0.25


class Rule:
    """One rule.

    Args:
        name: Its name, `transform[0]`.
        rule: Its settings.
        call: Calls its function; None if it has none.

    Attributes:
        needs_headers: Whether headers have to be read for it.
    """

    def __init__(self, name: str, rule: TransformRule, call: Call | None) -> None:
        self._name, self._by_filter = name, f"{name}.filter"
        self._on_error, self._dead_letters = rule.on_error, rule.dead_letters
        self._holds = compile_condition(rule.filter) if rule.filter else None
        self._changes = [*map(compile_mask, rule.mask), *map(compile_drop, rule.drop)]
        self._python = rule.python or ""
        self._function = UserFunction(call) if call else None
        self.needs_headers = (
            rule.python is not None
            or rule.dead_letters is not None
            or any(place.header is not None for place in (*rule.mask, *rule.drop))
            or _is_about_headers(rule.filter or {})
        )

    @property
    def has_parts(self) -> bool:
        """Whether the rule has a filter, masks or drops."""
        return self._holds is not None or bool(self._changes)

    @property
    def has_function(self) -> bool:
        return self._function is not None

    def goes_on(self, batch: Batch, index: int) -> bool:
        """Applies filter, masks and drops to a record; returns whether it stays, for the rules behind this one."""
        try:
            if self._holds and not self._holds(batch, index):
                batch.left_out[index] = self._by_filter
                return False
            for change in self._changes:
                change(batch, index)
        except MatchTimedOut as fault:
            # Whatever `onError` says: the next run may be quicker, and would copy what this one left out.
            reason = MatchTooSlow(batch.source, batch.offsets[index], self._by_filter, str(fault))
            batch.stopped = index, reason
            return False
        except RecordFault as fault:
            return self._fail(batch, index, str(fault))
        except RecursionError:  # lists in lists, hundreds deep
            return self._fail(batch, index, "its JSON is nested too deeply")
        return True

    def call_function(self, batch: Batch) -> None:
        """Applies the function to the records of a batch that are not left out yet."""
        if self._function is None:
            return
        for returned in self._function.on(batch, batch.live()):
            if returned.fault is None:
                take(batch, returned, f"{self._name}.python")
                continue
            self._fail_function(batch, returned.indices, returned.fault)
            # Another rule may have stopped the batch further on: the records between are still to be done.
            if batch.stopped and batch.stopped[0] <= returned.indices[0]:
                return

    def _fail_function(self, batch: Batch, indices: Sequence[int], fault: FunctionError) -> None:
        """Deals with records for which the function has no answer.

        What ends or holds up its process stops the topic whatever `onError` says: that may be a matter of the machine,
        and the next record may do the same.
        """
        first, last = batch.offsets[indices[0]], batch.offsets[indices[-1]]
        rule = f"{self._name}.python"
        reason: StopReason
        match fault:
            case FunctionTimedOut():
                reason = FunctionTooSlow(batch.source, first, last, rule, self._python, fault.seconds, fault.place)
            case FunctionNotLoaded():
                reason = FunctionCannotBeLoaded(batch.source, first, rule, self._python, str(fault))
            case FunctionCrashesOften():
                often = MOST_CRASHES_OF_A_TOPIC, MINUTES
                reason = FunctionKeepsCrashing(batch.source, first, last, rule, self._python, str(fault), *often)
            case FunctionCrashed():
                reason = FunctionEndsItsProcess(batch.source, first, rule, self._python, str(fault), MOST_CRASHES)
            case _:
                self._fail(batch, indices[0], str(fault))
                return
        batch.stopped = indices[0], reason

    def _fail(self, batch: Batch, index: int, words: str) -> bool:
        """Deals with a record for which the rule fails; returns whether it stays nevertheless."""
        failure = Failure(self._name, words)
        match self._on_error:
            case "stop":
                batch.stopped = index, TransformFailed(batch.source, batch.offsets[index], *failure)
            case "deadLetter":
                batch.left_out[index] = f"{self._name}.deadLetters"
                batch.dead[index] = DeadLetter(self._dead_letters or "", failure)
            case "drop":
                batch.left_out[index] = f"{self._name}.onError"
            case "keep":
                return True
        return False


class Transforms:
    """All rules of a pipeline, as `Pipeline.transform_text` has them; null in the place of one that does not matter.

    Args:
        text: The rules.
        folders: Where modules of functions may lie.
        call_of: Makes the call of the function of a rule, by the rule's place among the rules; None: functions are
            called in this process, if their code is that of the rules.

    Attributes:
        while_working: Called a few times a second while filters, masks and drops are applied. What it raises leaves
            them.

    Raises:
        Refused: The rules cannot be applied here: another release wrote them, or the code of a function is another one.
    """

    def __init__(self, text: str, folders: Sequence[str], call_of: Callable[[int], Call] | None = None) -> None:
        self._rules: list[tuple[str, Rule]] = []
        for position, document in enumerate(json.loads(text) if text else ()):
            if document is not None:
                self._rules.append(_compiled(position, document, folders, call_of))
        self._topics: dict[str, tuple[Rule, ...]] = {}
        self.while_working: Callable[[], None] = lambda: None
        self._next_look = 0.0

    def of(self, topic: str) -> tuple[Rule, ...]:
        """The rules for a source topic, in order."""
        known = self._topics.get(topic)
        if known is None:
            known = tuple(rule for pattern, rule in self._rules if compile_java(pattern).matches(topic))
            self._topics[topic] = known
        return known

    def apply(self, batch: Batch) -> None:
        """Applies the rules for the batch's topic: record by record, as far as there is no function between them."""
        some: list[Rule] = []
        for rule in self.of(batch.source.topic):
            if rule.has_parts:
                some.append(rule)
            if rule.has_function:
                self._apply_to_each(some, batch)
                rule.call_function(batch)
                some = []
        self._apply_to_each(some, batch)

    def _apply_to_each(self, rules: Sequence[Rule], batch: Batch) -> None:
        if not rules:
            return
        steps = [rule.goes_on for rule in rules]
        for index in batch.live():
            self._look()  # an expression may take a large part of a second for each record
            for goes_on in steps:
                if not goes_on(batch, index):
                    break
            batch.write(index)
            if batch.stopped and batch.stopped[0] == index:
                return

    def _look(self) -> None:
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + _LOOK_SECONDS
            self.while_working()


def rule_name(position: int) -> str:
    """The name of a rule, by its place among the rules."""
    return f"transform[{position}]"


def _compiled(
    position: int, document: dict[str, Any], folders: Sequence[str], call_of: Callable[[int], Call] | None
) -> tuple[str, Rule]:
    name = rule_name(position)
    code = document.pop("code", None)
    try:
        settings = TransformRule.model_validate(document)
    except ValidationError:
        raise Refused(f"{name} was written by another release, which has other rules") from None
    call: Call | None = None
    if settings.python is not None and call_of is not None:
        call = call_of(position)
    elif settings.python is not None:
        ensure_code(name, settings.python, code, folders)
        call = in_this_process(load_function(settings.python, folders, code))
    return settings.pattern, Rule(name, settings, call)


def ensure_code(rule: str, function: str, code: str | None, folders: Sequence[str]) -> None:
    """Ensures that a function is the one that the rules mean.

    Raises:
        Refused: It is another one, or is not here.
    """
    if code_of(function, folders) != code:
        raise Refused(f"{rule}.python: the code of {function} is another one than that of the copy")


def _is_about_headers(condition: dict[str, Any]) -> bool:
    if "not" in condition:
        return _is_about_headers(condition["not"])
    parts = [part for group in GROUPS for part in condition.get(group, ())]
    return "header" in condition or any(map(_is_about_headers, parts))
