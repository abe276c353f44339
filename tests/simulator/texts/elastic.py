"""torchrun's agent: signals, the failed worker, the ChildFailedError table, outside signals (reference: pytorch.md 2.1, 2.2)."""

from __future__ import annotations

import signal
from collections.abc import Iterator

from tests.simulator.cluster import Job
from tests.simulator.tape import Happening, Line
from tests.simulator.texts.headers import python

_API, _SERVER = "torch/distributed/elastic/multiprocessing/api.py", "torch/distributed/elastic/agent/server/api.py"
_SITE = "/opt/conda/lib/python3.11/site-packages"


def _agent(job: Job, h: Happening) -> tuple:
    host = job.hosts[h.who[1]]
    return host, job.agent_pids[host.index]


def _plain(h: Happening, lines: list[str], proof: str = "") -> Iterator[Line]:
    for text in lines:
        yield Line(h.t, h.who, text, "err", proof if text else "", h.attempt)


def sends_signal(job: Job, h: Happening) -> Iterator[Line]:
    host, pid = _agent(job, h)
    if h.data.get("hard"):
        text = f"Unable to shutdown process {h.data['pid']} via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL"
    else:
        text = f"Sending process {h.data['pid']} closing signal {h.data.get('signal', 'SIGTERM')}"
    yield from _plain(h, [python(job, host, pid, h.t, "W", _API, 897) + text])


def failed(job: Job, h: Happening) -> Iterator[Line]:
    """One worker, the earliest that the agent saw."""
    host, pid = _agent(job, h)
    d = h.data
    yield from _plain(
        h,
        [python(job, host, pid, h.t, "E", _API, 869) + f"failed (exitcode: {d['code']}) local_rank: {d['local']} (pid: {d['pid']}) of binary: /opt/conda/bin/python3.11"],
        f"exit:{d['rank']}",
    )


def table(job: Job, h: Happening) -> Iterator[Line]:
    """The ChildFailedError block. Workers that the agent stopped are listed from 2.10 on, signal names from 2.12 on."""
    trace = [
        "Traceback (most recent call last):", '  File "/opt/conda/bin/torchrun", line 8, in <module>', "    sys.exit(main())",
        f'  File "{_SITE}/torch/distributed/elastic/multiprocessing/errors/__init__.py", line 355, in wrapper', "    return f(*args, **kwargs)",
        f'  File "{_SITE}/torch/distributed/run.py", line 919, in main', "    run(args)", f'  File "{_SITE}/torch/distributed/launcher/api.py", line 264, in launch_agent',
        "    raise ChildFailedError(", "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", "=" * 60, "/workspace/train.py FAILED", "-" * 60, "Failures:",
    ]  # fmt: skip
    yield from _plain(h, trace)
    root, others = h.data["root"], h.data["others"]
    for i, entry in enumerate(others):
        yield from _plain(h, _entry(job, h, i + 1, entry), f"exit:{entry['rank']}")
    if not others:
        yield from _plain(h, ["  <NO_OTHER_FAILURES>"])
    yield from _plain(h, ["-" * 60, "Root Cause (first observed failure):"])
    yield from _plain(h, _entry(job, h, 0, root), f"exit:{root['rank']}")
    yield from _plain(h, ["=" * 60])


def _entry(job: Job, h: Happening, i: int, e: dict) -> list[str]:
    host = job.hosts[h.who[1]]
    name = signal.Signals(-e["code"]).name if e["code"] < 0 else ""
    shown = f"  ({name})" if name and job.torch[1] >= 12 else ""
    text = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
    body = [text]
    if e.get("traceback"):
        body = [e["traceback"][0], *("  " + line for line in e["traceback"][1:]), "  "]
    elif e["code"] < 0:
        body = [f"Signal {-e['code']} ({name}) received by PID {e['pid']}"]
    return [
        f"[{i}]:", f"  time      : {host.local(e['t']):%Y-%m-%d_%H:%M:%S}", f"  host      : {host.name}", f"  rank      : {e['rank']} (local_rank: {e['local']})",
        f"  exitcode  : {e['code']} (pid: {e['pid']}){shown}", f"  error_file: {e.get('error_file') or '<N/A>'}", f"  traceback : {body[0]}", *("  " + b for b in body[1:]),
    ]  # fmt: skip


def death_signal(job: Job, h: Happening) -> Iterator[Line]:
    """The agent itself was signalled: from outside."""
    host, pid = _agent(job, h)
    yield from _plain(h, [python(job, host, pid, h.t, "W", _SERVER, 704) + f"Received {h.data['signal']} death signal, shutting down workers"], "stop")


def signal_exception(job: Job, h: Happening) -> Iterator[Line]:
    _host, pid = _agent(job, h)
    yield from _plain(
        h,
        [
            "Traceback (most recent call last):", '  File "/opt/conda/bin/torchrun", line 8, in <module>', "    sys.exit(main())",
            f'  File "{_SITE}/torch/distributed/elastic/agent/server/api.py", line 696, in run', "    result = self._invoke_run(role)",
            f'  File "{_SITE}/torch/distributed/elastic/agent/server/api.py", line 855, in _invoke_run', "    time.sleep(monitor_interval)",
            f'  File "{_SITE}/torch/distributed/elastic/multiprocessing/api.py", line 84, in _terminate_process_handler',
            '    raise SignalException(f"Process {os.getpid()} got signal: {sigval}", sigval=sigval)',
            f"torch.distributed.elastic.multiprocessing.api.SignalException: Process {pid} got signal: {h.data['signal']}",
        ],
        "stop",
    )  # fmt: skip


def store_gone(job: Job, h: Happening) -> Iterator[Line]:
    """The rendezvous store lives in the first host's agent; without it the other agents end."""
    yield from _plain(
        h,
        [
            "Traceback (most recent call last):", '  File "/opt/conda/bin/torchrun", line 8, in <module>', "    sys.exit(main())",
            f'  File "{_SITE}/torch/distributed/elastic/agent/server/api.py", line 870, in _invoke_run', "    num_nodes_waiting = rdzv_handler.num_nodes_waiting()",
            f'  File "{_SITE}/torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py", line 122, in _call_store', "    raise RendezvousConnectionError(",
            "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for details.",
        ],
    )  # fmt: skip


def rendezvous_timeout(job: Job, h: Happening) -> Iterator[Line]:
    """Not all nodes came within the join timeout."""
    yield from _plain(
        h,
        [
            "Traceback (most recent call last):", '  File "/opt/conda/bin/torchrun", line 8, in <module>', "    sys.exit(main())",
            f'  File "{_SITE}/torch/distributed/elastic/rendezvous/dynamic_rendezvous.py", line 668, in run', "    raise RendezvousTimeoutError()",
            "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
        ],
    )  # fmt: skip


RENDER = {"sends_signal": sends_signal, "failed": failed, "table": table, "death_signal": death_signal, "signal_exception": signal_exception,
          "store_gone": store_gone, "rendezvous_timeout": rendezvous_timeout}  # fmt: skip
