"""What goes wrong: one row or one function a kind. Each tells the story up to the fault and says what is true about it.

A kind is a function of a ``Reaction`` that is about to begin; it plays healthy steps, does the damage and returns a ``Truth``. It prints
what the failing program itself prints; everything that others print follows from ``reaction``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulator.cluster import Job
from tests.simulator.program import Op
from tests.simulator.reaction import Reaction
from tests.simulator.texts.kernel import XID_CHAINS


@dataclass(slots=True)
class Truth:
    """What was simulated. ``shows`` says by which kind of evidence the initiator can be known (see ``label``)."""

    kind: str
    ranks: list[int]
    failure_class: str
    also: tuple[str, ...] = ()
    shows: str = "words"  # words, death, silence, node, device, link, vote, nan, unseen, nobody
    incident: bool = True
    acceptable_ranks: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    play: Callable[[Reaction], Truth]
    fits: Callable[[Job], bool] = lambda job: True


def _victim(s: Reaction) -> int:
    return s.rnd.randrange(s.job.world)


def _steps(s: Reaction) -> int:
    return s.rnd.randint(4, 7) if s.job.world > 64 else s.rnd.randint(4, 14)


# ---- exceptions of one rank: place of the failure, text, class ------------------------------------------------------
def _oom(job: Job, local: int) -> str:
    minor = job.torch[1]
    name = "torch.OutOfMemoryError" if minor >= 5 else "torch.cuda.OutOfMemoryError"
    capacity = "capacty" if minor == 1 else "capacity"
    conf = "PYTORCH_ALLOC_CONF" if minor >= 10 else "PYTORCH_CUDA_ALLOC_CONF"
    return (f"{name}: CUDA out of memory. Tried to allocate 2.25 GiB. GPU {local} has a total {capacity} of 79.11 GiB of which 1.42 GiB is free. "
            f"Including non-PyTorch memory, this process has 77.67 GiB memory in use. Of the allocated memory 74.02 GiB is allocated by PyTorch, and 1.81 GiB is reserved by PyTorch but unallocated. "
            f"If reserved but unallocated memory is large try setting {conf}=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)")  # fmt: skip


def _cuda(job: Job, what: str) -> str:
    name = "torch.AcceleratorError" if job.torch[1] >= 8 else "RuntimeError"
    return (f"{name}: CUDA error: {what}\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n"
            "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n")  # fmt: skip


_ASSERT = "../aten/src/ATen/native/cuda/Indexing.cu:1289: indexSelectLargeIndex: block: [{},0,0], thread: [{},0,0] Assertion `srcIndex < srcSelectDimSize` failed."

#: name -> (where, text or function of job and local rank, class, other right classes, needs a GPU)
EXCEPTIONS: dict[str, tuple] = {
    "key-error": ("load", "KeyError: 'input_ids'", "user_exception", ("data_error",), False),
    "json": ("load", "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)", "data_error", (), False),
    "unicode": ("load", "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte", "data_error", (), False),
    "missing-shard": ("load", "FileNotFoundError: [Errno 2] No such file or directory: '/data/shards/shard-00017.tar'", "missing_file", ("data_error",), False),
    "io-error": ("load", "OSError: [Errno 5] Input/output error: '/data/shards/shard-00017.tar'", "data_error", ("storage_full", "missing_file"), False),
    "loader-killed": ("load", "RuntimeError: DataLoader worker (pid 48813) is killed by signal: Killed. ", "dataloader_worker_died", ("host_oom",), False),
    "shape": ("forward", "RuntimeError: The size of tensor a (512) must match the size of tensor b (513) at non-singleton dimension 1", "user_exception", (), False),
    "assertion": ("forward", "AssertionError: router got an empty batch", "user_exception", ("data_error",), False),
    "zero-division": ("forward", "ZeroDivisionError: division by zero", "user_exception", ("data_error",), False),
    "gpu-oom": ("forward", _oom, "gpu_oom", (), True),
    "illegal-access": ("forward", lambda job, local: _cuda(job, "an illegal memory access was encountered"), "cuda_illegal_access", (), True),
    "device-assert": ("forward", lambda job, local: _cuda(job, "device-side assert triggered"), "cuda_device_assert", (), True),
    "host-memory-error": ("load", "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 38.1 GiB for an array with shape (5120, 1000000) and data type float64", "host_oom", (), False),
    "disk-full": ("save", "OSError: [Errno 28] No space left on device", "storage_full", ("checkpoint_save_failed",), False),
    "disk-full-torch": ("save", "RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 2816 vs 2710", "storage_full", ("checkpoint_save_failed",), False),
    "quota": ("save", "OSError: [Errno 122] Disk quota exceeded: '/ckpt/step_00400/model_00.pt'", "storage_full", ("checkpoint_save_failed",), False),
}  # fmt: skip


def _exception(name: str) -> Callable[[Reaction], Truth]:
    where, text, cls, also, _gpu = EXCEPTIONS[name]

    def play(s: Reaction) -> Truth:
        s.begin()
        s.steps(_steps(s))
        r = _victim(s)
        s.blocks({r: 0 if where in ("load", "save") else s.rnd.randint(0, 2)})
        t = s.began + s.job.step_s * s.rnd.uniform(0.05, 0.6)
        if name == "device-assert":
            for k in range(3):
                s.tell(t - 0.01, ("rank", r), "bare", text=_ASSERT.format(217, 96 + k))
        if where == "save":
            s.tell(s.began + 0.001, ("rank", r), "says", style=s.style, text=f"saving checkpoint step{s.steps_done} to /ckpt/step_{s.steps_done:05d}")
        s.raises(t, r, where, text if isinstance(text, str) else text(s.job, s.job.procs[r].local))
        return Truth(name, [r], cls, also)

    return play


# ---- deaths without a word of Python ---------------------------------------------------------------------------------
def _killed(with_kernel: bool) -> Callable[[Reaction], Truth]:
    def play(s: Reaction) -> Truth:
        s.begin()
        s.steps(_steps(s))
        r = _victim(s)
        s.blocks({r: s.rnd.choice((0, 1))})
        t = s.began + s.job.step_s * 0.3
        if with_kernel:
            s.tell(t, ("kernel", s.job.procs[r].host.index), "oom_kill", rank=r)
        s.at(t, s.ends, r, -9)
        return Truth("oom-kill" if with_kernel else "sigkill", [r], "host_oom" if with_kernel else "process_killed", () if with_kernel else ("host_oom",), shows="death")

    return play


def segfault(s: Reaction) -> Truth:
    """Under @record faulthandler prints the stack; otherwise only the kernel and the exit code know."""
    s.begin()
    s.steps(_steps(s))
    r = _victim(s)
    s.blocks({r: 1})
    t = s.began + s.job.step_s * 0.3
    if s.job.record:
        stack = ('Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f3a2a4db740 (most recent call first):\n  File "/workspace/model.py", line 212 in forward\n'
                 '  File "/workspace/train.py", line 341 in train\n  File "/workspace/train.py", line 445 in main\n\nExtension modules: numpy._core._multiarray_umath (total: 1)')  # fmt: skip
        s.tell(t, ("rank", r), "bare", text=stack, proof="own")
    if s.rnd.random() < 0.5:
        s.tell(t, ("kernel", s.job.procs[r].host.index), "segfault", rank=r)
    s.at(t + 0.05, s.ends, r, -11)
    return Truth("segfault", [r], "native_crash", ("process_killed",) if not s.job.record else (), shows="death")


def exit_code(s: Reaction) -> Truth:
    """The program leaves by itself with a code and no exception."""
    s.begin()
    s.steps(_steps(s))
    r = _victim(s)
    s.blocks({r: 0})
    s.at(s.began + s.job.step_s * 0.3, s.ends, r, 3)
    return Truth("exit-code", [r], "process_exit", shows="death")


# ---- absence ---------------------------------------------------------------------------------------------------------
def _stalled(name: str, slow: bool = False, activity: str = "") -> Callable[[Reaction], Truth]:
    def play(s: Reaction) -> Truth:
        s.begin()
        r = _victim(s)
        s.steps(_steps(s), slow=r if slow else None)
        if activity:
            s.tell(s.now + 0.01, ("rank", r), "says", style=s.style, text=activity)
        s.blocks({r: 0})
        return Truth(name, [r], "slow_rank_work" if activity else "rank_stalled", ("rank_stalled",) if activity else ("slow_rank_work",), shows="silence")

    return play


def left_early(s: Reaction) -> Truth:
    """One rank has fewer batches: it leaves the loop with exit code 0 while the others go on."""
    s.begin()
    s.steps(_steps(s))
    r = _victim(s)
    s.blocks({r: 0})
    if s.rnd.random() < 0.7:
        word = s.rnd.choice((f"dataset exhausted after {s.steps_done} steps", f"train loader exhausted after {s.steps_done} batches"))
        s.tell(s.began + 0.02, ("rank", r), "says", style=s.style, text=word, proof="own")
    s.tell(s.began + 0.05, ("rank", r), "says", style=s.style, text="training complete")
    s.at(s.began + s.rnd.uniform(0.5, 2), s.ends, r, 0, False)
    return Truth("left-early", [r], "uneven_data", ("rank_stalled", "process_exit"), shows="silence")


def mismatch(s: Reaction) -> Truth:
    """One rank calls the first collective of the step with another size, or another one: nothing on the group ends any more."""
    s.begin()
    s.steps(_steps(s))
    r = _victim(s)
    s.blocks({r: 0})
    assert s.reach is not None
    own = list(s.reach.programs[r])
    own[0] = Op(0, "ALLREDUCE", 26_214_400 - 4096, 26_214_400 - 4096) if s.rnd.random() < 0.5 else Op(0, "BROADCAST", 26_214_400, 26_214_400)
    s.reach.programs[r] = own
    s.reach.enqueued[r] = len(own)
    s.reach.limit[r] = 0
    s.at(s.enqueued_at(r, 0) + s.job.timeout_s + s.rnd.uniform(0.01, 0.1), s.watchdog, r)
    return Truth("mismatch", [r], "collective_mismatch", shows="vote")


# ---- machines --------------------------------------------------------------------------------------------------------
def gpu_fault(s: Reaction) -> Truth:
    """Xid lines of one GPU; its rank hangs (off the bus) or meets an ECC error at its next call."""
    s.begin()
    s.steps(_steps(s))
    r = _victim(s)
    chain = s.rnd.choice(("bus", "ecc"))
    s.blocks({r: 1})
    t = s.began + s.job.step_s * 0.2
    s.tell(t, ("kernel", s.job.procs[r].host.index), "xid", rank=r, chain=XID_CHAINS[chain])
    if chain == "ecc":
        s.raises(t + 0.2, r, "forward", _cuda(s.job, "uncorrectable ECC error encountered"))
    else:
        s.stuck.add(r)
    return Truth("gpu-" + chain, [r], "gpu_hardware", shows="device")


def link_down(s: Reaction) -> Truth:
    """The port of one adapter goes down: NCCL's event thread and the kernel say so, transfers over it end with retries exceeded."""
    s.begin()
    s.steps(_steps(s))
    r = _victim(s)
    host = s.job.procs[r].host.index
    s.blocks({r: 0})
    t = s.began + 0.1
    s.tell(t, ("kernel", host), "port_down", port=s.job.procs[r].local)
    if s.job.nccl_debug:
        s.tell(t + 0.01, ("rank", r), "async_event", proof=f"link:{host}")
    s.network_peers(r, lambda peer: s.at(t + s.rnd.uniform(8, 12), s.completion_error, peer, r))
    s.at(t + s.rnd.uniform(8, 12), _own_completion, s, r)
    return Truth("link-down", [r], "network_ib", ("network_config",), shows="link", acceptable_ranks=[p.rank for p in s.job.on(host)])


