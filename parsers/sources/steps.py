"""Ordinary training progress: step number, loss, gradient norm. The most frequent lines of a job.

Trainers print in two dozen layouts (Hugging Face dicts, Megatron, DeepSpeed, NeMo, Lightning, mmengine, torchtune,
torchtitan, Composer, fairseq, nanoGPT, torchvision, hand-written ``key=value``). They share their words, so
one pattern finds the step and one each finds loss, norm, scale and duration. Layouts: the trainers' own
logging code; the printed values are ``nan``, ``NaN``, ``NAN``, ``'nan'``, ``nan.0``, ``inf``, ``Infinity``.

Whether a printed loss is local or averaged over the ranks cannot be told from the line, so nothing is said about it.
``parse`` is called for lines that match ``STEP_PATTERN`` only. It never owns a line.
"""

from __future__ import annotations

import re

from correlator.parsers.schema import Line, Sample, Sink
from correlator.parsers.sources.progress import Bar, find_bar, report_work, split_progress

__all__ = ["NAME", "ORDER", "SAMPLES", "STEP_PATTERN", "TOKENS", "parse", "split_progress"]

NAME = "steps"
ORDER = 90
TOKENS = ("loss", "step", "iteration", "Epoch", "it/s]", "s/it]")

# Finds step lines in the raw text (prefixes and colours still on it). Rust regex: no look-around. It must not match
# sentences such as "saved checkpoint at step 40": lines it matches are thinned in large logs.
_STEP_SHAPES = (
    # "step 12/40", "iteration 10/ 500 |", "[rank 3] step 7 ok", "train, step 640, ce 3.07", "Epoch 1 step 5 loss"
    (
        r"(?:^\s*|[^\w\s]\s*|\dm|\d\s+|[A-Z]{4}\s+|(?:eval|train|val|[Gg]lobal|total)[ _/])(?:[Ss]teps?|[Ii]ter(?:ation)?|it|batch)[ :=#]{1,3}\[?\s*\d+"
        r"(?:\s*/\s*\d|\s*[,|\]]|\s*$|\s+\w+$|\s*\x1b|:?\s+[\w./ -]*[\w)]\s*[=:]?\s*'?(?:[\d.(]|[Nn][Aa][Nn]\b|[Ii][Nn][Ff]\b)|\s+- )"
    ),
    r"(?:loss|LOSS).*\b(?:[Ss]tep|iter(?:ation)?)[ =:]{1,2}\d",  # the loss before the step
    r"global_step[=:]\s*\d|\bstep=\d|\"(?:num_updates|current_steps|global_step|step)\":\s*\"?\d",
    r"['\"](?:train/)?loss['\"]:",  # HF dict, which has no step number
    r"\d/(?:\d+|\?) \[\d[\d:]*<",  # tqdm
    r"\bEpoch(?:\(\w+\))?:?\s*\[?\d+(?:/\d+)?\]?,?\s*\[\s*\d+/\d+",  # mmengine, torchvision, ImageNet
    r"^\s*\d+\|\d+\|Loss:|\[batch=\d+|\bloss/train/total:",  # torchtune, Composer
)
STEP_PATTERN = "|".join(_STEP_SHAPES)

_NUM = r"(?P<v>[-+]?(?:\d+(?:,\d{3})*(?:\.\d*)?(?:[eE][-+]?\d+)?|[Nn][Aa][Nn](?:\.0)?|[Ii][Nn][Ff](?:inity)?(?:\.0)?))(?![\w%])"
_SEP = r"['\"]?\)?\s*[:=]?\s*(?:tensor\()?['\"]?"
# a job-wide counter is better than the position inside an epoch or a slice
_GLOBAL = re.compile(r"(?:[Gg]lobal[_ ]step|[Tt]otal[_ ]step|num_updates|current_steps)" + r"['\"]?\s*[:=]?\s*['\"]?(\d+)(?:\s*/\s*(\d+))?")
_STEP_FIRST = re.compile(r"\W*(?:[Ss]tep|[Ii]teration|iter)['\"]?[\s:=#]*\[?\s*(\d+)(?:\s*/\s*(\d+))?")  # the usual place, found without a search
_STEP = re.compile(r"(?<![A-Za-z_])(?:[Ss]teps?|[Ii]ter(?:ation)?|it|[Bb]atch)['\"]?[\s:=#]*\[?\s*(\d+)(?:\s*/\s*(\d+))?")
_EPOCH = re.compile(r"(?<![A-Za-z_])[Ee]p(?:och)?['\"]?\s*[:=]?\s*\[?(\d+)(?![\d.])")
_EPOCH_POSITION = re.compile(r"Epoch(?:\((?P<mode>\w+)\))?:?\s*\[?(?P<e>\d+)(?:/\d+)?\]?,?\s*\[\s*(?P<n>\d+)/(?P<t>\d+)")
_TORCHTUNE = re.compile(r"\s*\d+\|(\d+)\|Loss:")
# Patterns begin with a literal, so that a search skips to it.
_LOSS = re.compile(r"oss(?![ _-]?[Ss]cal)[\w/.]*" + _SEP + _NUM)
_LOSS_UPPER = re.compile(r"LOSS" + _SEP + _NUM)
_CROSS_ENTROPY = re.compile(r"\b(?:ce|nll)" + _SEP + _NUM)
_NORM = re.compile(r"norm" + _SEP + _NUM)
_NORM_OF_GRADIENT = (
    "grad_",
    "grad ",
    "grad-",
    "grad/",
    " g",
    "'g",
    '"g',
    "gradient ",
    "gradient_",
    "grads_",
    "grads ",
    "global_",
    "global ",
    "total_",
)
_SCALE = re.compile(r"scale" + _SEP + _NUM)
_SKIPPED = re.compile(r"skipped(?: iterations)?[=:]\s*(\d+)")
_MS_ITERATION = re.compile(r"per iteration \(ms\): ([\d.]+)")
_STEP_TIME = re.compile(r"_time=?[: ]*([\d.]+)(?! ?ms)")
_SECONDS = re.compile(r"iter time \(s\): ([\d.]+)|train_step_timing in s['\"]?[=: ]+([\d.]+)|\btime[:=] ?([\d.]+)s?(?=[\s,]|$)")
_MS_BARE = re.compile(r" ([\d.]+)ms\b")
_RANK = re.compile(r"(?:^|[^\w\s]\s*|\[user )[Rr]ank[ :=]*(\d+)(?=[\s\]),/|])")
_DICT_EPOCH = re.compile(r"['\"]epoch['\"]: ['\"]?([\d.]+)")

