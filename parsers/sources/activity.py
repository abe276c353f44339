"""Milestones and long legitimate work: training complete, checkpoints, data exhausted, tokenising, building.

Work is told so that a silent rank can be called busy; milestones tell healthy ends and where to resume.
Wordings: transformers/trainer.py, lightning's trainer, mmengine's checkpoint hook, torchtune, torchtitan, Megatron-LM
checkpointing, torch/utils/cpp_extension.py, datasets' bars, and what scripts print by hand.
"""

from __future__ import annotations

import re

from correlator.parsers.schema import Line, Sample, Sink
from correlator.parsers.sources.progress import find_bar

NAME = "activity"
ORDER = 60
TOKENS = (
    "omplete", "inished", "raining done", "stopped:", "heckpoint", "esum", "xhausted", "an out of", "nd of data", "okeniz", "Map", "xtension", "state dict", "state_dict",
    "is done]", "exiting program", "ompil", "reprocess", "Loading", "loading", "Saving", "saving", "Saved", "saved", "valuat", "train_runtime", "tarting training", "Running training", "train loop",
)  # fmt: skip

_DONE = re.compile(
    r"(?i)^\W*(?:\[?rank \d+\]\W*)?(?:\[after \w+ is done\]|(?:the )?training (?:is |has |run )?(?:complete|completed|finished|done|ended)\b|finished training|done training)"
    r"|\bTraining completed\. Do not forget|`?Trainer\.fit`? stopped: `?max_(?:steps|epochs|time)|['\"]train_runtime['\"]:|^Training finished|['\"](?:event|msg|message)['\"]: ?['\"]training (?:complete|completed|finished|done|ended)\b|^\W*training completed? in\b"
    r"|^\W*\[?exiting program (?:after [\d.]+ minutes|at iteration \d+)|- INFO - Training completed$"
)
_STARTED = re.compile(
    r"(?i)\bstarting training(?: at step (?P<a>\d+))?|\*{3,} running training|^\W*(?:start(?:ing)? (?:the )?train(?:ing)? loop|training starts? at step (?P<b>\d+))"
)
_SAVED = re.compile(
    r"(?i)\b(?:successfully )?saved (?:\w+[ -]){0,3}(?:checkpoint|state)\b|\bcheckpoint (?:\S+ )?(?:is ready now|(?:was |has been |is )?(?:successfully )?saved|written)\b"
    r"|model (?:weights|checkpoint)\b.{0,40}\bsaved (?:in|to|at)|saved (?:to|at) \S*(?:ckpt|checkpoint)|finished saving the checkpoint"
)
_RESUMED = re.compile(
    r"(?i)\b(?:resum(?:ed|ing) (?:training )?from|successfully loaded checkpoint from|continuing training from (?:checkpoint|global step)|restored (?:all states )?from (?:the )?checkpoint)\b"
)
_EXHAUSTED = re.compile(
    r"(?i)\b(?:data(?:set|loader| ?iterator)?|(?:train(?:ing)? )?(?:loader|iterator|stream|shards?))\b (?:is |was |has been )?exhausted\b"
    r"|\b(?:ran|running|run) out of (?:training )?(?:data|batches|samples)\b|\bno more (?:data|batches|training samples)\b"
)
_COUNT = re.compile(r"(?i)\b(?:after|at) (?:step )?(\d+)(?: (?:steps|batches|iterations))?|\bstep[ =](\d+)")
_WORK = (
    ("saving a checkpoint", re.compile(r"(?i)\bsav(?:ing|e) (?:\w+[ -]){0,4}(?:checkpoint|state|weights)|saving (?:to|model)\b|is about to be saved|(?:getting|gathering|retrieving) (?:\w+ ){0,3}state[ _]dict|writing (?:\w+ )?checkpoint")),
    ("loading a checkpoint", re.compile(r"(?i)\bload(?:ing|s)? (?:\w+[ -]){0,3}(?:checkpoint|state|weights|shards)|loading model from")),
    ("preparing data", re.compile(r"(?i)\btokeniz(?:ing|er on)|^map(?: \(num_proc=\d+\))?:|\bpreprocess(?:ing)?\b(?! done| finished| took)|grouping texts|generating \w+ split|building (?:\w+ ){0,3}(?:dataset|index|cache)|loading (?:\w+ )?dataset|converting format of dataset")),
    ("building an extension", re.compile(r"PyTorch extensions root|Building extension module|Detected CUDA files, patching ldflags|Emitting ninja build file|Loading extension module")),
    ("compiling", re.compile(r"(?i)\bcompiling\b|torch\.compile|capturing (?:cuda|hip) graph|autotun(?:e|ing)")),
    ("evaluation", re.compile(r"(?i)\*{3,} running (?:evaluation|prediction)|\b(?:running|starting|start(?:ed)?|begin) (?:the )?(?:evaluation|validation)|^evaluating\b")),
)  # fmt: skip
_STEP = re.compile(r"(?i)\b(?:global_?step|step|iteration|iter|checkpoint)s?[ _=-]*(\d+)")
_PATH = re.compile(r"(?:\b(?:to|at|in|from|checkpoint)|:) ([\w.~-]*/[\w./+@=~-]+|[\w.-]*(?:checkpoint|ckpt)[\w.-]+)")

