"""Non-finite values in words: who had them before any reduction, and who only saw the result."""

from __future__ import annotations

import re
from typing import Any

from correlator.parsers.schema import Line, Sample, Sink

NAME = "numeric"
ORDER = 40
TOKENS = ("found NaN", "Unexpected result nan", "non-finite", "norm is nan", "norm is inf", "is NaN", "returned NaN", "contains a NaN", "nan values in its", "Loss is nan", "loss is nan")

_LOCAL = re.compile(r"Rank (?P<rank>\d+)(?:: |, node (?P<node>[^,]+), device (?P<device>\w+), iteration (?P<step>-?\d+): Unexpected result (?:nan|inf) .*?)(?:found (?:NaN|Inf) in local|.*?found (?:NaN|Inf) in local)")
_RERUN = re.compile(r"Unexpected result nan on rank (?P<rank>\d+) at iteration #(?P<step>\d+)")
_HOOK = re.compile(r"\brank[ =](?P<rank>\d+),? (?:at )?step[ =](?P<step>\d+)[^\n]*?non-finite (?:local )?grad", re.IGNORECASE)
_GLOBAL = re.compile(
    r"(?:grad(?:ient)?[ _]norm|norm of gradients)[^\n]{0,20}? is (?:nan|inf)|gradient norm is NaN|clipping returned NaN|non-finite (?:gradient|grad)[ _]norm|total norm of order [\d.]+ for gradients from"
    r"|[Ll]oss (?:is|became|went to) (?:nan|NaN|inf)|loss is not finite|NaN (?:detected|found) in (?:loss|grad)",
    re.IGNORECASE,
)

SAMPLES = (
    Sample("AssertionError: Rank 13: found NaN in local grad norm in backward pass before data-parallel communication collective. Device: 5, node: tern-1", "nan_local",
           {"subject_rank": 13}, "megatron/core/distributed/param_and_grad_buffer.py"),  # fmt: skip
)


def classify(text: str) -> tuple[str, dict[str, Any]] | None:
    """(predicate, fields) of a statement about non-finite values, None if it is not one."""
    if "in local" in text or "Unexpected result" in text or "non-finite" in text:
        for pattern in (_LOCAL, _RERUN, _HOOK):
            if m := pattern.search(text):
                groups = m.groupdict()
                fields: dict[str, Any] = {"subject_rank": int(groups["rank"])}
                if groups.get("step") and int(groups["step"]) >= 0:
                    fields["step"] = int(groups["step"])
                return "nan_local", fields
    if re.search(r"(?:loss|Loss) contains a NaN", text):
        return "nan_local", {}
    if _GLOBAL.search(text):
        step = re.search(r"(?:at )?(?:step|iteration) (\d+)", text)
        return "nan_global", {"step": int(step[1])} if step else {}
    return None


def parse(line: Line, out: Sink) -> bool:
    """Statements in log lines. A step that is skipped is ordinary mixed-precision work."""
    text = line.msg
    if re.search(r"skipping (?:update|step)|[Ss]kipping step|ignoring gradient", text):
        return False
    found = classify(text)
    if found is None or line.level in ("INFO", "DEBUG"):
        return False
    out.event(found[0], line, source=NAME, **found[1])
    return True
