"""Fixtures of the tests of stages."""

from k2k_assets_tests.support.memory.registry_nodes import no_pauses

__all__ = ["no_pauses"]
