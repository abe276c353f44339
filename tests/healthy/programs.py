"""Small training programs whose runs are the real healthy jobs of this folder (`produce.py` launches them).

Each function is one program: a two-layer model on random data, trained for some seconds on CPU with gloo, with one
habit of real programs that looks like a failure and is none. Needs torch, not correlator; no test imports this file.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import math
import os
import signal
import subprocess
import sys
import time
import traceback
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
RESTART = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
CHECKPOINTS = Path(os.environ.get("CHECKPOINTS", "checkpoints"))
log = logging.getLogger("train")


class Synthetic(torch.utils.data.Dataset):
    """Random samples; every 40th cannot be decoded."""

    def __init__(self, n: int = 160, broken: bool = False) -> None:
        self.n, self.broken = n, broken

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> torch.Tensor:
        if self.broken and i % 40 == 7:
            try:
                bytes([0x80, i % 250]).decode("utf-8")
            except UnicodeDecodeError as exc:
                print(f"WARNING: sample {i} of shard-{i // 40:05d}.tar cannot be decoded, using a zero sample: {exc!r}", file=sys.stderr, flush=True)
                return torch.zeros(16)
        g = torch.Generator().manual_seed(i)
        return torch.randn(16, generator=g)


def start(style: str = "%(asctime)s %(levelname)s %(name)s: %(message)s") -> None:
    """Logging and the process group, as most scripts begin."""
    logging.basicConfig(level=logging.INFO, format=style, stream=sys.stderr, force=True)
    dist.init_process_group("gloo")
    log.info("initialized rank=%d world_size=%d local_rank=%s", RANK, WORLD, os.environ.get("LOCAL_RANK"))


def network() -> nn.Module:
    """A model that trains in microseconds."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))


def one_step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor) -> tuple[float, float]:
    """Loss and gradient norm of one optimiser step."""
    optimizer.zero_grad()
    loss = (model(batch) - batch.sum(1, keepdim=True)).pow(2).mean()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item(), float(norm)


def steps(n: int, first: int = 1, pause: float = 0.05, say: bool = True) -> Iterator[int]:
    """Trains with DDP and logs every step; yields after each."""
    model = nn.parallel.DistributedDataParallel(network())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(first, n + 1):
        begin = time.perf_counter()
        batch = torch.randn(8, 16, generator=torch.Generator().manual_seed(step * WORLD + RANK))
        loss, norm = one_step(model, optimizer, batch)
        time.sleep(pause)
        if say:
            log.info("step %d/%d loss=%.4f grad_norm=%.3f lr=1.00e-03 step_time=%.3fs", step, n, loss, norm, time.perf_counter() - begin)
        yield step


def end(words: str = "training complete") -> None:
    """Leaves as a tidy script does."""
    dist.barrier()
    if words:
        log.info(words)
    dist.destroy_process_group()


def ddp() -> None:
    """DDP with loader workers, evaluation, checkpoints."""
    start()
    loader = torch.utils.data.DataLoader(Synthetic(96), batch_size=8, num_workers=2)
    model = nn.parallel.DistributedDataParallel(network())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step = 0
    for epoch in range(2):
        for batch in loader:
            step += 1
            loss, norm = one_step(model, optimizer, batch)
            log.info("epoch %d step %d loss=%.4f grad_norm=%.3f", epoch, step, loss, norm)
        with torch.no_grad():
            losses = [float((model(b) - b.sum(1, keepdim=True)).pow(2).mean()) for b in loader]
        log.info("epoch %d validation: val_loss=%.4f over %d batches", epoch, sum(losses) / len(losses), len(losses))
        if RANK == 0:
            CHECKPOINTS.mkdir(exist_ok=True)
            torch.save(model.module.state_dict(), CHECKPOINTS / f"epoch{epoch}.pt")
            log.info("saved checkpoint %s", CHECKPOINTS / f"epoch{epoch}.pt")
        dist.barrier()
    end()


