"""The functions of a pipeline's rules, in a process of their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from k2k_assets.core.errors import Refused
from k2k_assets.functions.answers import Call, FunctionError
from k2k_assets.functions.crash_limit import CrashLimit
from k2k_assets.functions.process import FunctionProcess
from k2k_assets.functions.watch import RuleFunction
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.java_regex import compile_java
from k2k_assets.stages.transform.rules import ensure_code, rule_name


class IsolatedFunctions:
    """The functions of rules.

    Args:
        functions: The functions, by the places of their rules among the rules.
        folders: Where their modules may lie.
        limit: How often their process may end for a topic; None: any number of times.

    Attributes:
        process: Their process.
    """

    def __init__(
        self, functions: Mapping[int, RuleFunction], folders: Sequence[str], limit: CrashLimit | None = None
    ) -> None:
        self._functions, self._folders = functions, folders
        self._patterns = [compile_java(function.pattern) for function in functions.values()]
        self._topics: dict[str, bool] = {}
        self._numbers = {position: number for number, position in enumerate(functions)}
        self.process = FunctionProcess(list(functions.values()), folders, limit)

    @classmethod
    def of_pipeline(cls, pipeline: Pipeline) -> IsolatedFunctions:
        """Those of a pipeline that copies, with the code that its settings have noted.

        Raises:
            Refused: The module of a function cannot be found.
        """
        timeouts = [rule.function_timeout.total_seconds() for rule in pipeline.transform]
        return cls(_functions(pipeline.transform_text, timeouts.__getitem__), pipeline.folders, CrashLimit())

    @classmethod
    def of_text(cls, text: str, folders: Sequence[str], timeout: float) -> IsolatedFunctions:
        """Those of rules, as `Pipeline.transform_text` has them.

        Args:
            text: The rules; null in the place of one that does not matter.
            folders: Where their modules may lie.
            timeout: How many seconds a function may take for a batch.
        """
        return cls(_functions(text, lambda position: timeout), folders)

    def ensure_code(self) -> None:
        """Ensures that the functions are those that the rules mean.

        Raises:
            Refused: One is another one, or is not here.
        """
        for function in self._functions.values():
            ensure_code(function.rule, function.name, function.code, self._folders)

    def load(self) -> None:
        """Loads the functions, before any is called.

        Raises:
            Refused: One cannot be loaded.
        """
        for number, function in enumerate(self._functions.values()):
            try:
                self.process.load(number)
            except FunctionError as error:
                raise Refused(f"{function.rule}.python: {error}") from None

    def are_for(self, topic: str) -> bool:
        """Whether any of them is for a source topic."""
        known = self._topics.get(topic)
        if known is None:
            known = self._topics[topic] = any(pattern.matches(topic) for pattern in self._patterns)
        return known

    def call_of(self, position: int) -> Call:
        """The call of the function of a rule, by the rule's place among the rules."""
        return self.process.call_of(self._numbers[position])


def _functions(text: str, timeout_of: Callable[[int], float]) -> dict[int, RuleFunction]:
    return {
        position: RuleFunction(rule_name(position), rule["python"], rule["code"], timeout_of(position), rule["pattern"])
        for position, rule in enumerate(json.loads(text) if text else ())
        if rule is not None and "python" in rule
    }
