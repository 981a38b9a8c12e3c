"""The functions of a pipeline's rules, in a process of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from k2k_assets.functions.answers import Call
from k2k_assets.functions.process import FunctionProcess
from k2k_assets.functions.user_code import code_of
from k2k_assets.functions.watch import RuleFunction
from k2k_assets.pipeline import Pipeline
from k2k_assets.stages.transform.rules import rule_name


class IsolatedFunctions:
    """The functions of rules.

    Args:
        functions: The functions, by the places of their rules among the rules.
        folders: Where their modules may lie.

    Attributes:
        process: Their process.
    """

    def __init__(self, functions: Mapping[int, RuleFunction], folders: Sequence[str]) -> None:
        self._numbers = {position: number for number, position in enumerate(functions)}
        self.process = FunctionProcess(list(functions.values()), folders)

    @classmethod
    def of_pipeline(cls, pipeline: Pipeline) -> IsolatedFunctions:
        """Those of a pipeline.

        Raises:
            Refused: A function cannot be loaded.
        """
        functions = {}
        for position, rule in enumerate(pipeline.transform):
            if rule.python is not None:
                code, timeout = code_of(rule.python, pipeline.folders), rule.function_timeout.total_seconds()
                functions[position] = RuleFunction(rule_name(position), rule.python, code, timeout)
        return cls(functions, pipeline.folders)

    @classmethod
    def of_text(cls, text: str, folders: Sequence[str], timeout: float) -> IsolatedFunctions:
        """Those of rules, as `Pipeline.transform_text` has them.

        Args:
            text: The rules.
            folders: Where their modules may lie.
            timeout: How many seconds a function may take for a batch.
        """
        rules = enumerate(json.loads(text) if text else ())
        functions = {
            position: RuleFunction(rule_name(position), rule["python"], rule["code"], timeout)
            for position, rule in rules
            if "python" in rule
        }
        return cls(functions, folders)

    def call_of(self, position: int) -> Call:
        """The call of the function of a rule, by the rule's place among the rules."""
        return self.process.call_of(self._numbers[position])
