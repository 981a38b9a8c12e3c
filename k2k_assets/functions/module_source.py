"""The source of a user's module, found without executing anything of it, nor of the packages that it lies in.

An import runs code of others: it may hang, or end its process. So the processes of a copy only read the file; who
imports it is the process for functions (`process.py`).
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import NamedTuple

from k2k_assets.core.errors import Refused

_DIGEST_BYTES = 8
# With one of these a module can have names that its text does not show.
_DYNAMIC = {"exec", "eval", "globals", "locals", "vars", "setattr", "__getattr__"}


class ModuleSource(NamedTuple):
    """The source of a module.

    Attributes:
        name: The module.
        path: Its file.
        text: What is in it.
    """

    name: str
    path: str
    text: bytes

    @property
    def digest(self) -> str:
        """By which the code is known."""
        return hashlib.blake2b(self.text, digest_size=_DIGEST_BYTES).hexdigest()


def find_source(name: str, folders: Sequence[str]) -> ModuleSource:
    """The source of a module, as it is now.

    Args:
        name: The module.
        folders: Where it is looked for, behind Python's own path.

    Raises:
        Refused: There is none.
    """
    importlib.invalidate_caches()
    spec: ModuleSpec | None = None
    parts = name.split(".")
    for number in range(1, len(parts) + 1):
        part, parent = ".".join(parts[:number]), spec
        places = None if parent is None else parent.submodule_search_locations
        spec = None if not parts[number - 1] or (parent and places is None) else _found(part, places)
        if spec is None and parent is None and part:
            spec = PathFinder.find_spec(part, list(folders))
        if spec is None:
            why = f"No module named '{part}'" + (f"; '{parent.name}' is not a package" if parent and not places else "")
            raise Refused(not_imported(name, f"ModuleNotFoundError: {why}"))
    assert spec is not None
    if spec.origin is None or not spec.origin.endswith(".py"):
        raise Refused(f"the module {name} has no source: a function has to be in a file with Python's source")
    try:
        return ModuleSource(name, spec.origin, Path(spec.origin).read_bytes())
    except OSError as error:
        raise Refused(not_imported(name, f"{type(error).__name__}: {error}")) from error


def not_imported(module: str, why: str) -> str:
    """What is said of a module that cannot be imported."""
    return f"the module {module} cannot be imported: {why}"


def code_of(name: str, folders: Sequence[str]) -> str:
    """The digest of the source of a function's module, as it is now.

    Raises:
        Refused: There is no source.
    """
    return find_source(name.partition(":")[0], folders).digest


def function_fault(name: str, folders: Sequence[str]) -> str | None:
    """Why a function cannot be loaded, as far as the text of its module tells; None if it says nothing against it."""
    module, _, function = name.partition(":")
    try:
        source = find_source(module, folders)
        names = _names(source.text, source.path)
    except Refused as refusal:
        return str(refusal)
    except (SyntaxError, ValueError, RecursionError) as error:
        return not_imported(module, f"{type(error).__name__}: {error}")
    return None if names is None or function in names else no_function(module, function)


def no_function(module: str, function: str) -> str:
    """What is said of a module without a function."""
    return f"the module {module} has no function '{function}'"


@lru_cache(maxsize=32)
def _names(text: bytes, path: str) -> frozenset[str] | None:
    """All names that a source binds anywhere, perhaps in its functions only; None if it may have others."""
    tree = ast.parse(text, path)
    compile(tree, path, "exec")
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name):
                names.add(name)
            case ast.Import(names=found) | ast.ImportFrom(names=found):
                names.update(each.asname or each.name.partition(".")[0] for each in found)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.ExceptHandler(name=str(name)):
                names.add(name)
            case ast.Attribute(attr="modules" | "__dict__"):
                return None
    return None if names & (_DYNAMIC | {"*"}) else frozenset(names)


def _found(name: str, places: Sequence[str] | None) -> ModuleSpec | None:
    """What Python's finders say of a module, as an import asks them."""
    for finder in sys.meta_path:
        if spec := finder.find_spec(name, places):
            return spec
    return None
