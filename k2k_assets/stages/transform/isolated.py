"""The functions of a pipeline's rules, in a process of their own."""

from __future__ import annotations

from k2k_assets.functions.answers import Call
from k2k_assets.functions.process import FunctionProcess
from k2k_assets.functions.user_code import code_of
from k2k_assets.functions.watch import RuleFunction
from k2k_assets.pipeline import Pipeline
from k2k_assets.stages.transform.rules import rule_name


class IsolatedFunctions:
    """The functions of a pipeline's rules.

    Args:
        pipeline: The pipeline, which has some.

    Attributes:
        process: Their process.

    Raises:
        Refused: A function cannot be loaded.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        numbers: dict[int, int] = {}
        functions: list[RuleFunction] = []
        for position, rule in enumerate(pipeline.transform):
            if rule.python is not None:
                numbers[position] = len(functions)
                code, timeout = code_of(rule.python, pipeline.folders), rule.function_timeout.total_seconds()
                functions.append(RuleFunction(rule_name(position), rule.python, code, timeout))
        self._numbers = numbers
        self.process = FunctionProcess(functions, pipeline.folders)

    def call_of(self, position: int) -> Call:
        """The call of the function of a rule, by the rule's place among the rules."""
        return self.process.call_of(self._numbers[position])
