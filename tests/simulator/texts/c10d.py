"""ProcessGroupNCCL: watchdog, status, dump signals, asynchronous errors, by release (reference: pytorch.md 3.2 to 3.4)."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulator.cluster import Job, Proc
from tests.simulator.tape import Happening, Line
from tests.simulator.texts.headers import c10

_CPP = "ProcessGroupNCCL.cpp"
#: line numbers in ProcessGroupNCCL.cpp: timeout, status, no stack, some operations, taking down, terminated
_LINES = {1: (475, 0, 0, 489, 495, 916), 4: (607, 1664, 0, 621, 627, 1515), 5: (616, 1785, 0, 630, 636, 1595), 6: (629, 2168, 667, 681, 695, 1895),
          7: (632, 2268, 670, 684, 698, 1902), 8: (685, 2252, 730, 743, 757, 2057), 10: (688, 2415, 736, 750, 764, 2205), 13: (757, 2480, 801, 815, 829, 2261)}  # fmt: skip
_SOME = "Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data."
_DOWN = "To avoid data inconsistency, we are taking the entire process down."
_FRAMES = (
    "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x98 (0x7f3a1c56c1b6 in /opt/conda/lib/python3.11/site-packages/torch/lib/libc10.so)",
    "frame #1: c10d::ProcessGroupNCCL::WorkNCCL::checkTimeout(std::optional<std::chrono::duration<long, std::ratio<1l, 1000l> > >) + 0x282 (0x7f39c9ddc772 in /opt/conda/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so)",
    "frame #2: c10d::ProcessGroupNCCL::watchdogHandler() + 0x233 (0x7f39c9de3bb3 in /opt/conda/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so)",
    "frame #3: c10d::ProcessGroupNCCL::ncclCommWatchdog() + 0x14d (0x7f39c9de561d in /opt/conda/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so)",
    "frame #4: <unknown function> + 0xdbbf4 (0x7f3a2a4dbbf4 in /opt/conda/lib/python3.11/site-packages/torch/lib/../../../.././libstdc++.so.6)",
)
INTERPRETATION = {
    "remote": (
        "remote process exited or there was a network error",
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
    ),
    "cuda": ("unhandled cuda error (run with NCCL_DEBUG=INFO for details)", "ncclUnhandledCudaError: Call to CUDA function failed."),
}


def work(d: dict) -> str:
    return f"WorkNCCL(SeqNum={d['seq']}, OpType={d['op']}, NumelIn={d['numel_in']}, NumelOut={d['numel_out']}, Timeout(ms)={d['timeout_ms']})"


def group_prefix(job: Job, proc: Proc, group: int) -> str:
    """``[PG ..] `` of a process group; the number is the rank inside the group, PG ID the order of creation in this process."""
    g, minor = job.groups[group], job.torch[1]
    mine = g.ranks.index(proc.rank)
    if minor < 3:
        return f"[Rank {mine}] "
    desc = "" if g.desc == "undefined" else f"({g.desc})"
    if minor == 4:
        return f"[PG {g.guid} {desc + ' ' if desc else ''}Rank {mine}] "
    return f"[PG ID {proc.groups.index(group)} PG GUID {g.guid}{desc} Rank {mine}] "


def _ranked(job: Job, proc: Proc, d: dict) -> str:
    return f"[Rank {d['frozen']}] "


def timeout(job: Job, h: Happening) -> Iterator[Line]:
    """A watchdog that saw its own work time out, then what the process prints until it aborts."""
    proc, d, n = job.procs[h.who[1]], h.data, _LINES[job.torch[1]]
    minor, mine, group = job.torch[1], _ranked(job, job.procs[h.who[1]], h.data), group_prefix(job, job.procs[h.who[1]], h.data["group"])
    caught = f"{mine}Watchdog caught collective operation timeout: {work(d)} ran for {d['ran_ms']} milliseconds before timing out."

    def say(line: int, text: str, proof: str = "") -> Line:
        return Line(h.t, h.who, c10(job, proc, h.t, "E", _CPP, line) + text, "err", proof, h.attempt)

    yield say(n[0], caught, f"victim:{proc.rank}")
    if minor in (4, 5):
        yield say(
            n[1],
            f"{group}Exception (either an error or timeout) detected by watchdog at work: {d['seq']}, last enqueued NCCL work: {d['enqueued']}, last completed NCCL work: {d['completed']}.",
        )
        if d.get("dies"):
            yield say(n[1] + 49, f"{group}Timeout at NCCL work: {d['seq']}, last enqueued NCCL work: {d['enqueued']}, last completed NCCL work: {d['completed']}.")
    elif minor >= 6:
        yield say(
            n[1],
            f"{group} failure detected by watchdog at work sequence id: {d['seq']} PG status: last enqueued work: {d['enqueued']}, last completed work: {d['completed']}",
        )
        yield say(
            n[2],
            "Stack trace of the failed collective not found, potentially because FlightRecorder is disabled. You can enable it by setting TORCH_NCCL_TRACE_BUFFER_SIZE to a non-zero value.",
        )


def taken_down(job: Job, h: Happening) -> Iterator[Line]:
    """The end of a process whose watchdog met a timeout or an error: texts, terminate, SIGABRT."""
    proc, d, n = job.procs[h.who[1]], h.data, _LINES[job.torch[1]]
    mine, group = _ranked(job, proc, d), group_prefix(job, proc, d["group"])
    if d.get("error"):
        name, meaning = INTERPRETATION[d["error"]]
        reason = f"NCCL error: {name}, NCCL version {job.nccl_version}\n{meaning}\nLast error:\n{d['last_error']}"
        raised = "checkForNCCLErrorsInternal"
    elif d.get("cuda"):
        reason = f"CUDA error: {d['cuda']}\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
        raised = "c10_cuda_check_implementation"
    else:
        reason = f"{mine}Watchdog caught collective operation timeout: {work(d)} ran for {d['ran_ms']} milliseconds before timing out."
        raised = "checkTimeout"
    own = "" if job.torch[1] < 4 else mine
    lines = []
    head = lambda line: c10(job, proc, h.t, "E", _CPP, line)  # noqa: E731
    if not d.get("cuda"):
        lines += [head(n[3]) + own + _SOME, head(n[4]) + own + _DOWN]
    thread = "NCCL watchdog thread" if job.torch[1] < 3 else "Process group watchdog thread"
    final = f"{group}{thread} terminated with exception: {reason}"
    trace = [f"Exception raised from {raised} at /pytorch/torch/csrc/distributed/c10d/{_CPP}:{n[0] + 3} (most recent call first):", *_FRAMES, ""]
    lines += [*(head(n[5]) + final).split("\n"), *trace]
    if job.torch[1] >= 3:
        lines += ["terminate called after throwing an instance of 'c10::DistBackendError'", *("  what():  " + final).split("\n"), *trace]
    else:
        lines += ["terminate called after throwing an instance of 'std::runtime_error'", *("  what():  " + final).split("\n")]
    proof = d.get("proof") or f"victim:{proc.rank}"
    for text in lines:
        yield Line(h.t, h.who, text, "err", proof if "terminated with exception" in text else "", h.attempt)


def async_error(job: Job, h: Happening) -> Iterator[Line]:
    """The prompt report of a broken connection (2.5 and later at level ERROR; before only at INFO, so nothing)."""
    proc, d = job.procs[h.who[1]], h.data
    if job.torch[1] < 5:
        return
    name, meaning = INTERPRETATION[d["error"]]
    text = f"{_ranked(job, proc, d)}Collective {work(d)} raised the following async exception: NCCL error: {name}, NCCL version {job.nccl_version}\n{meaning}\nLast error:\n{d['last_error']}"
    lines = (c10(job, proc, h.t, "E", _CPP, _LINES[job.torch[1]][0] - 70) + text).split("\n")
    lines += [f"Exception raised from checkForNCCLErrorsInternal at /pytorch/torch/csrc/distributed/c10d/{_CPP}:2363 (most recent call first):", *_FRAMES[:1], ""]
    for i, line in enumerate(lines):
        yield Line(h.t, h.who, line, "err", f"victim:{proc.rank}" if i == 0 else "", h.attempt)


def dump_signal(job: Job, h: Happening) -> Iterator[Line]:
    """The heartbeat monitor of the default group: this process, or another one, detected a timeout (2.7 and later by default)."""
    proc, d = job.procs[h.who[1]], h.data
    group = group_prefix(job, proc, 0)
    head = lambda line: c10(job, proc, h.t, "E", _CPP, line) + group  # noqa: E731
    status = f"Last enqueued NCCL work: {d['enqueued']}, last completed NCCL work: {d['completed']}."
    if d["local"]:
        texts = [f"Received a dump signal due to a collective timeout from this local rank and we will try our best to dump the debug info. {status}"]
    else:
        texts = ["Observed flight recorder dump signal from another rank via TCPStore.",
                 f"Received a dump signal due to a collective timeout from  rank {d['from']} and we will try our best to dump the debug info. {status}"]  # fmt: skip
    texts.append("ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1, only active collectives: 0")
    for i, text in enumerate(texts):
        yield Line(h.t, h.who, head(1484 + 60 * i) + text, "err", f"status:{proc.rank}" if "Last enqueued" in text else "", h.attempt)


RENDER = {"timeout": timeout, "taken_down": taken_down, "async_error": async_error, "dump_signal": dump_signal}
