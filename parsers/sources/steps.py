"""Training progress: steps, losses, gradient norms of the common trainers. The most frequent lines of a job."""

from __future__ import annotations

import re

from correlator.parsers.schema import Line, Sample, Sink

NAME = "steps"
ORDER = 90
TOKENS = ("loss", "step", "iteration", "Epoch", "it/s]", "s/it]")
SAMPLES = (Sample("2026-11-30 21:09:28,140 INFO train: step 2/40 loss=5.7122 grad_norm=0.382", "step", {"step": 2, "loss": 5.7122}),)

# cheap: literals with a digit near, no captures
STEP_PATTERN = (
    r"\b(?:step|iteration|iter|global_step|it)[ =:]+\[?\s*\d|'(?:train_)?loss':|\bEpoch\(?\w*\)?:? \[\d+\]\s*\[\s*\d+/|\|\s*\d+/\d+ \[|\b[Ss]tep:? *\d+|\bstep_\d+|^\d+\|\d+\|Loss:|\bloss[=:]\s*\S"
)

_NUMBER = r"[-+]?(?:nan|inf(?:inity)?|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?:\.0)?"
_STEP = re.compile(
    r"(?:\bglobal_step\s*[=:]\s*(?P<g>\d+)|\b(?:[Ss]tep|iteration|iter|it)\b[ =:\[]*\s*(?P<s>\d+)(?:\s*/\s*(?P<st>\d+))?"
    r"|\bEpoch(?:\(\w+\))?:?\s*\[\d+\]\s*\[\s*(?P<e>\d+)/(?P<et>\d+)\]|\|\s*(?P<p>\d+)/(?P<pt>\d+) \[|^\d+\|(?P<t>\d+)\|Loss:)"
)
_LOSS = re.compile(rf"(?i)['\"]?\b(?:(?:train|lm|avr|act|total|reduced_train)[_ ])?(?:loss|ce)['\"]?\s*[=:]?\s*['\"]?(?P<v>{_NUMBER})\b")
_NORM = re.compile(rf"(?i)['\"]?\b(?:grad[_ ]?norm|gnorm)['\"]?\s*[=:]\s*['\"]?(?P<v>{_NUMBER})\b")
_SCALE = re.compile(rf"(?i)['\"]?\bloss[_ ]scale['\"]?\s*[=:]\s*['\"]?(?P<v>{_NUMBER})")
_MS = re.compile(r"elapsed time per iteration \(ms\): ([\d.]+)|step_time=([\d.]+)s|\btime(?:_ms)?[:=]\s*([\d.]+)")
_BAR = re.compile(r"^(.*?\d+%\|[^|]*\|\s*\d+/\d+ \[[^\]]*\](?:,\s*[\w./ ]+=[^\s,\[\]]+)*)(.*)$")


def split_progress(text: str) -> tuple[str, str]:
    """(progress bar, what follows it on the same line); the bar has no newline of its own."""
    if "%|" not in text:
        return "", text
    m = _BAR.match(text)
    return (m[1], m[2]) if m else ("", text)


def _float(m: re.Match[str] | None) -> float | None:
    if m is None:
        return None
    try:
        return float(m["v"].lower().replace("nan.0", "nan").replace("inf.0", "inf"))
    except ValueError:
        return None


def parse(line: Line, out: Sink) -> bool:
    """One step line. A HF dict has no step number: its ordinal in the stream stands for it."""
    text = line.msg
    state = out.state(NAME, line.stream)
    loss, norm = _float(_LOSS.search(text)), _float(_NORM.search(text))
    m = _STEP.search(text)
    total = None
    if m is not None:
        step = int(next(g for g in (m["g"], m["s"], m["e"], m["p"], m["t"]) if g is not None))
        total = next((int(g) for g in (m["st"], m["et"], m["pt"]) if g), None)
        if loss is None and norm is None and not re.search(r"step=|global_step|iteration|%\||\bstep\b.*(?:done|ok|time|ms|tok|lr)|^\W*(?:step|iter)\w*[ :=]+\d", text, re.IGNORECASE):
            return False
    elif "'loss'" in text and text.lstrip().startswith("{"):
        step = state.get("dicts", 0) + 1
        state["dicts"] = step
    else:
        return False
    ms = None
    if t := _MS.search(text):
        ms = float(t[1]) if t[1] else float(t[2] or t[3]) * 1000
    out.step(line, step, loss=loss, grad_norm=norm, loss_scale=_float(_SCALE.search(text)), duration_ms=ms, total=total)
    return True