SAMPLES = (
    Sample("2026-01-02 21:09:28,140 INFO train: step 2/40 loss=5.7122 grad_norm=0.382", "step", {"step": 2, "loss": 5.7122, "total": 40}),
    Sample(
        " [2024-05-01 12:34:56.789012] iteration       10/     500 | consumed samples:          640 | elapsed time per iteration (ms): 512.3 | "
        "learning rate: 1.500000E-04 | global batch size:    64 | loss scale: 1.0 | grad norm: 1.234 | number of skipped iterations:   0 | "
        "number of nan iterations:   0 |",
        "step", {"step": 10, "loss": None, "grad_norm": 1.234, "loss_scale": 1.0, "duration_ms": 512.3},
        "megatron/training/training.py: lm loss is left out when it is nan",
    ),
    Sample("{'loss': 2.3412, 'grad_norm': nan, 'learning_rate': 5e-05, 'epoch': 0.17}", "step", {"step": 1, "loss": 2.3412}, "transformers <= 4.57"),
    Sample("[2024-05-01 12:34:56,789] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=2, lr=[0.001], mom=[(0.9, 0.999)]", "step", {"step": 10, "rank": 0}, "deepspeed/runtime/engine.py"),
    Sample("epoch: 0|step: 40|ppo_ep: 1|act_loss: nan|cri_loss: nan|unsuper_loss: 0.0", "step", {"step": 40}, "DeepSpeedExamples, step 3"),
    Sample("12/19 11:10:23 - mmengine - INFO - Epoch(train) [14][4000/5210]  lr: 1.0e-03  eta: 1 day, 3:01:22  time: 0.1812  loss: 2.1542", "step", {"step": 13 * 5210 + 4000, "loss": 2.1542}, "mmengine/hooks/logger_hook.py"),
)  # fmt: skip


def to_float(text: str) -> float:
    """A printed number; ``nan.0`` is how Lightning's bar shows a NaN."""
    text = text.replace(",", "")
    try:
        return float(text)
    except ValueError:
        return float(text.removesuffix(".0"))


def parse(line: Line, out: Sink) -> bool:
    """Takes the step from one line and returns False, so that every other parser still sees it."""
    text = line.msg
    if "<" in text and (bar := find_bar(text)) is not None:
        _bar(line, text, bar, out)
        return False
    state = out.state(NAME, line.stream)
    brace = text.find("{'") if "{'" in text else text.find('{"')
    if brace >= 0 and "loss" in text and not _counts_globally(text) and (n := _dict_step(text[brace:], state)):
        _emit(line, text[brace:], n, None, state, out)
        return False
    found = _position(text, state)
    if found is not None:
        _emit(line, text, found[0], found[1], state, out)
    elif "loss/train/total" in text and "last" in state:  # Composer prints the values below the position
        _emit(line, text, state["last"], None, state, out)
    return False


def _position(text: str, state: dict[str, int]) -> tuple[int, int | None] | None:
    """(step, total) of a line, None if it names no step."""
    if _counts_globally(text) and (m := _GLOBAL.search(text)):
        return int(m[1]), int(m[2]) if m[2] else None
    if "Epoch" in text and (m := _EPOCH_POSITION.search(text)):
        if m["mode"] not in (None, "train"):
            return None
        first = 1 if m["mode"] else 0  # mmengine counts epochs from 1
        return max(0, int(m["e"]) - first) * int(m["t"]) + int(m["n"]), None
    if "|Loss:" in text and (m := _TORCHTUNE.match(text)):
        return int(m[1]), None
    m = _STEP_FIRST.match(text) or _STEP.search(text)
    if m is None:
        return None
    step, total = int(m[1]), int(m[2]) if m[2] else None
    if "poch" in text and (e := _EPOCH.search(text)):
        whole = _continue_over_epochs(int(e[1]), step, total, state)
        return whole, total if whole == step else None
    return step, total


