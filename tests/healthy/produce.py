"""Makes the real jobs of this folder anew: ``python produce.py OUT [NAME ...]`` with an environment that has torch.

Launches the programs of `programs.py` under torchrun (or one process a rank), takes the logs as they lie on disk, and
replaces what belongs to the machine: host name, user, interpreter and scratch paths. Nothing else is changed, except
that lines in the middle of a long file may be cut by hand afterwards (the folder's README says where).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Recipe:
    """How one job is launched. ``layout``: perrank (torchrun log directory), tee (one console), direct (one file a rank),
    alone (one process that starts the others itself)."""

    program: str
    layout: str = "perrank"
    ranks: int = 4
    restarts: int = 0
    env: dict[str, str] = field(default_factory=dict)
    copy_at: str = ""  # words at which the logs are taken; the job is killed unseen
    term_at: str = ""  # words at which the ranks get SIGTERM; the job is then started again into the same files
    script: str = "programs.py"


RECIPES = {
    "ddp-epochs": Recipe("ddp"),
    "tee-console": Recipe("ddp", "tee"),
    "caught-tracebacks": Recipe("caught"),
    "caught-tracebacks-console": Recipe("caught", "tee"),
    "retried-connections": Recipe("retried"),
    "late-master": Recipe("late_master", "direct"),
    "nan-in-names": Recipe("nan_names"),
    "noisy-warnings": Recipe("noisy", "tee"),
    "overflow-skipped": Recipe("overflow", "direct"),
    "progress-bars": Recipe("bars", "direct", 2),
    "progress-bars-console": Recipe("bars", "tee", 2),
    "fsdp-sharded-checkpoint": Recipe("fsdp", ranks=2),
    "async-checkpoint": Recipe("async_save", ranks=2),
    "broken-samples": Recipe("broken_samples"),
    "early-stopping": Recipe("early_stop"),
    "memory-backoff": Recipe("memory_backoff", ranks=2),
    "stack-dumps": Recipe("stack_dumps", ranks=2),
    "straggler": Recipe("straggler"),
    "profiler-table": Recipe("profiled", "tee", 2),
    "debug-flood": Recipe("plain_loop", "tee", env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL", "TORCH_CPP_LOG_LEVEL": "INFO"}),
    "info-flood-perrank": Recipe("ddp", ranks=2, env={"TORCH_DISTRIBUTED_DEBUG": "INFO", "TORCH_CPP_LOG_LEVEL": "INFO", "LOGLEVEL": "INFO"}),
    "preempted-resumed": Recipe("preempted", "direct", term_at="step 9/"),
    "restart-recovers": Recipe("restart_recovers", restarts=2, env={"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}),
    "restart-recovers-console": Recipe("restart_recovers", "tee", restarts=2, env={"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "LOGLEVEL": "INFO"}),
    "still-running": Recipe("forever", copy_at="step 23/"),
    "still-running-console": Recipe("forever", "tee", copy_at="step 23/"),
    "warm-up": Recipe("warm_up", copy_at="indexed 1000/"),
    "hugging-face-trainer": Recipe("hugging_face", ranks=2, script="trainers.py"),
    "hugging-face-console": Recipe("hugging_face", "tee", 2, script="trainers.py"),
    "accelerate-batch-search": Recipe("accelerated", ranks=2, script="trainers.py"),
    "lightning-console": Recipe("lightning_fit", "alone", script="trainers.py"),
    "deepspeed-zero2": Recipe("deepspeed_zero", "tee", 2, script="trainers.py"),
}  # fmt: skip


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _environment(recipe: Recipe, work: Path) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "CHECKPOINTS": str(work / "checkpoints"), **recipe.env}


def _until(logs: Path, words: str) -> None:
    while not any(words in f.read_text(errors="replace") for f in logs.rglob("*.log")):
        time.sleep(0.05)


def _torchrun(recipe: Recipe, work: Path, logs: Path, *more: str) -> list[str]:
    command = [str(BIN / "torchrun"), f"--nproc-per-node={recipe.ranks}", f"--max-restarts={recipe.restarts}", *more]
    command += ["--log-dir", str(logs), "--redirects", "3"] if recipe.layout == "perrank" else ["--log-dir", str(work / "unused"), "--tee", "3"]
    return [*command, str(work / recipe.script), recipe.program]


def agents(recipe: Recipe, work: Path, logs: Path) -> None:
    """One node under torchrun."""
    console = logs / ("torchrun.log" if recipe.layout == "perrank" else "console.log")
    alone = [sys.executable, str(work / recipe.script), recipe.program]
    command = alone if recipe.layout == "alone" else _torchrun(recipe, work, logs, "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--rdzv-id=job")
    with console.open("ab") as out:
        process = subprocess.Popen(command, cwd=work, env=_environment(recipe, work), stdout=out, stderr=out, start_new_session=True)
        if not recipe.copy_at:
            process.wait(timeout=120)
            return
        _until(logs, recipe.copy_at)
        shutil.copytree(logs, work / "copy")  # what somebody sees who looks while it runs
        process.kill()  # its ranks notice that they are orphans
        process.wait()
        time.sleep(2)
        shutil.rmtree(logs)
        shutil.move(work / "copy", logs)


def direct(recipe: Recipe, work: Path, logs: Path) -> None:
    """One process a rank, each appending to its own file, as srun --output=rank_%t.log does."""
    for again in range(2 if recipe.term_at else 1):
        env = {**_environment(recipe, work), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": str(recipe.ranks)}
        processes = []
        for r in range(recipe.ranks):
            out = (logs / f"rank_{r}.log").open("ab")
            command = [sys.executable, str(work / recipe.script), recipe.program]
            processes.append(subprocess.Popen(command, cwd=work, env={**env, "RANK": str(r), "LOCAL_RANK": str(r)}, stdout=out, stderr=out))
        if recipe.term_at and not again:
            _until(logs, recipe.term_at)
            for p in processes:
                p.send_signal(signal.SIGTERM)
        for p in processes:
            p.wait(timeout=120)


def scale_down(work: Path, logs: Path) -> None:
    """Two agents of two ranks; the second node is taken away and the first goes on alone."""
    recipe = Recipe("shrinks", ranks=2, restarts=3, env={"LOGLEVEL": "INFO"})
    port, running = _free_port(), []
    for node in range(2):
        folder = logs / f"node{node}"
        folder.mkdir()
        more = (
            "--nnodes=1:2",
            "--rdzv-backend=c10d",
            f"--rdzv-endpoint=127.0.0.1:{port}",
            "--rdzv-id=elastic",
            f"--rdzv-conf=is_host={int(node == 0)},last_call_timeout=3",
        )
        out = (folder / "torchrun.log").open("ab")
        running.append(subprocess.Popen(_torchrun(recipe, work, folder, *more), cwd=work, env=_environment(recipe, work), stdout=out, stderr=out))
        time.sleep(0.5)
    _until(logs, "step 7/")
    running[1].send_signal(signal.SIGTERM)
    for p in running:
        p.wait(timeout=180)


def scrub(logs: Path, work: Path) -> None:
    """Replaces what belongs to the machine by stable words."""
    prefix = str(BIN.parent)
    swaps = [(str(work), "/workspace"), (prefix, "/opt/venv"), (os.path.realpath(prefix), "/opt/venv"), (str(Path.home()), "/home/user"),
             (sys.base_prefix, "/opt/python"), (str(logs), "/workspace/logs")]  # fmt: skip
    for file in sorted(p for p in logs.rglob("*") if p.is_file()):
        text = file.read_bytes().decode("utf-8", "surrogateescape")
        for old, new in swaps:
            text = text.replace(old, new)
        text = re.sub(rf"(?<![\w.-]){re.escape(socket.gethostname())}(?![\w-])", "node0", text)
        text = re.sub(r"/tmp/[\w.-]+", "/tmp/scratch", text)
        file.write_bytes(text.encode("utf-8", "surrogateescape"))


def make(name: str, out: Path) -> None:
    """Runs one job and leaves its scrubbed logs in ``out/name/logs``."""
    logs = out / name / "logs"
    shutil.rmtree(out / name, ignore_errors=True)
    logs.mkdir(parents=True)
    work = Path(tempfile.mkdtemp(prefix="healthy-"))
    shutil.copy(HERE / "programs.py", work)
    shutil.copy(HERE / "trainers.py", work)
    recipe = RECIPES.get(name)
    launch: Callable[..., None] = direct if recipe is not None and recipe.layout == "direct" else agents
    if recipe is None:
        scale_down(work, logs)
    else:
        launch(recipe, work, logs)
    scrub(logs, work)
    shutil.rmtree(work)


def main() -> None:
    """Makes the named jobs, all if none is named."""
    out, names = Path(sys.argv[1]), sys.argv[2:] or [*RECIPES, "elastic-scale-down"]
    for name in names:
        begin = time.perf_counter()
        make(name, out)
        size = sum(f.stat().st_size for f in (out / name).rglob("*") if f.is_file())
        print(f"{name}: {size} bytes in {time.perf_counter() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
