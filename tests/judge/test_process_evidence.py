"""Whole jobs in which another machine's or process's record (kernel, scheduler, cluster) names the dead: joined by pid, bus, pod, task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from correlator.api import open_job

CRASH = '[rank{r}]: Traceback (most recent call last):\n[rank{r}]:   File "/w/train.py", line 10, in <module>\n[rank{r}]:     loss.backward()\n'
LOST = CRASH + "[rank{r}]: RuntimeError: [/b/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.9]:33500\n"
WORKER = CRASH + "[rank{r}]: RuntimeError: DataLoader worker (pid 5123) is killed by signal: Killed. \n"
WATCHDOG = (
    "[rank{r}]:[E304 10:10:21.100000 ProcessGroupNCCL.cpp:629] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, "
    "NumelIn=100, NumelOut=100, Timeout(ms)=600000) ran for 600010 milliseconds before timing out.\n"
)
KERNEL = "[Wed Mar  4 10:00:18 2026] Out of memory: Killed process {pid} ({name}) total-vm:91234567kB, anon-rss:61234567kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:120000kB oom_score_adj:0\n"
BUS = ("1b000", "2c000", "3d000", "4e000")
POD = """apiVersion: v1
kind: Pod
metadata:
  name: job-worker-2
  namespace: ml
status:
  containerStatuses:
  - name: pytorch
    restartCount: 0
    state:
      terminated:
        exitCode: 137
        finishedAt: "2026-03-04T10:00:18Z"
        reason: OOMKilled
  phase: Failed
"""


def steps(rank: int, world: int, last: int, host: str) -> str:
    lines = [f"2026-03-04 10:00:00,000 INFO rank={rank} world_size={world} host={host} pid={4000 + rank} starting"]
    lines += [f"2026-03-04 10:00:{i:02d},100 INFO step {i} loss=2.{i}" for i in range(1, last + 1)]
    return "\n".join(lines) + "\n"


def nccl(rank: int) -> str:
    who = f"n{rank // 4}:{4000 + rank}:{4100 + rank} [{rank % 4}] NCCL INFO ncclCommInitRankConfig comm 0x55{rank} rank {rank} nranks 8"
    return "".join(f"{who} cudaDev {rank % 4} nvmlDev {rank % 4} busId {BUS[rank % 4]} commId 0xabc - Init {what}\n" for what in ("START", "COMPLETE"))


def job(dead: int, world: int, words: str, host: str, **more: str) -> dict[str, str]:
    """``words`` is what the dead rank printed last; the others lost their connection one step later."""
    files = {f"rank_{r}.log": steps(r, world, 18 if r == dead else 19, host) + (words if r == dead else LOST).format(r=r) for r in range(world)}
    return files | {name.replace("__", "/").replace("_dot_", "."): text for name, text in more.items()}


CASES: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "kernel line with the trainer's pid": (
        job(2, 4, "", "n1", dmesg_dot_txt=KERNEL.format(pid=4002, name="python")),
        {"scope": "rank", "initiating_ranks": [2], "failure_class": "host_oom"},
    ),
    "kernel line with the pid of a data loading worker": (
        job(2, 4, WORKER, "n1", dmesg_dot_txt=KERNEL.format(pid=5123, name="pt_data_worker")),
        {"scope": "rank", "initiating_ranks": [2], "failure_class": "host_oom"},
    ),
    "kernel line of a foreign pid": (
        job(2, 4, WORKER, "n1", dmesg_dot_txt=KERNEL.format(pid=777, name="redis")),
        {"scope": "rank", "initiating_ranks": [2], "failure_class": "dataloader_worker_died"},
    ),
    "srun's task number, one task a rank": (
        {
            "slurm-77.out": "".join(f"{r}: 2026-03-04 10:00:{i:02d},100 INFO rank={r}/4 step {i} loss=2.{i}\n" for i in range(1, 20) for r in range(4))
            + "".join(f"{r}: {line}\n" for r in (0, 1, 3) for line in LOST.format(r=r).splitlines())
            + "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM Killed.\nsrun: error: n2: task 2: Out Of Memory\n"
        },
        {"scope": "rank", "initiating_ranks": [2], "failure_class": "host_oom"},
    ),
    "bus of a GPU that two hosts have, in the kernel log of one": (
        {f"rank_{r}.log": nccl(r) + steps(r, 8, 18 if r == 6 else 19, f"n{r // 4}") + ("" if r == 6 else WATCHDOG.format(r=r)) for r in range(8)}
        | {"n1/dmesg.txt": "[Wed Mar  4 10:00:19 2026] NVRM: Xid (PCI:0000:3d:00): 79, pid=4006, name=python, GPU has fallen off the bus.\n"},
        {"scope": "rank", "initiating_ranks": [6], "failure_class": "gpu_hardware"},
    ),
    "a pod of one rank killed for memory": (
        {f"job-worker-{r}.log": steps(r, 4, 18 if r == 2 else 19, f"job-worker-{r}") + ("" if r == 2 else LOST.format(r=r)) for r in range(4)} | {"pods.yaml": POD},
        {"scope": "node", "initiating_ranks": [2], "initiating_hosts": ["job-worker-2"], "failure_class": "host_oom"},
    ),
    "one console, ranks named by the program's own prefix": (
        {
            "job.log": "".join(f"[rank {r}] batch {i} - loss calculated\n" for i in range(1, 18) for r in range(4))
            + "[rank 1] train loader exhausted after 17 batches\n"
            + "".join(f"[rank {r}] batch 18 - loss calculated\n" for r in (0, 2, 3))
            + "".join(WATCHDOG.format(r=r) for r in (0, 2, 3))
        },
        {"scope": "rank", "initiating_ranks": [1], "failure_class": "uneven_data"},
    ),
    "one rank is done while the others go on": (
        job(2, 4, "2026-03-04 10:00:19,200 INFO Training complete\n", "n1"),
        {"scope": "rank", "initiating_ranks": [2], "failure_class": "uneven_data"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_record_names_the_dead(name: str, tmp_path: Path) -> None:
    files, expected = CASES[name]
    for path, text in files.items():
        file = tmp_path / "logs" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    with open_job(str(tmp_path / "logs")) as opened:
        incident = opened.primary
    assert incident is not None
    assert {k: incident[k] for k in expected} == expected, incident["summary"]
