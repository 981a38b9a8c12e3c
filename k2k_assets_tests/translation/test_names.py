"""The public names of the package."""

from __future__ import annotations

import pytest

from k2k_assets import translation


def test_a_former_name_works_and_says_the_new_one() -> None:
    with pytest.warns(DeprecationWarning, match=r"Translator is called OffsetTranslator now"):
        assert translation.Translator is translation.OffsetTranslator


def test_every_name_is_there() -> None:
    assert all(hasattr(translation, name) for name in translation.__all__)
    assert not hasattr(translation, "Interpreter")
