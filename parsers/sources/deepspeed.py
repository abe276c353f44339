"""DeepSpeed's engine: version, effective configuration, loss scale, checkpoints, host memory, disagreements.

Most lines come from rank 0 through ``log_dist``; since 0.17.6 they are hidden unless ``log_level`` is info. OVERFLOW is
rank 0's report of a flag that all ranks share: the number in it is the printer, never the offender, and the skipped step
is ordinary mixed-precision work. Sources: deepspeed/runtime/engine.py, config.py, fp16/loss_scaler.py,
zero/stage3.py, zero/utils.py, checkpoint_engine/, utils/memory.
"""

from __future__ import annotations

import json
import re
from typing import Any

from correlator.parsers.schema import Line, Sample, Sink
from correlator.parsers.sources.ds_values import flatten, pairs, user_key

NAME = "deepspeed"
ORDER = 35
TOKENS = (
    "DeepSpeed", "deepspeed", "deepscale", "OVERFLOW", "Overflow detected", "rad overflow", "dynamic loss scale", "[config.py:", "zero_config", "ZeRO stage",
    "CPU Virtual Memory", "disagreement between", "find latest file", "cdb=", "[Torch]", "model checkpoint", "state_dicts for rank", "partition checkpoints for rank",
    "zero checkpoints from", "checkpoint tag name", " STAGE=", "Failed saving model checkpoint", "vm %:",
)  # fmt: skip

_VERSION = re.compile(r"DeepSpeed info: version=([^\s,]+)")
_STAGE = re.compile(r"Creating (?:torch\.)?(\w+) ZeRO stage (\d) optimizer")
_ENTRY = re.compile(r"^ {1,3}(?P<key>[A-Za-z_][\w.]*) \.*\s?(?P<value>\S.*)$")
_DUMP = re.compile(r"config\.py:\d+:print|print_configuration")
_JSON = re.compile(r"^\s*json = (\{.*)$")
_OVERFLOW = re.compile(
    r"OVERFLOW! (?:Rank (?P<rank>-?\d+) )?Skipping step\.|(?:\[Rank \d+\] )?Overflow detected\. Skipping step|fp16 dynamic loss scale overflow! |"
    r"[^o]Grad overflow on iteration[: ]+(?P<it>\d+)|^Grad overflow on iteration[: ]+(?P<it2>\d+)"
)
_SCALE = re.compile(r"Attempted loss scale: (?P<a>[\d.]+(?:e[+-]?\d+)?)(?:, reducing to (?P<b>[\d.]+(?:e[+-]?\d+)?)|, but hysteresis is (?P<h>\d+))?")
_REDUCE = re.compile(r"Reducing dynamic loss scale from (?P<a>[\d.e+]+) to (?P<b>[\d.e+]+)")
_MEMORY = re.compile(r"CPU Virtual Memory:\s+used = (?P<used>[\d.]+) GB, percent = (?P<pct>[\d.]+)%|vm %: (?P<vm>[\d.]+)")
_DISAGREE = re.compile(
    r"(?:Detected a )?disagreement (?:on list (?P<what>length|contents) )?between rank ?(?P<other>\d+) and rank ?(?P<self>\d+):\s*(?P<rest>.*)", re.DOTALL
)  # fmt: skip
_LISTS = re.compile(r"rank ?\d+: (?P<a>\[.*?\]|\d+)(?:[,;]|\s)\s*rank ?\d+: (?P<b>\[.*?\]|\d+)", re.DOTALL)
_INIT = re.compile(r"\bcdb=\S+|Initializing TorchBackend in DeepSpeed with backend (?P<backend>\w+)")
_LOADED = re.compile(
    r"(?:successfully read \d+ ZeRO state_dicts|loading \d+ zero partition checkpoints|loaded universal zero checkpoints from \S+) for rank (?P<rank>\d+)"
)
_SAVED = re.compile(r"\[Torch\] (?:Saved|Checkpoint (?P<tag>\S+) is ready now)")
_SAVING = re.compile(r"\[Torch\] (?:Saving|Checkpoint (?P<tag>\S+) is about to be saved)|Saving model checkpoint: (?P<path>\S+)")
_LATEST = re.compile(r"Unable to find latest file at (?P<path>\S+?),? ")
_TAG = re.compile(r"\[rank=(?P<rank>\d+)\] The checkpoint tag name '(?P<tag>[^']*)' is not consistent")
_PIPE_STAGE = re.compile(r"\bRANK=(?P<rank>\d+) STAGE=(?P<stage>\d+) ")
_STEP = re.compile(r"(?:global_)?step[_ ]?(\d+)")

