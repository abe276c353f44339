"""Non-finite values in words: who had them before any reduction, and who only saw the result.

A statement made before the reduction names the contributor (Megatron's local checks and rerun machine, Composer's
NaNMonitor, gradient hooks); one about a norm or an averaged loss names nobody, because one bad rank makes it bad on
all. These statements are mostly exception texts: `python_traceback` asks ``classify``.
Sources: megatron/core/distributed/param_and_grad_buffer.py, megatron/core/rerun_state_machine.py,
composer/callbacks/nan_monitor.py, torch/nn/utils/clip_grad.py, verl's actor, fairseq's trainer and nan_detector.
"""

from __future__ import annotations

import re
from typing import Any

from correlator.parsers.schema import Line, Sample, Sink

NAME = "numeric"
ORDER = 40
TOKENS = (
    "found NaN", "found Inf", "found inf", "Unexpected result", "non-finite", "Non-finite", "nonfinite", "norm is", "is NaN", "is nan", "is inf",
    "returned NaN", "contains a NaN", "nan values in its", "not finite", "NaN detected", "nan detected", "NaN in", "nan in", "skipping",
)  # fmt: skip

_BAD = r"(?:nan|inf(?:inity)?|non-?finite|not finite)"
# old Megatron: Rank 3: found NaN in local forward loss calculation. Device: 3, node: host-a
_MEGATRON = re.compile(
    r"[Rr]ank (?P<rank>\d+)(?:, node (?P<node>[^,\s]+))?(?:, device (?P<device>\w+))?(?:, iteration (?P<step>-?\d+))?:? "
    rf"(?:Unexpected result {_BAD} .{{0,40}})?found (?:NaN|Inf|nan|inf|unexpected \w+) in local(?P<tail>.*)", re.IGNORECASE,
)  # fmt: skip
_RERUN = re.compile(rf"Unexpected result {_BAD} on rank (?P<rank>\d+) at iteration #(?P<step>\d+)", re.IGNORECASE)
_DEVICE = re.compile(r"Device: (?P<device>\w+), node: (?P<node>[\w.-]+)")
# hooks and hand-written checks: "rank 3 step 10: non-finite grad in layer.1", "[rank 3] local loss is nan at step 7"
_HOOK = re.compile(
    r"\brank[ =:]*(?P<rank>\d+)\]?[:,]?(?: (?:at )?(?:step|iteration)[ =#]*(?P<step>\d+))?[^\n]{0,60}?"
    rf"(?:{_BAD}[^\n]{{0,20}} (?:local |param(?:eter)? )?(?:grad(?:ient)?s?\b(?! ?_?norm)|loss|activation|output)"
    rf"|\blocal (?:grad(?:ient)?(?:[ _]norm)?|loss) (?:is|became|=|:|has) ?{_BAD})",
    re.IGNORECASE,
)
_MONITOR = re.compile(r"\b[Tt]rain(?:ing)? loss contains a NaN")
_ANOMALY = re.compile(r"Function '\w+' returned nan values in its \d+th output")  # torch.autograd.detect_anomaly
_DETECTOR = re.compile(r"NaN detected in (?:output|input) of [\w.]+, shape", re.IGNORECASE)
_GLOBAL = re.compile(
    rf"(?:\bgrad(?:ient)?s?[ _]norm|\bnorm of (?:the )?grad\w*|\btotal[ _]norm)\b[^\n]{{0,20}}? (?:is|became|=|was) ?{_BAD}"
    rf"|gradient norm is {_BAD}|clipping returned {_BAD}|{_BAD} (?:global )?(?:grad(?:ient)?s?[ _]norm|total norm)"
    r"|total norm of order [\d.]+ for gradients from"
    rf"|\bloss (?:is|became|went to|has become|:|=) ?{_BAD}\b|\bloss is not finite|{_BAD} (?:\w+ )?loss\b|{_BAD} (?:detected|found) in (?:the )?(?:loss|grad)"
    rf"|[Mm]onitored metric \S+ = {_BAD} is not finite"
    rf"|{_BAD} grad(?:ient)?s? (?:detected|found|at step|in)",
    re.IGNORECASE,
)
_STEP = re.compile(r"\b(?:step|iteration|iter|batch)[ =#:]*(\d+)")
_SKIPS = re.compile(r"[Ss]kipping (?:this |the )?(?:update|step|batch|optimi[sz]er)|[Ss]kipped (?:update|step)|ignoring gradient|reducing (?:loss )?scale")
_QUOTED = re.compile(r"\s+(?:\w+\.)*[A-Z]\w*(?:Error|Exception): ")

SAMPLES = (
    Sample("AssertionError: Rank 13: found NaN in local grad norm in backward pass before data-parallel communication collective. Device: 5, node: tern-1",
           "nan_local", {"subject_rank": 13, "node": "tern-1"}, "megatron/core/distributed/param_and_grad_buffer.py, core <= 0.9"),
    Sample("RuntimeError: Rank 3, node host-a, device 3, iteration 101: Unexpected result nan (message='found NaN in local forward loss calculation')",
           "nan_local", {"subject_rank": 3, "step": 101}, "megatron/core/rerun_state_machine.py"),
    Sample("ERROR rank 3 step 10: non-finite grad in layers.4.weight", "nan_local", {"subject_rank": 3, "step": 10}, "a tensor hook"),
    Sample("AssertionError: global grad norm is inf at step 9", "nan_global", {"step": 9}, "a training script"),
    Sample("[2024-05-01 12:34:56,789] [WARNING] [train.py:9:train] [Rank 0] step 9: overflow: gradient norm is nan, skipping update", "warned",
           {"step": 9, "signature": "overflow"}, "a training script"),
)  # fmt: skip


def classify(text: str) -> tuple[str, dict[str, Any]] | None:
    """(predicate, fields) of a statement about non-finite values, None if it is none.

    ``nan_local`` has subject_rank (the rank that the text names), step, node, device where printed.
    """
    for pattern in (_MEGATRON, _RERUN, _HOOK):
        if m := pattern.search(text):
            if pattern is _HOOK and re.search(r"grad_norm|global|total norm", m[0]):
                break  # "rank 3 grad_norm is not finite": the printer's view of the reduced norm
            groups = m.groupdict()
            fields: dict[str, Any] = {"subject_rank": int(groups["rank"])}
            where = _DEVICE.search(text)
            for key in ("node", "device"):
                if value := groups.get(key) or (where[key] if where else None):
                    fields[key] = value
            step = groups.get("step") or ((s := _STEP.search(text, m.end())) and s[1])
            if step and int(step) >= 0:  # Megatron prints -1 when it does not know
                fields["step"] = int(step)
            return "nan_local", fields
    if _MONITOR.search(text) or _DETECTOR.search(text) or _ANOMALY.search(text):
        return "nan_local", {}
    if _GLOBAL.search(text):
        m = _STEP.search(text)
        return "nan_global", {"step": int(m[1])} if m else {}
    return None


def parse(line: Line, out: Sink) -> bool:
    """Statements on ordinary log lines. A step that is skipped is a warning: mixed precision does that all the time."""
    text = line.msg
    if _SKIPS.search(text):
        if "overflow" in text.lower() or classify(text) is not None:
            m = _STEP.search(text)
            out.event("warned", line, source=NAME, step=int(m[1]) if m else None, signature="overflow")
            return True
        return False
    if line.text.startswith(("    ", "\t")) or _QUOTED.match(line.text):  # source of a traceback; an agent's report
        return False
    found = classify(text)
    if found is None:
        return False
    predicate, fields = found
    out.event(predicate, line, source=NAME, **fields)
    return True
