"""Functions of users that pipeline files name as `module:function`: loads them.

A function is known by a digest of its module's source (`module_source.py`), and that very source is executed. Modules
are looked for on Python's path, then beside the pipeline file.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import CodeType, ModuleType
from typing import Any

from k2k_assets.core.errors import Refused
from k2k_assets.functions.module_source import ModuleSource, find_source, no_function, not_imported

Function = Callable[..., Any]
_digests: dict[str, str] = {}


def load_function(name: str, folders: Sequence[str], code: str | None = None) -> Function:
    """The function behind `module:function`; its module is executed, which may hang or end this process.

    Args:
        name: The function.
        folders: Where to look for its module, beside Python's own path.
        code: What the digest of its module's source has to be; None: anything.

    Raises:
        Refused: It cannot be loaded.
    """
    module, _, function = name.partition(":")
    source = find_source(module, folders)
    if code is not None and source.digest != code:
        raise Refused(f"the code of {name} has changed since the copy began: start again to copy with the new one")
    found = getattr(_module(source, folders), function, None)
    if not callable(found):
        raise Refused(no_function(module, function))
    loaded: Function = found
    return loaded


def _module(source: ModuleSource, folders: Sequence[str]) -> ModuleType:
    """The module as its source is now; executed anew if that has changed since.

    The very source is executed of which the digest is taken: compiled files may be of an earlier one.
    """
    name = source.name
    # Modules that a user's module imports may lie in the folders too; last, so that they hide no installed ones.
    sys.path.extend(folder for folder in folders if folder not in sys.path)
    # One that somebody else has imported stays as it is.
    if name in sys.modules and _digests.get(name, source.digest) == source.digest:
        return sys.modules[name]
    try:
        spec = importlib.util.find_spec(name) if name not in sys.modules else sys.modules[name].__spec__
        if spec is None:
            raise ModuleNotFoundError(f"No module named '{name}'")
        module = importlib.util.module_from_spec(spec)
        _execute(name, module, compile(source.text, source.path, "exec"))
    except (Exception, SystemExit) as error:  # whatever a module of others raises
        raise Refused(not_imported(name, f"{type(error).__name__}: {error}")) from error
    _digests[name] = source.digest
    return module


def _execute(name: str, module: ModuleType, code: CodeType) -> None:
    """Executes a module; dataclasses in it, and others, look for it among the modules meanwhile, as in any import."""
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        exec(code, module.__dict__)
    except BaseException:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        raise