SAMPLES = (
    Sample("2026-11-30 20:56:55,101 INFO train: training complete", "finished"),
    Sample("2026-11-30 21:32:06,494 INFO train: dataset exhausted after 8 steps", "left_early", {"step": 8}),
    Sample("[rank 1] train loader exhausted after 117 batches", "left_early", {"step": 117}),
    Sample("2026-12-01 05:12:54,865 - INFO - __main__ - [RANK 1] Training complete", "finished", {}, "accelerate/logging.py, main_process_only=False"),
    Sample("[after training is done] datetime: 2026-03-02 10:31:40 ", "finished", {}, "megatron/training/training.py, print_datetime"),
    Sample("[exiting program after 230.0159624854724 minutes] datetime: 2026-03-02 13:50:10 ", "finished", {}, "megatron/training/training.py, --exit-duration-in-mins"),
    Sample('{"ts": "2026-03-02T10:01:31.000Z", "level": "info", "rank": 1, "event": "training finished", "steps": 16}', "finished"),
    Sample("[titan] 2026-03-02 10:01:31,000 - root - INFO - Training completed", "finished", {}, "torchtitan/train.py"),
    Sample("2026-01-01 10:00:00,000 INFO train: saved checkpoint step20 to /scratch/job/ckpt", "checkpoint_saved", {"step": 20, "path": "/scratch/job/ckpt"}),
    Sample("resumed from checkpoint step20 at step 20", "resumed", {"step": 20}),
    Sample("Using /root/.cache/torch_extensions/py311_cu117 as PyTorch extensions root...", "activity", {"activity": "building an extension"}, "torch/utils/cpp_extension.py"),
    Sample("INFO:tune.utils._logging:Saving checkpoint. This may take some time. Retrieving full model state dict...", "activity", {"activity": "saving a checkpoint"}, "torchtune"),
    Sample("12/19 11:26:41 - mmengine - INFO - Saving checkpoint at 14 epochs", "activity", {"activity": "saving a checkpoint"}, "mmengine/hooks/checkpoint_hook.py"),
)  # fmt: skip


def parse(line: Line, out: Sink) -> bool:
    """One milestone. Errors, tracebacks and long sentences about what could happen are no milestones."""
    text = line.msg
    if line.level in ("ERROR", "FATAL") or len(text) > 500 or text.startswith(("    ", "  File ")) or "rror" in text or "ailed" in text or "SIG" in text:
        return False
    if "<" in text and find_bar(text) is not None:  # told by `steps`
        return False
    if _EXHAUSTED.search(text):
        m = _COUNT.search(text)
        out.event("left_early", line, source=NAME, step=int(m[1] or m[2]) if m else None)
        return True
    if _DONE.search(text):
        out.event("finished", line, source=NAME, step=_step(text))
        return True
    if _SAVED.search(text):
        path = _PATH.search(text)
        out.event("checkpoint_saved", line, source=NAME, step=_step(text), path=path[1].rstrip(".") if path else None)
        return True
    if _RESUMED.search(text):
        path = _PATH.search(text)
        out.event("resumed", line, source=NAME, step=_step(text), path=path[1].rstrip(".") if path else None)
        return True
    for activity, pattern in _WORK:
        if pattern.search(text):
            out.event("activity", line, source=NAME, activity=activity, step=_step(text))
            return True
    if m := _STARTED.search(text):
        step = m["a"] or m["b"]
        out.event("started", line, source=NAME, step=int(step) if step else None)
        return True
    return False


def _step(text: str) -> int | None:
    """Last step named in a text ("resumed from checkpoint step20 at step 20")."""
    numbers = _STEP.findall(text)
    return int(numbers[-1]) if numbers and len(numbers[-1]) < 12 else None
