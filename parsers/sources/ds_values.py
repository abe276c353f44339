"""DeepSpeed settings as flat rows: one naming for the file, the user's block and the dump of the effective settings.

The dump prints field names of pydantic models (``prefetch_bucket_size``), users write the documented keys
(``stage3_prefetch_bucket_size``): rows always carry the documented ones. Source: deepspeed/runtime/zero/config.py,
deepspeed/runtime/fp16/, deepspeed/runtime/config.py. A helper of parsers, no log source.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

_GROUPS = {
    "zero_config": "zero_optimization",
    "float16_config": "fp16",
    "bfloat16_config": "bf16",
    "activation_checkpointing_config": "activation_checkpointing",
}
_RENAMED = {
    "fp16_enabled": "fp16.enabled", "bfloat16_enabled": "bf16.enabled", "loss_scale": "fp16.loss_scale", "initial_dynamic_scale": "fp16.initial_dynamic_scale",
    "fp16_auto_cast": "fp16.auto_cast", "zero_enabled": "zero_optimization.enabled", "optimizer_name": "optimizer.type", "scheduler_name": "scheduler.type",
    "zero_optimization_stage": "zero_optimization.stage", "dynamic_loss_scale_args": "fp16.dynamic_loss_scale_args",
}  # fmt: skip
_STAGE3 = frozenset(
    {"prefetch_bucket_size", "param_persistence_threshold", "model_persistence_threshold", "max_live_parameters", "max_reuse_distance", "gather_16bit_weights_on_model_save", "use_all_reduce_for_fetch_params"}
)  # fmt: skip
_PAIR = re.compile(r"(?:^|[\s,(])(?P<key>[A-Za-z_]\w*)=")
_THOUSANDS = re.compile(r"-?\d{1,3}(?:,\d{3})+")


def user_key(name: str) -> str:
    """Documented key of a name in the dump."""
    return _GROUPS.get(name) or _RENAMED.get(name, name)


def plain(value: Any) -> str:
    """One text for one value: ``5.000000e+08`` = ``500,000,000`` = ``500000000``; ``true`` = ``True``; ``null`` = ``None``."""
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e18 and abs(value) >= 1000:
        return str(int(value))
    text = str(value).strip() if not isinstance(value, (list, dict)) else json.dumps(value)
    if _THOUSANDS.fullmatch(text):
        return text.replace(",", "")
    return {"true": "True", "false": "False", "null": "None"}.get(text, text)


def pairs(key: str, value: str) -> Iterator[tuple[str, str]]:
    """(key, value) rows of one dump entry; a repr of ``name=value`` pairs gives one row each, nested ones too."""
    value = value.strip()
    if value in ("{", "["):  # a nested dump over several lines: nothing there is used
        return
    found = list(_split(value)) if _PAIR.match(value) else []
    if not found:
        yield key, plain(value)
        return
    for name, item in found:
        full = f"stage3_{name}" if key == "zero_optimization" and name in _STAGE3 else name
        inner = re.fullmatch(r"\w+\((.*)\)", item)
        if inner and "=" in inner[1]:
            yield from pairs(f"{key}.{full}", inner[1])
        else:
            yield f"{key}.{full}", plain(item.strip("'\""))


def _split(text: str) -> Iterator[tuple[str, str]]:
    """Top-level ``name=value`` pairs, separated by spaces or commas; brackets and quotes keep a value together."""
    starts: list[tuple[int, int, str]] = []
    depth, quote = 0, ""
    marks = {m.start("key"): m for m in _PAIR.finditer(text)}
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "([{<":
            depth += 1
        elif c in ")]}>":
            depth -= 1
        elif depth == 0 and i in marks:
            starts.append((i, marks[i].end(), marks[i]["key"]))
    for n, (_, end, name) in enumerate(starts):
        stop = starts[n + 1][0] if n + 1 < len(starts) else len(text)
        yield name, text[end:stop].strip().rstrip(",")


def flatten(value: dict[str, Any], lines: Sequence[str], prefix: str = "", start: int = 0) -> Iterator[tuple[str, str, int]]:
    """(dotted key, value, index of the line that holds it), in the order of the document.

    The line is found by the key's text, searched forward from its parent: keys of one object may repeat elsewhere.
    """
    at = start
    for name, item in value.items():
        at = _line_of(name, lines, at)
        key = f"{prefix}.{name}" if prefix else str(name)
        if isinstance(item, dict) and item:
            last = at
            for row in flatten(item, lines, key, at):
                last = max(last, row[2])
                yield row
            at = last
        else:
            yield key, plain(item), at


def _line_of(name: str, lines: Sequence[str], start: int) -> int:
    mark = re.compile(rf"^\W*?['\"]?{re.escape(str(name))}['\"]?\s*:|[{{,]\s*['\"]{re.escape(str(name))}['\"]\s*:")
    for index in range(start, len(lines)):
        if mark.search(lines[index]):
            return index
    return min(start, max(0, len(lines) - 1))