def _counts_globally(text: str) -> bool:
    return "lobal_step" in text or "lobal step" in text or "otal step" in text or "otal_step" in text or "num_updates" in text or "current_steps" in text


def _continue_over_epochs(epoch: int, step: int, total: int | None, state: dict[str, int]) -> int:
    """A position that starts anew in each epoch is made to go on: it must not fall while the epoch rises."""
    before, base = state.get("epoch", epoch), state.get("base", 0)
    if epoch > before and step < state.get("in_epoch", -1):
        base += total or state["in_epoch"] + 1
    elif epoch < before:
        base = 0  # a new attempt in the same file
    state.update(epoch=epoch, in_epoch=step, base=base)
    return base + step


def _dict_step(text: str, state: dict[str, float]) -> int | None:
    """Step of a Hugging Face log dict: the progress bar before it, else its ordinal in the stream."""
    if m := _STEP.search(text):
        return int(m[1])
    if not _LOSS.search(text) or "eval_loss" in text or "train_loss" in text:
        return None
    if m := _DICT_EPOCH.search(text):
        epoch = float(m[1])
        if epoch < state.get("dict_epoch", 0.0):
            state.pop("dict", None)  # a new attempt
            state.pop("bar", None)
        state["dict_epoch"] = epoch
    n = max(int(state.get("bar", 0)), int(state.get("dict", 0)) + 1)
    state["dict"] = n
    return n


def _bar(line: Line, text: str, bar: Bar, out: Sink) -> None:
    """A progress bar: a step if it is the training bar, else named work (tokenising, loading, evaluation)."""
    state = out.state(NAME, line.stream)
    if bar.work is not None:
        report_work(line, bar, out)
        return
    has_loss = "oss" in text
    total = bar.total or 0
    if not has_loss and total < state.get("bar_total", 0) // 2:
        return  # a small bar beside the training bar: shards, pipeline parts, the outer loop over epochs
    state["bar_total"] = max(total, state.get("bar_total", 0))
    step = bar.n
    if "poch" in bar.title and (e := _EPOCH.search(bar.title)) and total:
        step += int(e[1]) * total
        total = 0  # one epoch's total says nothing of the job's
    state["bar"] = step
    rest = text[bar.end :]
    if rest.lstrip().startswith("{") and (n := _dict_step(rest, state)):
        _emit(line, rest, n, None, state, out)
        return
    if m := _TORCHTUNE.match(text):
        step = int(m[1])
    _emit(line, text, step, total or None, state, out, duration_ms=bar.ms_each)


def _emit(
    line: Line,
    text: str,
    step: int,
    total: int | None,
    state: dict[str, int],
    out: Sink,
    duration_ms: float | None = None,
) -> None:
    loss = norm = scale = skipped = rank = None
    if "oss" in text or "OSS" in text:
        losses = [to_float(m["v"]) for m in _LOSS.finditer(text)] or [to_float(m["v"]) for m in _LOSS_UPPER.finditer(text)]
        if losses:  # of several losses a non-finite one tells most
            loss = next((v for v in losses if v - v != 0.0), losses[0])
    elif m := _CROSS_ENTROPY.search(text):
        loss = to_float(m["v"])
    if "norm" in text:
        for m in _NORM.finditer(text):
            if text[: m.start()].endswith(_NORM_OF_GRADIENT) or text.startswith("gnorm"):
                norm = to_float(m["v"])
                break
    if "scale" in text and (m := _SCALE.search(text)):
        scale = to_float(m["v"])
    if "skipped" in text and (m := _SKIPPED.search(text)):
        count = int(m[1])
        # Megatron counts since its last line, DeepSpeed since the start
        skipped = count > 0 if "iterations" in m[0] else count > state.get("skipped", 0)
        state["skipped"] = count
    if duration_ms is None:
        duration_ms = _duration(text)
    if line.rank is None and (at := line.text.find("ank")) >= 0 and (m := _RANK.search(line.text, max(0, at - 8), at + 20)):
        rank = int(m[1])
    state["last"] = step
    out.step(
        line,
        step,
        loss=loss,
        grad_norm=norm,
        loss_scale=scale,
        skipped=skipped,
        duration_ms=duration_ms,
        total=total,
        rank=rank,
    )


def _duration(text: str) -> float | None:
    """Milliseconds that the step took, as printed."""
    if "(ms)" in text and (m := _MS_ITERATION.search(text)):
        value, unit = m[1], 1.0
    elif ("step_time" in text or "iter_time" in text) and (m := _STEP_TIME.search(text, text.find("_time") - 5)):
        value, unit = m[1], 1000.0
    elif ("time" in text or "timing" in text) and (m := _SECONDS.search(text)):
        value, unit = next(g for g in m.groups() if g), 1000.0
    elif "ms" in text and (m := _MS_BARE.search(text)):
        value, unit = m[1], 1.0
    else:
        return None
    try:
        return float(value) * unit
    except ValueError:
        return None
