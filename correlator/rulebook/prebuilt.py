"""The built-in rules, read once: what TOML and pattern analysis gave is kept beside the compiled modules, like a ``.pyc``.

The key is a digest of the rules' own text and of this format, so a changed rule is read anew and nothing stale is
trusted. The file is JSON: reading it runs nothing. Where the folder cannot be written, every start reads the TOML.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from correlator.parsers.catalogue import anchors, literal

FORMAT = "1"
FOLDER = Path(__file__).parent / "__pycache__"
_PREFIX = "rules-"


class Prebuilt:
    """Raw TOML by file name, and by pattern the literals that its matches hold.

    Args:
        texts: file name -> TOML text, all of them correct (`load` raises before for others).
        folder: where the result is kept between starts.
    """

    def __init__(self, texts: dict[str, str], folder: Path = FOLDER) -> None:
        digest = hashlib.sha256("\0".join([FORMAT, *(f"{name}\0{text}" for name, text in sorted(texts.items()))]).encode())
        self.file = folder / f"{_PREFIX}{digest.hexdigest()[:24]}.json"
        kept = self._kept(set(texts))
        self.fresh = kept is None
        if kept is None:
            kept = self._build(texts)
            self._keep(kept)
        self.raw: dict[str, dict[str, Any]] = kept["raw"]
        self.held: dict[str, list[Any]] = kept["held"]

    def holds(self, pattern: str) -> tuple[str, tuple[str, ...]] | None:
        """`literal` and `anchors` of a pattern, None for one of no built-in rule."""
        found = self.held.get(pattern)
        return (found[0], tuple(found[1])) if found is not None else None

    def _kept(self, names: set[str]) -> dict[str, Any] | None:
        try:
            kept = json.loads(self.file.read_bytes())
            return kept if set(kept["raw"]) == names and isinstance(kept["held"], dict) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @staticmethod
    def _build(texts: dict[str, str]) -> dict[str, Any]:
        raw = {name: tomllib.loads(text) for name, text in texts.items()}
        patterns = {s["pattern"] for rule in raw.values() for s in rule.get("signature", [])}
        return {"raw": raw, "held": {p: [literal(p), list(anchors(p))] for p in sorted(patterns)}}

    def _keep(self, kept: dict[str, Any]) -> None:
        with contextlib.suppress(OSError, TypeError):
            text = json.dumps(kept)
            self.file.parent.mkdir(exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.file.parent, prefix=_PREFIX, suffix=".tmp")
            with open(handle, "w", encoding="utf-8") as f:
                f.write(text)
            os.replace(name, self.file)  # two starts at once both write the same
            for old in self.file.parent.glob(f"{_PREFIX}*.json"):
                if old != self.file:
                    old.unlink(missing_ok=True)
