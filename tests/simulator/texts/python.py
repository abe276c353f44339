"""Uncaught exceptions of a worker: excepthook text, error.json (reference: pytorch.md 1.4, 2.3; frames as in torch's own traces)."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.simulator.cluster import Job, Proc
from tests.simulator.tape import Happening, Line

_SITE = "/opt/conda/lib/python3.11/site-packages"
_WRAP = (f"{_SITE}/torch/distributed/elastic/multiprocessing/errors/__init__.py", 355, "wrapper", "return f(*args, **kwargs)")
_BACKWARD = (
    ("/workspace/train.py", 354, "train", "loss.backward()"),
    (f"{_SITE}/torch/_tensor.py", 581, "backward", "torch.autograd.backward("),
    (f"{_SITE}/torch/autograd/__init__.py", 347, "backward", "_engine_run_backward("),
    (
        f"{_SITE}/torch/autograd/graph.py",
        825,
        "_engine_run_backward",
        "return Variable._execution_engine.run_backward(  # Calls into the C++ engine to run the backward pass",
    ),
)
_LOAD = (
    ("/workspace/train.py", 331, "train", "batch = next(batches)"),
    ("/workspace/data.py", 88, "__next__", "sample = self.decode(raw)"),
    ("/workspace/data.py", 61, "decode", "return self.parse(raw)"),
)
_FORWARD = (
    ("/workspace/train.py", 341, "train", "loss = model(batch)"),
    (f"{_SITE}/torch/nn/modules/module.py", 1751, "_wrapped_call_impl", "return self._call_impl(*args, **kwargs)"),
    ("/workspace/model.py", 212, "forward", "x = self.layers(x)"),
)
_SAVE = (
    ("/workspace/train.py", 377, "train", "save_checkpoint(model, optimizer, step)"),
    ("/workspace/ckpt.py", 44, "save_checkpoint", "torch.save(state, path)"),
    (f"{_SITE}/torch/serialization.py", 963, "save", "_save("),
)
_INIT = (
    ("/workspace/train.py", 241, "setup_distributed", 'dist.init_process_group("gloo", timeout=timeout)'),
    (f"{_SITE}/torch/distributed/c10d_logger.py", 83, "wrapper", "return func(*args, **kwargs)"),
    (f"{_SITE}/torch/distributed/distributed_c10d.py", 1769, "init_process_group", "default_pg, _ = _new_process_group_helper("),
)
_COLLECTIVE = (
    ("/workspace/train.py", 360, "train", "dist.all_reduce(loss)"),
    (f"{_SITE}/torch/distributed/c10d_logger.py", 83, "wrapper", "return func(*args, **kwargs)"),
    (f"{_SITE}/torch/distributed/distributed_c10d.py", 2810, "all_reduce", "work = group.allreduce([tensor], opts)"),
)
_CONFIG = (("/workspace/train.py", 212, "build", "model = build_model(args)"), ("/workspace/model.py", 40, "build_model", "check(args)"))
WHERE = {"backward": _BACKWARD, "load": _LOAD, "forward": _FORWARD, "save": _SAVE, "init": _INIT, "collective": _COLLECTIVE, "config": _CONFIG}


def traceback(job: Job, where: str, last: str) -> list[str]:
    """Lines of an uncaught exception, without prefix."""
    frames = [("/workspace/train.py", 454, "<module>", "record(main)()" if job.record else "main()")]
    if job.record:
        frames.append(_WRAP)
    frames.append(("/workspace/train.py", 445, "main", "build(args)" if where == "config" else "train(args)"))
    frames.extend(WHERE[where])
    out = ["Traceback (most recent call last):"]
    for path, line, function, code in frames:
        out += [f'  File "{path}", line {line}, in {function}', f"    {code}"]
    return [*out, *last.split("\n")]


def uncaught(job: Job, h: Happening) -> Iterator[Line]:
    """From 2.3 on init_process_group replaces the excepthook: every non-empty line begins with ``[rankN]: ``."""
    rank = h.who[1]
    prefix = f"[rank{rank}]: " if job.torch[1] >= 3 and h.data.get("initialised", True) else ""
    lines = traceback(job, h.data["where"], h.data["text"])
    last = len(lines) - len(h.data["text"].split("\n"))
    for i, text in enumerate(lines):
        yield Line(h.t, h.who, prefix + text if text else text, "err", h.data.get("proof", "") if i >= last else "", h.attempt)


def caught(job: Job, h: Happening) -> Iterator[Line]:
    """A handler logs the traceback and goes on: logging.exception prints it without the excepthook's prefix, from the frame that holds the handler on."""
    lines = ["Traceback (most recent call last):"]
    for path, line, function, code in WHERE[h.data["where"]][1:]:
        lines += [f'  File "{path}", line {line}, in {function}', f"    {code}"]
    for text in [*lines, *h.data["text"].split("\n")]:
        yield Line(h.t, h.who, text, "err", "", h.attempt)


def error_file(job: Job, proc: Proc, t: float, where: str, text: str) -> str:
    """What @record writes when an exception leaves main."""
    stack = "\n".join(traceback(job, where, text)[3:]) + "\n"
    return json.dumps(
        {"message": {"message": text, "extraInfo": {"py_callstack": f"Traceback (most recent call last):\n{stack}", "timestamp": str(int(proc.host.clock(t)))}}}
    )


RENDER = {"uncaught": uncaught, "caught": caught}