SAMPLES = (
    Sample("[2024-05-01 12:34:56,789] [INFO] [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 128, reducing to 64",
           "warned", {"signature": "overflow", "scale_from": 128.0, "scale_to": 64.0, "printer": 0}, "deepspeed/runtime/fp16/loss_scaler.py"),
    Sample("[2024-05-01 12:34:56,789] [WARNING] [logging.py:96:log_dist] [Rank 0] [deepspeed] OVERFLOW! Skipping step. Gradients are non-finite, weights were not updated.",
           "warned", {"signature": "overflow"}, "deepspeed 0.19.8"),
    Sample("[2025-09-03 21:45:10,203] [INFO] [utils.py:789:see_memory_usage] CPU Virtual Memory:  used = 41.2 GB, percent = 10.9%", "host_memory_pct",
           {"percent": 10.9, "used_gb": 41.2}, "deepspeed/runtime/utils.py"),
    Sample("disagreement between rank0 and rank1: rank0: [1, 2, -1], rank1: [1, 2, 3]", "mismatch",
           {"self_rank": 1, "self": "[1, 2, 3]", "other_rank": 0, "other": "[1, 2, -1]"}, "deepspeed/runtime/zero/utils.py <= 0.17.5"),
    Sample("[2024-05-01 12:34:56,789] [WARNING] [engine.py:4437:load_checkpoint] Unable to find latest file at /ck/latest, if trying to load latest checkpoint please ensure this file exists",
           "warned", {"signature": "checkpoint-latest-missing", "path": "/ck/latest"}, "deepspeed/runtime/engine.py"),
    Sample("[2024-05-01 12:34:56,789] [INFO] [engine.py:4770:_load_zero_checkpoint] loading 2 zero partition checkpoints for rank 1", "identity", {"global_rank": 1}, "deepspeed/runtime/engine.py"),
    Sample("[2024-05-01 12:34:56,789] [INFO] [logging.py:123:log_dist] [Rank 0] [Torch] Checkpoint global_step6 is about to be saved!", "activity",
           {"activity": "saving a checkpoint", "step": 6}, "deepspeed/runtime/checkpoint_engine"),
    Sample("[2024-05-01 12:34:56,789] [INFO] [comm.py:669:init_distributed] cdb=None", "started", {}, "deepspeed/comm/comm.py"),
)  # fmt: skip


def parse(line: Line, out: Sink) -> bool:
    """One line of the engine."""
    text = line.msg
    if m := _OVERFLOW.search(text):
        return _overflow(line, text, m, out)
    if "dynamic loss scale" in text and (m := _REDUCE.search(text)):
        out.event("warned", line, source=NAME, signature="overflow", scale_from=float(m["a"]), scale_to=float(m["b"]))
        return True
    if "disagreement between" in text or "find latest file" in text or "checkpoint tag name" in text:
        return _inconsistent(line, text, out)
    if _config_line(line, text, out):
        return True
    if m := _MEMORY.search(text):
        used = float(m["used"]) if m["used"] else None
        out.event("host_memory_pct", line, source=NAME, percent=float(m["pct"] or m["vm"]), used_gb=used)
        return True
    if m := _LOADED.search(text):
        out.identity(line, NAME, global_rank=int(m["rank"]), how="loads its own checkpoint shard")
        return True
    if m := _SAVED.search(text):
        out.event("checkpoint_saved", line, source=NAME, step=_step(text), path=m["tag"])
        return True
    if m := _SAVING.search(text):
        out.event("activity", line, source=NAME, activity="saving a checkpoint", step=_step(text), path=m["path"])
        return True
    if m := _PIPE_STAGE.search(text):
        out.mapping(line, NAME, global_rank=int(m["rank"]), pipeline_stage=int(m["stage"]))
        return True
    if m := _INIT.search(text):
        out.event("started", line, source=NAME, phase="process group", backend=m["backend"])
        return True
    return False