def caught() -> None:
    """Exceptions that are caught, printed in full and survived."""
    start()
    for step in steps(14):
        if step == 4 and RANK == 1:
            try:
                {"input_ids": [1]}["attention_mask"]
            except KeyError:
                traceback.print_exc()
                log.warning("sample has no attention mask, a full one is used")
        if step == 6 and RANK == 3 % WORLD:
            try:
                torch.zeros(3) @ torch.zeros(4)
            except RuntimeError:
                log.exception("fused path failed, falling back to the eager one")
        if step == 8 and RANK == 0:
            try:
                try:
                    float("n/a")
                except ValueError as exc:
                    raise RuntimeError("metrics backend rejected the value") from exc
            except RuntimeError:
                log.error("could not write metrics, continuing without", exc_info=True)
        if step == 9 and RANK == 2 % WORLD:
            subprocess.run(["git", "rev-parse", "HEAD"], cwd="/", check=False)
            with contextlib.suppress(subprocess.CalledProcessError):
                subprocess.run([sys.executable, "-c", "raise SystemExit('quota tool: cannot query quota')"], check=True)
    end()


def retried() -> None:
    """A service that is not up yet: refused connections, retried, then going on."""
    start()
    for step in steps(12):
        if step == 5 and RANK % 2 == 1:
            for attempt in range(1, 4):
                try:
                    urllib.request.urlopen("http://127.0.0.1:9/shard-00012.tar", timeout=1)
                except OSError as exc:
                    log.warning("GET shard-00012.tar failed (attempt %d/3): %s, retrying in %.1fs", attempt, exc, 0.1 * attempt)
                    time.sleep(0.1 * attempt)
            log.error("giving up on the mirror, reading shard-00012.tar from the second one")
            try:
                raise ConnectionResetError(104, "Connection reset by peer")
            except ConnectionResetError:
                log.exception("reading shard-00012.tar: connection lost, reopened at byte 1048576")
    end()


def late_master() -> None:
    """Rank 0 comes late: the others retry the store, then all train."""
    if RANK == 0:
        time.sleep(6)
    start()
    for _ in steps(8):
        pass
    end()


def nan_names() -> None:
    """The word nan in names and in metrics that are not defined yet."""
    import numpy as np

    start("%(asctime)s - %(levelname)s - %(name)s - %(message)s")
    log.info("config: detect_anomaly=False check_for_nan_in_loss_and_grad=True nan_policy=skip inf_checks=on")
    for step in steps(12):
        if step % 4 == 0:
            auc = float("nan") if step < 8 else 0.61
            log.info("eval at step %d: val_loss=%.4f val_auc=%s val_recall=%s nan_count=0 inf_count=0", step, 3.1 / step, auc, auc)
            if step == 4:
                log.info("perplexity of the empty split: %s", np.mean(np.array([])))
        if step == 6:
            log.info("grad stats: num_nan=0 num_inf=0 nan_frac=0.0 max=3.2e-01; best_metric=-inf until the first evaluation")
    end()


def noisy() -> None:
    """Warnings in floods, deprecations, harmless words of failure."""
    start()
    for step in steps(10):
        warnings.warn(f"step {step}: `torch.cuda.amp.GradScaler` is enabled, but CUDA is not available.  Disabling.", UserWarning, stacklevel=1)
        warnings.warn("Detected call of `lr_scheduler.step()` before `optimizer.step()`: failed checks: 0", UserWarning, stacklevel=1)
        if step == 3:
            log.error("Error rate on the probe set: 0.12; errors=0 failed=0 killed=0 timeouts=0")
            log.critical("exit criteria not met: loss above 0.5, going on")
            print("W: failed to open /etc/lsb-release: No such file or directory (ignored)", file=sys.stderr, flush=True)
        if step == 5:
            print("abort_on_nan=False exit_interval=None exit_on_error=True timeout=1800", flush=True)
    log.info("summary: 0 errors, 0 failed shards, 0 restarts, exit code 0")
    end("Training finished")