def _own_completion(t: float, s: Reaction, rank: int) -> None:
    """The rank on the dead port posts sends too: it enqueued its work like everybody."""
    assert s.reach is not None
    s.reach.enqueued[rank] = len(s.reach.programs[rank])
    s.network_peers(rank, lambda peer: s.at(t + 0.01, s.completion_error, rank, peer))


def node_lost(s: Reaction) -> Truth:
    s.begin()
    s.steps(_steps(s))
    host = s.rnd.randrange(1, len(s.job.hosts))
    ranks = [p.rank for p in s.job.on(host)]
    s.blocks(dict.fromkeys(ranks, 0))
    s.host_vanishes(s.began + s.job.step_s * 0.3, host)
    return Truth("node-lost", ranks, "node_lost", ("peer_lost",), shows="node")


# ---- the whole job, the outside --------------------------------------------------------------------------------------
def everywhere(s: Reaction) -> Truth:
    """A wrong setting: all ranks raise the same within a second, before the first step."""
    s.begin()
    text, cls, also = s.rnd.choice((
        ("ValueError: hidden_size (5120) must be divisible by num_attention_heads (48)", "user_exception", ("config_mismatch",)),
        ("KeyError: 'rope_scaling'", "user_exception", ("config_mismatch",)),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/tokenizer.json'", "missing_file", ("user_exception",)),
    ))  # fmt: skip
    for p in s.job.procs:
        s.at(s.now + s.rnd.uniform(0, 0.08), lambda t, r: s.raises(t, r, "config", text, proof=f"own:{r}", teardown=s.rnd.uniform(0.6, 0.9)), p.rank)
    return Truth("everywhere", [], cls, also, shows="nobody")


