"""Functions of users that pipeline files name as `module:function`: loads them, and tells whether they are the same.

A function is known by a digest of its module's source, taken when the module is loaded. Modules are looked for on
Python's path, then beside the pipeline file.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from k2k_assets.core.errors import Refused

Function = Callable[..., Any]
_DIGEST_BYTES = 8
_digests: dict[str, str] = {}


def load_function(name: str, folders: Sequence[str]) -> Function:
    """The function behind `module:function`.

    Args:
        name: The function.
        folders: Where to look for its module, beside Python's own path.

    Raises:
        Refused: It cannot be loaded.
    """
    module, _, function = name.partition(":")
    found = getattr(_module(module, folders), function, None)
    if not callable(found):
        raise Refused(f"the module {module} has no function '{function}'")
    loaded: Function = found
    return loaded


def code_of(name: str, folders: Sequence[str]) -> str:
    """The digest of the source of a function's module, as it was loaded.

    Raises:
        Refused: The function cannot be loaded.
    """
    load_function(name, folders)
    return _digests[name.partition(":")[0]]


def function_fault(name: str, folders: Sequence[str]) -> str | None:
    """Why a function cannot be loaded; None if it can."""
    try:
        load_function(name, folders)
    except Refused as refusal:
        return str(refusal)
    return None


def _module(name: str, folders: Sequence[str]) -> ModuleType:
    """The module as its source is now; executed anew if that has changed since.

    The very source is executed of which the digest is taken: compiled files may be of an earlier one.
    """
    # Modules that a user's module imports may lie in the folders too; last, so that they hide no installed ones.
    sys.path.extend(folder for folder in folders if folder not in sys.path)
    importlib.invalidate_caches()
    try:
        if name in sys.modules and name not in _digests:
            module = sys.modules[name]  # somebody else uses it: it stays as it is
            _digests[name] = _digest(_source_of(name, module.__spec__, module))
            return module
        spec = importlib.util.find_spec(name)
        if spec is None:
            raise ModuleNotFoundError(f"No module named '{name}'")
        source = _source_of(name, spec)
        if name in sys.modules and _digests.get(name) == _digest(source):
            return sys.modules[name]
        module = importlib.util.module_from_spec(spec)
        _execute(name, module, compile(source, spec.origin or name, "exec"))
    except Refused:
        raise
    except (Exception, SystemExit) as error:  # whatever a module of others raises
        raise Refused(f"the module {name} cannot be imported: {type(error).__name__}: {error}") from error
    _digests[name] = _digest(source)
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


def _source_of(name: str, spec: ModuleSpec | None, module: ModuleType | None = None) -> bytes:
    path = getattr(module, "__file__", None) or (spec.origin if spec else None)
    if path is None or not path.endswith(".py"):
        raise Refused(f"the module {name} has no source: a function has to be in a file with Python's source")
    return Path(path).read_bytes()


def _digest(source: bytes) -> str:
    return hashlib.blake2b(source, digest_size=_DIGEST_BYTES).hexdigest()