def overflow() -> None:
    """Dynamic loss scaling: the first steps overflow and are skipped."""
    start()
    scale, skipped = 65536.0, 0
    for step in steps(14, say=False):
        norm = math.inf if step in (1, 2, 6) else 0.4
        if math.isinf(norm):
            scale, skipped = scale / 2, skipped + 1
            log.info("Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to %s", scale)
        log.info("step %d/14 loss=%.4f grad_norm=%s loss_scale=%.1f skipped=%d", step, 6.0 / step, "inf" if math.isinf(norm) else f"{norm:.3f}", scale, skipped)
    end()


def bars() -> None:
    """Progress bars with carriage returns, one training bar and one evaluation bar a rank."""
    from tqdm import tqdm

    start()
    for epoch in range(2):
        bar = tqdm(steps(12, pause=0.15, say=False), total=12, desc=f"Epoch {epoch}", mininterval=0.0)
        for step in bar:
            bar.set_postfix(loss=f"{4.0 / (epoch * 12 + step):.3f}", nan=0)
        for _ in tqdm(range(6), desc="Validation", mininterval=0.0):
            time.sleep(0.05)
    end()


def fsdp() -> None:
    """Fully sharded data parallel with a sharded checkpoint."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    start()
    mesh = init_device_mesh("cpu", (WORLD,))
    model = network()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(1, 11):
        loss, norm = one_step(model, optimizer, torch.randn(8, 16))
        log.info("step %d/10 loss=%.4f grad_norm=%.3f", step, loss, norm)
        if step % 5 == 0:
            begin = time.perf_counter()
            dcp.save({"model": model.state_dict()}, checkpoint_id=CHECKPOINTS / f"step_{step}")
            log.info("saved checkpoint step_%d in %.2fs", step, time.perf_counter() - begin)
    end()


def async_save() -> None:
    """Checkpoints that are written behind the training; one is late and waited for."""
    import torch.distributed.checkpoint as dcp

    start()
    model, pending = network(), None
    group = dist.new_group()  # the writing thread needs collectives of its own
    for step in steps(12):
        if step % 4 == 0:
            if pending is not None and not pending.done():
                log.warning("checkpoint of step %d is not complete yet, waiting for it", step - 4)
            if pending is not None:
                pending.result()
            pending = dcp.async_save({"model": model.state_dict()}, checkpoint_id=CHECKPOINTS / f"step_{step}", process_group=group)
            log.info("async checkpoint of step %d started", step)
    if pending is not None:
        pending.result()
    end()


def broken_samples() -> None:
    """Loader workers that skip samples they cannot decode."""
    start()
    model = nn.parallel.DistributedDataParallel(network())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = torch.utils.data.DataLoader(Synthetic(160, broken=True), batch_size=16, num_workers=2)
    for step, batch in enumerate(loader, 1):
        loss, _ = one_step(model, optimizer, batch)
        log.info("step %d/10 loss=%.4f", step, loss)
    end()


def early_stop() -> None:
    """The validation loss stops falling: all ranks leave the loop long before the last step."""
    start()
    for step in steps(400):
        stop = torch.tensor([1 if step >= 12 else 0])
        dist.broadcast(stop, 0)
        if step >= 9:
            log.info("validation loss did not improve for %d evaluations (best 0.4121, now 0.42%d0)", step - 8, step)
        if stop.item():
            log.info("early stopping triggered at step %d, leaving the loop", step)
            break
    end()


def memory_backoff() -> None:
    """A batch that does not fit: the allocation fails, is caught, and half of it is tried."""
    start()
    size = 1 << 58
    while True:
        try:
            torch.empty(size, dtype=torch.uint8)
            break
        except RuntimeError as exc:
            log.warning("batch of %d samples does not fit, trying half: %s", size >> 34, str(exc).splitlines()[0])
            size >>= 8
    for _ in steps(10):
        pass
    end()


def stack_dumps() -> None:
    """faulthandler prints the stacks of a healthy process at an interval."""
    start()
    faulthandler.dump_traceback_later(1.1, repeat=True)
    for _ in steps(12, pause=0.2):
        pass
    faulthandler.cancel_dump_traceback_later()
    end()


def straggler() -> None:
    """One rank is several times slower than the others and is waited for."""
    start()
    for step in steps(10):
        if RANK == 1:
            time.sleep(0.4)
            if step % 5 == 0:
                log.warning("slow step: data loading took 0.40s of 0.45s on this rank")
    end()


def profiled() -> None:
    """A profiler's table in the log."""
    start()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
        for _ in steps(6):
            pass
    if RANK == 0:
        print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=12), flush=True)
    for _ in steps(10, first=7):
        pass
    end()