def nan(s: Reaction) -> Truth:
    """A local NaN that the reduction spreads within the step; after two bad steps every rank gives up."""
    s.begin()
    s.steps(_steps(s))
    r = _victim(s)
    s.steps(2, poison=(r, s.steps_done + 1))
    for p in s.job.procs:
        s.at(
            s.now + s.rnd.uniform(0.01, 0.05),
            lambda t, q: s.raises(t, q, "collective", f"FloatingPointError: loss is nan at step {s.steps_done}", proof=f"end:{q}", teardown=s.rnd.uniform(0.5, 0.8)),
            p.rank,
        )
    return Truth("nan", [r], "numeric_nan", ("user_exception",), shows="nan")


def stopped(s: Reaction) -> Truth:
    s.begin()
    s.steps(_steps(s))
    why, cls, also = s.rnd.choice((
        ("", "external_termination", ("preemption",)), ("DUE TO PREEMPTION", "preemption", ("external_termination",)),
        ("DUE TO TIME LIMIT", "external_termination", ("preemption",)),
    )) if s.job.launcher == "srun" else ("", "external_termination", ("preemption",))  # fmt: skip
    s.blocks(dict.fromkeys(range(s.job.world), 1))  # everybody is in the middle of a step
    s.away = set()
    s.stop_from_outside(s.now + s.job.step_s * 0.4, why, s.rnd.choice((15, 15, 2)) if s.job.launcher == "torchrun" else 15)
    return Truth("stopped", [], cls, also, shows="nobody")


