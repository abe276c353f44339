"""Milestones and long legitimate work: training complete, checkpoints, data exhausted, tokenising, building."""

from __future__ import annotations

import re

from correlator.parsers.schema import Line, Sample, Sink

NAME = "activity"
ORDER = 60
TOKENS = ("omplete", "inished", "checkpoint", "Checkpoint", "resumed", "exhausted", "okeniz", "Map", "extension", "state dict", "ompil", "process", "Loading")

_DONE = re.compile(r"\b[Tt]raining (?:is )?(?:complete|completed|finished|done)\b|\bTraining completed\. Do not forget|Trainer\.fit` stopped: `max_(?:steps|epochs)|^training complete\b")
_SAVED = re.compile(r"(?i)\b(?:saved|successfully saved) (?:\w+ )?checkpoint\b|checkpoint (?:\S+ )?(?:is ready now|saved)\b|Model weights saved|Saved (?:model )?checkpoint")
_RESUMED = re.compile(r"(?i)\bresum(?:ed|ing) (?:training )?from (?:checkpoint|global_step|step)?\s*(\S+)")
_EXHAUSTED = re.compile(r"(?i)\bdata(?:set|loader)? (?:is )?exhausted(?: after (\d+) steps)?|\bran out of (?:data|batches)")
_WORK = (
    (re.compile(r"(?i)\bsaving (?:\w+ )?(?:model |full |optimizer )?(?:checkpoint|state)|[Gg]etting (?:full model|optimizer) state dict|Retrieving (?:optimizer|full model) state|state dict took"), "saving a checkpoint"),
    (re.compile(r"(?i)\btokeniz|Running tokenizer|^Map(?: \(num_proc=\d+\))?:|\bpreprocess(?:ing)? (?:the )?(?:data|train)|Grouping texts|Generating train split"), "preparing data"),
    (re.compile(r"PyTorch extensions root|Building extension module|Detected CUDA files, patching ldflags|Loading extension module"), "building an extension"),
    (re.compile(r"(?i)\bcompiling (?:model|kernels)|torch\.compile"), "compiling"),
    (re.compile(r"(?i)\bloading (?:checkpoint|dataset|model weights|shards)"), "loading"),
)
SAMPLES = (Sample("2026-11-30 20:56:55,101 INFO train: training complete", "finished"),)


def parse(line: Line, out: Sink) -> bool:
    """One milestone line. Warnings and errors are not milestones."""
    if line.level in ("ERROR", "FATAL"):
        return False
    text = line.msg
    if _DONE.search(text):
        out.event("finished", line, source=NAME)
        return True
    if m := _EXHAUSTED.search(text):
        out.event("left_early", line, source=NAME, step=int(m[1]) if m[1] else None)
        return True
    if _SAVED.search(text):
        step = re.search(r"(?:step|iteration|global_step)[ _]?(\d+)", text)
        path = re.search(r"(?:to|at|in) (/\S+)", text)
        out.event("checkpoint_saved", line, source=NAME, step=int(step[1]) if step else None, path=path[1] if path else None)
        return True
    if m := _RESUMED.search(text):
        step = re.search(r"(\d+)", text[m.start() :])
        out.event("resumed", line, source=NAME, step=int(step[1]) if step else None)
        return True
    for pattern, what in _WORK:
        if pattern.search(text):
            out.event("activity", line, source=NAME, activity=what)
            return True
    return False