def preempted() -> None:
    """Told to stop: saves, leaves with code 0; started again it resumes and finishes."""
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    start()
    done = CHECKPOINTS / "last_step"
    first = int(done.read_text()) + 1 if done.exists() else 1
    if first > 1:
        log.info("Resuming from checkpoint %s at step %d", done, first)
    for step in steps(24, first, pause=0.2):
        flag = torch.tensor([len(asked)])
        dist.all_reduce(flag)
        if flag.item():
            log.warning("received SIGTERM, saving a checkpoint before the node is taken away")
            if RANK == 0:
                CHECKPOINTS.mkdir(exist_ok=True)
                done.write_text(str(step))
            dist.barrier()
            log.info("saved checkpoint %s at step %d, leaving gracefully", done, step)
            dist.destroy_process_group()
            return
    end()


def restart_recovers() -> None:
    """The first attempt fails on rank 2, the agent starts all ranks again, the second one finishes."""
    start()
    if RESTART:
        log.info("Resuming from checkpoint at step 5 (restart %d)", RESTART)
    for step in steps(12, first=6 if RESTART else 1):
        if step == 8 and RESTART == 0 and RANK == 2:
            raise OSError(116, "Stale file handle", "/data/shard-00003.bin")
    end()


def shrinks() -> None:
    """An elastic job: when a node leaves, the rest goes on from the last step with a smaller world."""
    start()
    done = CHECKPOINTS / "last_step"
    first = int(done.read_text()) + 1 if done.exists() else 1
    if first > 1:
        log.info("Resuming from checkpoint at step %d with world size %d", first, WORLD)
    for step in steps(30, first, pause=0.3):
        if RANK == 0:
            CHECKPOINTS.mkdir(exist_ok=True)
            done.write_text(str(step))
    end()


def forever() -> None:
    """Goes on until somebody copies the logs."""
    start()
    parent = os.getppid()
    for _ in steps(100_000, pause=0.2):
        if os.getppid() != parent:
            os._exit(1)


def warm_up() -> None:
    """Long preparation before the first step: indexing, then silence."""
    start()
    log.info("building the sample index of 1042 shards, this takes some minutes")
    for shard in range(0, 1042, 200):
        log.info("indexed %d/1042 shards", shard)
        time.sleep(0.2)
    time.sleep(5)


def plain_loop() -> None:
    """Collectives without DDP (its constructor and the debug level DETAIL do not go together on CPU)."""
    start()
    sub = dist.new_group([0, 1])
    for step in range(1, 13):
        loss = torch.tensor([4.0 / step + RANK * 0.01])
        dist.all_reduce(loss)
        if RANK < 2:
            dist.all_reduce(torch.ones(4), group=sub)
        log.info("step %d/12 loss=%.4f", step, loss.item() / WORLD)
        time.sleep(0.03)
    end()


def main() -> None:
    """Runs the program named on the command line."""
    program: Callable[[], None] = globals()[sys.argv[1]]
    program()


if __name__ == "__main__":
    main()