def absent(s: Reaction) -> Truth:
    """srun starts all tasks but one hangs before its first line; rank 0's store counts clients, the others wait for rank 0's key."""
    job, r = s.job, s.rnd.randrange(1, s.job.world)
    s.begin()
    s.happenings = [h for h in s.happenings if h.who != ("rank", r)]
    t = s.now - 6 + job.timeout_s
    ms = int(job.timeout_s * 1000)
    for p in job.procs:
        if p.rank == 0:
            s.at(
                t + 1.2,
                lambda u, q: s.raises(
                    u,
                    q,
                    "init",
                    f"torch.distributed.DistStoreError: Timed out after {int(job.timeout_s) + 1} seconds waiting for clients. {job.world - 1}/{job.world} clients joined.",
                    proof="count",
                    initialised=False,
                ),
                0,
            )
        elif p.rank != r:
            s.at(
                t + s.rnd.uniform(0, 0.2),
                lambda u, q: s.raises(
                    u,
                    q,
                    "init",
                    f"torch.distributed.DistStoreError: wait timeout after {ms}ms, keys: /default_pg/0//cpu//0/0",
                    proof=f"victim:{q}",
                    teardown=2.0,
                    initialised=False,
                ),
                p.rank,
            )
    return Truth("absent", [r], "rendezvous_missing_rank", ("rendezvous_timeout", "rendezvous_store"), shows="unseen")