def disagreement(text: str) -> dict[str, Any] | None:
    """Fields of a ZeRO-3 cross-rank check: every rank that differs from the first one prints it, never that one itself."""
    m = _DISAGREE.search(text)
    if m is None:
        return None
    fields: dict[str, Any] = {
        "statement": f"list {m['what']}" if m["what"] else "list",
        "self_rank": int(m["self"]),
        "other_rank": int(m["other"]),
    }
    if lists := _LISTS.search(m["rest"]):
        fields["other"], fields["self"] = plain_list(lists["a"]), plain_list(lists["b"])
    return fields


def plain_list(text: str) -> str:
    """``[np.int64(3), 4]`` -> ``[3, 4]``: elements print as numpy scalars on some ranks only."""
    return re.sub(r"\w+(?:\.\w+)*\((-?\d+)\)", r"\1", text)


def _overflow(line: Line, text: str, m: re.Match[str], out: Sink) -> bool:
    scale = _SCALE.search(text)
    before = float(scale["a"]) if scale else None
    after = float(scale["b"]) if scale and scale["b"] else before if scale and scale["h"] else None
    iteration = m["it"] or m["it2"]
    out.event(
        "warned", line, source=NAME, signature="overflow", scale_from=before, scale_to=after,
        printer=int(m["rank"]) if m["rank"] else None, scaler_iteration=int(iteration) if iteration else None,
    )  # fmt: skip
    return True


def _inconsistent(line: Line, text: str, out: Sink) -> bool:
    """Statements that one rank differs from others. As exception texts they belong to the traceback's reader."""
    if line.text.startswith(("    ", "  File ")):
        return False
    if fields := disagreement(text):
        out.event("mismatch", line, source=NAME, rank=fields["self_rank"], **fields)
        return True
    if m := _TAG.search(text):
        out.event(
            "mismatch",
            line,
            source=NAME,
            statement="checkpoint tag",
            self_rank=int(m["rank"]),
            self=m["tag"],
            rank=int(m["rank"]),
        )
        return True
    if m := _LATEST.search(text + " "):
        # on some ranks only, this means storage that is not shared: those ranks start from scratch
        out.event("warned", line, source=NAME, signature="checkpoint-latest-missing", path=m["path"])
        return True
    return False


def _config_line(line: Line, text: str, out: Sink) -> bool:
    """Version, optimizer stage, and the dump of the effective configuration (one key a line)."""
    if m := _VERSION.search(text):
        out.config(line, "deepspeed.version", m[1], "log")
        return True
    if m := _STAGE.search(text):
        out.config(line, "zero_optimization.stage", m[2], "log")
        out.config(line, "optimizer_dtype", m[1], "log")
        return True
    if not _DUMP.search(line.origin or "") and "_config ..." not in text:
        return False
    m = _ENTRY.match(text)
    if m is None:
        return False
    for key, value in pairs(user_key(m["key"]), m["value"]):
        out.config(line, key, value, "deepspeed-dump")
    return True


class Block:
    """``json = {`` ... ``}``: the user's own settings, over many lines without a header (`print_user_config`)."""

    @staticmethod
    def opens(line: Line) -> bool:
        return "json = {" in line.msg and _JSON.match(line.msg) is not None

    def __init__(self, line: Line) -> None:
        m = _JSON.match(line.msg)
        self.lines = [(line, m[1] if m else "{")]
        self.depth = self._depth(self.lines[0][1])

    def feed(self, line: Line, out: Sink) -> bool:
        """Takes lines until the braces balance; a line with a header of its own interrupts and is not taken."""
        if self.depth <= 0 or (line.msg != line.text and line.stamp is not None):
            return False
        self.lines.append((line, line.text))
        self.depth += self._depth(line.text)
        return True

    def close(self, out: Sink) -> None:
        """Config rows, each with the line that holds its key; a cut block gives what can be read of it."""
        first = self.lines[0][0]
        text = "\n".join(t for _, t in self.lines)
        try:
            value = json.loads(text)
        except ValueError:
            out.problem(first.no, "config-cut", "the json = { } block of DeepSpeed is incomplete")
            return
        if not isinstance(value, dict):
            return
        for key, item, index in flatten(value, [t for _, t in self.lines]):
            out.config(self.lines[index][0], key, item, "deepspeed-user")

    @staticmethod
    def _depth(text: str) -> int:
        bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
        return bare.count("{") - bare.count("}")


def _step(text: str) -> int | None:
    m = _STEP.search(text)
    return int(m[1]) if m else None
