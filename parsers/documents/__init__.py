"""One module per kind of document (a file that is not a line log). A module is found by being here; nothing else is edited to add one."""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache
from types import ModuleType


@lru_cache(maxsize=1)
def load() -> list[ModuleType]:
    """All document modules, lowest ORDER first, then by name."""
    found = [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]
    return sorted((m for m in found if hasattr(m, "parse")), key=lambda m: (getattr(m, "ORDER", 50), m.NAME))