def absent_worker(s: Reaction) -> Truth:
    """The store is in torchrun's agent: gloo's full mesh waits for the key of the first missing rank and so names it."""
    job, r = s.job, s.rnd.randrange(s.job.world)
    s.begin()
    s.happenings = [h for h in s.happenings if h.who != ("rank", r)]
    t = s.now - 6 + job.timeout_s
    text = f"torch.distributed.DistStoreError: wait timeout after {int(job.timeout_s * 1000)}ms, keys: /default_pg/0//cpu//0/{r}"
    for p in job.procs:
        if p.rank != r:
            s.at(t + s.rnd.uniform(0, 0.2), lambda u, q: s.raises(u, q, "init", text, proof=f"named:{q}", initialised=False), p.rank)
    return Truth("absent-worker", [r], "rendezvous_missing_rank", ("rendezvous_timeout", "rendezvous_store"), shows="unseen")


def healthy(s: Reaction) -> Truth:
    """All goes well to the end."""
    s.begin()
    s.steps(_steps(s))
    for p in s.job.procs:
        s.tell(s.now + 0.2 + s.rnd.uniform(0, 0.1), ("rank", p.rank), "says", style=s.style, text="training complete")
        s.ended[p.rank] = None  # type: ignore[assignment]
    return Truth("healthy", [], "none", incident=False, shows="nobody")


def _gpu(job: Job) -> bool:
    return job.backend == "nccl"


FAULTS: dict[str, Fault] = {
    **{name: Fault(name, _exception(name), _gpu if row[4] else (lambda job: True)) for name, row in EXCEPTIONS.items()},
    "oom-kill": Fault("oom-kill", _killed(True)),
    "sigkill": Fault("sigkill", _killed(False)),
    "segfault": Fault("segfault", segfault),
    "exit-code": Fault("exit-code", exit_code),
    "stall": Fault("stall", _stalled("stall")),
    "slow-then-stall": Fault("slow-then-stall", _stalled("slow-then-stall", slow=True)),
    "busy": Fault("busy", _stalled("busy", activity="Saving checkpoint at step 400. This may take some time.")),
    "left-early": Fault("left-early", left_early, _gpu),
    "mismatch": Fault("mismatch", mismatch, lambda job: job.backend == "nccl" and job.parallel == "data"),
    "gpu-fault": Fault("gpu-fault", gpu_fault, _gpu),
    "link-down": Fault("link-down", link_down, lambda job: job.backend == "nccl" and job.net == "ib" and len(job.hosts) > 1),
    "node-lost": Fault("node-lost", node_lost, lambda job: len(job.hosts) > 1),
    "everywhere": Fault("everywhere", everywhere),
    "nan": Fault("nan", nan),
    "stopped": Fault("stopped", stopped),
    "absent": Fault("absent", absent, lambda job: job.backend == "gloo" and job.launcher == "srun"),
    "absent-worker": Fault("absent-worker", absent_worker, lambda job: job.backend == "gloo" and job.launcher == "torchrun"),
    "healthy": Fault("healthy", healthy),
}  # fmt: skip
