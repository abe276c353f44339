"""DeepSpeed configuration files (``ds_config.json``, also as YAML-like text): what the user asked for.

On disk a value may still say ``auto`` (transformers fills it in later), so the engine's dump in a log is better
evidence of what was in force. Rows carry the documented keys and the line each one stands on.
"""

from __future__ import annotations

import json
import re
from typing import Any

from correlator.parsers.schema import Sink, document_line
from correlator.parsers.sources.ds_values import flatten, plain

NAME = "ds_config"

_NAMED = re.compile(r"(?:^|/)(?:ds|deepspeed|zero[123]?|z[0-3])[\w.-]*\.(?:json|ya?ml)$", re.IGNORECASE)
_MARKS = (b"zero_optimization", b"train_micro_batch_size", b"deepspeed_config", b"zero_allow_untested_optimizer")
_YAML = re.compile(r"^(?P<indent> *)(?:- )?(?P<key>[A-Za-z_][\w.-]*):(?:\s+(?P<value>[^#]*?))?\s*(?:#.*)?$")


def claims(path: str, head: bytes) -> bool:
    """A structured file with DeepSpeed's keys; a log that quotes such keys is none."""
    suffix = path.rsplit("/", 1)[-1].lower().removesuffix(".gz")
    if not any(mark in head for mark in _MARKS) and not (_NAMED.search(path) and b'"stage"' in head):
        return False
    start = head.lstrip()
    if start.startswith(b"{"):
        # JSON lines of a log also start with a brace: a document's first object does not end on its first line
        first = start.split(b"\n", 1)[0].strip()
        return suffix.endswith(".json") or not first.endswith(b"}")
    return suffix.endswith((".yaml", ".yml"))


def parse(path: str, data: bytes, out: Sink) -> None:
    """Config rows with origin = file name; what cannot be read becomes a problem."""
    text = data.decode("utf-8", errors="replace").lstrip("\ufeff")
    lines = text.split("\n")
    origin = path.rsplit("/", 1)[-1]
    if not text.lstrip().startswith("{"):
        _yaml(lines, origin, out)
        return
    try:
        value: Any = json.loads(text)
    except ValueError as exc:
        out.problem(getattr(exc, "lineno", None), "bad-json", f"{exc}")
        return
    if not isinstance(value, dict):
        return
    inner = value.get("deepspeed_config", value.get("deepspeed"))
    if isinstance(inner, dict) and "zero_optimization" in inner:
        value = inner
    for key, item, index in flatten(value, lines):
        out.config(document_line(index + 1, lines[index].strip()), key, item, origin)


def _yaml(lines: list[str], origin: str, out: Sink) -> None:
    """Plain nested mappings only (accelerate and trainer configurations); lists and anchors are left out."""
    path: list[tuple[int, str]] = []
    for no, text in enumerate(lines, 1):
        m = _YAML.match(text)
        if m is None:
            continue
        indent = len(m["indent"])
        while path and path[-1][0] >= indent:
            path.pop()
        value = (m["value"] or "").strip()
        if value:
            key = ".".join([*(k for _, k in path), m["key"]])
            out.config(document_line(no, text.strip()), key, plain(value.strip("'\"")), origin)
        else:
            path.append((indent, m["key"]))
