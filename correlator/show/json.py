"""The document as JSON (contract; ``schema.json`` in this folder describes it)."""

from __future__ import annotations

import json
from typing import Any


def render(document: dict[str, Any]) -> str:
    """Pretty JSON with a final newline; times are ISO 8601 in UTC."""
    return json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n"
