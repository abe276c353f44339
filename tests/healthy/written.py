"""Healthy jobs that need GPUs, a scheduler or many hosts: written after the software's own formats, one function a job.

Each returns {path below the log directory: text}. The formats come from the upstream sources that the docstrings name;
hosts, addresses and values are made up. Real jobs stand beside this file as folders (see README.md).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

T0 = datetime(2026, 3, 2, 10, 0, 0, tzinfo=UTC)
Files = dict[str, str]


def clock(seconds: float, style: str = "%Y-%m-%d %H:%M:%S,%f") -> str:
    """Wall clock text of a second since the start, milliseconds where the style ends in a fraction."""
    text = (T0 + timedelta(seconds=seconds)).strftime(style)
    return text[:-3] if style.endswith("%f") else text


def page(*lines: str, end: str = "\n") -> str:
    """Lines as a file's text."""
    return "\n".join(lines) + end


def pylog(seconds: float, text: str, level: str = "INFO") -> str:
    """A line of Python's logging."""
    return f"{clock(seconds)} {level} train: {text}"


def step(n: int, total: int, seconds: float, more: str = "") -> str:
    """A step line of a hand-written loop."""
    return pylog(seconds, f"step {n}/{total} loss={8.0 / (n + 1):.4f} grad_norm=0.412 lr=1.00e-04 step_time=1.002s{more}")


# ---- NCCL ------------------------------------------------------------------------------------------


def _nccl_init(host: str, pid: int, dev: int, rank: int, nranks: int, comm: str = "0x71f0aa12c3d4e5f6") -> list[str]:
    tid, bus = pid + 210, f"{0x1B + 0x10 * dev:x}000"
    h, t = f"{host}:{pid}:{pid} [{dev}] NCCL INFO ", f"{host}:{pid}:{tid} [{dev}] NCCL INFO "
    left, right = (rank - 1) % nranks, (rank + 1) % nranks
    out = [
        h + "cudaDriverVersion 12080", h + "NCCL_SOCKET_IFNAME set by environment to bond0", h + "Bootstrap: Using bond0:10.61.3.14<0>", h + "NCCL version 2.27.5+cuda12.9",
        t + "NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin.", t + "NCCL_IB_TIMEOUT set by environment to 22.",
        t + "Failed to open libibverbs.so[.1]" if dev == 7 else t + "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB bond0:10.61.3.14<0>",
        t + "PROFILER/Plugin: Could not find: libnccl-profiler.so.", t + "Using network IB", t + "DMA-BUF is available on GPU device " + str(dev),
        t + f"ncclCommInitRankConfig comm 0x55e2{rank:02x}0 rank {rank} nranks {nranks} cudaDev {dev} nvmlDev {dev} busId {bus} commId {comm} - Init START",
        t + "RAS client listening socket at ::1<28028>", t + "Call to connect returned Connection refused, retrying", t + "Call to connect returned Connection refused, retrying",
        t + "NVLS multicast support is not available on dev " + str(dev), t + f"comm 0x55e2{rank:02x}0 rank {rank} nRanks {nranks} nNodes 2 localRanks 4 localRank {dev} MNNVL 0",
        t + f"Trees [0] {right}/-1/-1->{rank}->{left} [1] {right}/-1/-1->{rank}->{left}", t + "P2P Chunksize set to 131072",
        t + f"[Proxy Service] Device {dev} CPU core {dev * 4}", t + f"[Proxy Service UDS] Device {dev} CPU core {dev * 4 + 1}",
    ]  # fmt: skip
    for ch in range(8):
        out.append(t + f"Channel {ch:02d}/0 : {rank}[{dev}] -> {right}[{(dev + 1) % 4}] via {'NET/IB/0/GDRDMA' if dev == 3 else 'P2P/CUMEM'}")
    return [
        *out, t + "Connected all rings, use ring PXN 0 GDR 1", t + "Connected all trees",
        t + "TUNER/Plugin: Failed to find ncclTunerPlugin_v4 symbol.", t + "threadThresholds 8/8/64 | 64/8/64 | 512 | 512",
        t + "16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer",
        t + f"ncclCommInitRankConfig comm 0x55e2{rank:02x}0 rank {rank} nranks {nranks} cudaDev {dev} nvmlDev {dev} busId {bus} commId {comm} - Init COMPLETE",
        t + f"Init timings - ncclCommInitRankConfig: rank {rank} nranks {nranks} total 1.92 (kernels 0.21, alloc 0.30, bootstrap 0.41, allgathers 0.03, topo 0.35, graphs 0.02, connections 0.54, rest 0.06)",
    ]  # fmt: skip


def _nccl_calls(host: str, pid: int, dev: int, rank: int, n: int) -> list[str]:
    names = ("AllReduce", "ReduceScatter", "AllGather", "Broadcast")
    return [
        f"{host}:{pid}:{pid} [{dev}] NCCL INFO {names[i % 4]}: opCount {i:x} sendbuff 0x7ef200000000 recvbuff 0x7ef240000000 count 8388608 datatype 9 op 0 root 0 comm 0x55e2{rank:02x}0 [nranks=8] stream 0x5581e000"
        for i in range(n)
    ]


def _nccl_end(host: str, pid: int, dev: int, rank: int, how: str = "Destroy") -> list[str]:
    head = f"{host}:{pid}:{pid + 900} [{dev}] NCCL INFO "
    more = [head + f"comm 0x55e2{rank:02x}0 rank {rank} nranks 8 cudaDev {dev} busId {0x1B + 0x10 * dev:x}000 - Abort START"] if how == "Abort" else []
    return [*more, head + f"comm 0x55e2{rank:02x}0 rank {rank} nranks 8 cudaDev {dev} busId {0x1B + 0x10 * dev:x}000 - {how} COMPLETE"]


def nccl_info_flood() -> Files:
    """NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=INIT,COLL,NET: two nodes, one file a rank (NCCL 2.27: init.cc, bootstrap.cc, net_ib.cc)."""
    out = {}
    for rank in range(8):
        host, dev = f"gpu-n0{rank // 4}", rank % 4
        lines = [pylog(0, f"initialized rank={rank} world_size=8 local_rank={dev}"), *_nccl_init(host, 4100 + dev, dev, rank, 8)]
        for n in range(1, 9):
            lines += [*_nccl_calls(host, 4100 + dev, dev, rank, 6), step(n, 8, 20 + n)]
        out[f"rank_{rank}.log"] = page(*lines, *_nccl_end(host, 4100 + dev, dev, rank), pylog(30, "training complete"))
    return out


def nccl_debug_files() -> Files:
    """NCCL_DEBUG_FILE=nccl.%h.%p.log beside the ranks' files; communicators are torn down by abort at a normal end (torch >= 2.5)."""
    out = {}
    for rank in range(8):
        host, dev = f"gpu-n0{rank // 4}", rank % 4
        out[f"nccl.{host}.{4100 + dev}.log"] = page(*_nccl_init(host, 4100 + dev, dev, rank, 8), *_nccl_end(host, 4100 + dev, dev, rank, "Abort"))
        out[f"rank_{rank}.log"] = page(
            pylog(0, f"initialized rank={rank} world_size=8 local_rank={dev}"), *(step(n, 6, 20 + n) for n in range(1, 7)), pylog(40, "training complete")
        )
    return out


def c10d_info_flood() -> Files:
    """TORCH_CPP_LOG_LEVEL=INFO with NCCL: options, environments, monitors (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp)."""
    out = {}
    for rank in range(4):

        def glog(seconds: float, line: int, text: str, rank: int = rank) -> str:
            return f"[rank{rank}]:I{clock(seconds, '%m%d %H:%M:%S.%f')}000 {900 + rank} ProcessGroupNCCL.cpp:{line}] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] {text}"

        lines = [
            glog(0, 978, f"ProcessGroupNCCL initialization options: size: 4, global rank: {rank}, TIMEOUT(ms): 1800000, USE_HIGH_PRIORITY_STREAM: 0, SPLIT_FROM: 0, SPLIT_COLOR: -2, PG Name: 0"),
            glog(0, 987, "ProcessGroupNCCL environments: NCCL version: 2.27.5, TORCH_NCCL_ASYNC_ERROR_HANDLING: 3, TORCH_NCCL_ENABLE_TIMING: 0, TORCH_NCCL_BLOCKING_WAIT: 0, TORCH_DISTRIBUTED_DEBUG: OFF, "
                 "TORCH_NCCL_DUMP_ON_TIMEOUT: 1, TORCH_NCCL_DESYNC_DEBUG: 0, TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC: 480, TORCH_NCCL_TRACE_BUFFER_SIZE: 2000, TORCH_NCCL_PROPAGATE_ERROR: 0"),
            f"[rank{rank}]:[W302 10:00:02.104993123 ProcessGroupNCCL.cpp:5068] Guessing device ID based on global rank. This can cause a hang if rank to GPU mapping is heterogeneous. You can specify device_id in init_process_group()",
            pylog(1, f"initialized rank={rank} world_size=4 local_rank={rank}"),
        ]  # fmt: skip
        for n in range(1, 8):
            lines.append(step(n, 7, 5 + n))
            if n % 3 == 0:
                lines.append(glog(5 + n, 2246, f"Heartbeat monitor: watchdog is alive, last enqueued NCCL work: {n * 40}, last completed NCCL work: {n * 40 - 1}"))
        lines += [pylog(20, "training complete"), glog(20.1, 1510, "ProcessGroupNCCL destructor entered."), glog(20.2, 1494, "Launching ProcessGroupNCCL abort asynchronously."),
                  glog(20.4, 1500, "ProcessGroupNCCL aborts successfully."), glog(20.5, 1521, "ProcessGroupNCCL watchdog thread joined."), glog(20.5, 1530, "ProcessGroupNCCL heart beat monitor thread joined.")]  # fmt: skip
        out[f"rank_{rank}.log"] = page(*lines)
    return out


# ---- Megatron-LM, NeMo, torchtitan, DeepSpeed ------------------------------------------------------


def megatron(n: int, total: int, seconds: float, *, loss: bool = True, scale: str = "1.0", skipped: int = 0) -> str:
    """An iteration line of megatron/training/training.py; the loss is left out where a step was skipped."""
    shown = f"lm loss: {11.0 / (1 + n / 10):.6E} | " if loss else ""
    norm = "grad norm: 1.234 | " if loss else ""
    return (
        f" [{clock(seconds, '%Y-%m-%d %H:%M:%S.%f')}000] iteration {n:8d}/{total:8d} | consumed samples: {n * 64:12d} | elapsed time per iteration (ms): 1512.3 | throughput per GPU (TFLOP/s/GPU): 401.2 | "
        f"learning rate: 1.500000E-04 | global batch size:    64 | {shown}loss scale: {scale} | {norm}number of skipped iterations: {skipped:3d} | number of nan iterations:   0 |"
    )


_MEGATRON_HEAD = (
    "using world size: 8, data-parallel size: 2, context-parallel size: 1, hierarchical context-parallel sizes: None, tensor-model-parallel size: 4, pipeline-model-parallel size: 1",
    "------------------------ arguments ------------------------",
    "  check_for_nan_in_loss_and_grad .................. True",
    "  check_for_spiky_loss ............................ False",
    "  error_injection_rate ............................ 0",
    "  error_injection_type ............................ transient_error",
    "  exit_duration_in_mins ........................... 230",
    "  exit_signal_handler ............................. True",
    "  inprocess_hard_timeout .......................... 90",
    "  log_throughput .................................. True",
    "-------------------- end of arguments ---------------------",
    "> initializing torch distributed ...",
    "> initialized tensor model parallel with size 4",
    "> compiling dataset index builder ...",
    ">>> done with dataset index builder. Compilation time: 0.121 seconds",
    "WARNING: could not find the metadata file /lustre/run7/ckpt/latest_checkpointed_iteration.txt",
    "    will not load any checkpoints and will start from random",
    "(min, max) time across ranks (ms):",
    "    load-checkpoint ................................: (1.23, 1.46)",
    "[before the start of training step] datetime: 2026-03-02 10:01:00 ",
)


def megatron_running() -> Files:
    """Megatron-LM on Slurm, the file is copied while the job runs: only the last rank prints iterations."""
    lines = [f"0: {x}" for x in _MEGATRON_HEAD]
    for n in range(1, 41):
        lines.append(f"7: {megatron(n, 5000, 60 + 1.5 * n)}")
        if n % 20 == 0:
            lines += [
                f"0: saving checkpoint at iteration {n:7d} to /lustre/run7/ckpt in torch_dist format",
                f"0:   successfully saved checkpoint from iteration {n:7d} to /lustre/run7/ckpt",
            ]
    return {"slurm-8841.out": page(*lines)}


def megatron_fp16_warm_up() -> Files:
    """fp16: the first iterations overflow and are skipped until the loss scale fits; a single file cut inside a line."""
    lines = list(_MEGATRON_HEAD)
    for n in range(1, 31):
        bad = n <= 8
        lines.append(megatron(n, 5000, 60 + 1.5 * n, loss=not bad, scale=f"{4294967296.0 / 2 ** min(n, 8):.1f}", skipped=int(bad)))
    text = page(*lines)
    return {"train.log": text[: len(text) - 211]}


def megatron_duration_exit() -> Files:
    """A job that ends by its own time limit: --exit-duration-in-mins, then exit code 0 (training.py, print_datetime)."""
    lines = [*_MEGATRON_HEAD, *(megatron(n, 5000, 60 + 1.5 * n) for n in range(1, 25))]
    lines += ["saving checkpoint at iteration      24 to /lustre/run7/ckpt in torch_dist format", "  successfully saved checkpoint from iteration      24 to /lustre/run7/ckpt",
              "[exiting program after 230.0159624854724 minutes] datetime: 2026-03-02 13:50:10 "]  # fmt: skip
    return {"train.log": page(*lines)}


def megatron_requeued() -> Files:
    """Preempted with notice and requeued by Slurm into the same file: the signal handler saves, the second run finishes."""
    lines = [*_MEGATRON_HEAD, *(megatron(n, 40, 60 + 1.5 * n) for n in range(1, 22))]
    lines += [
        "slurmstepd: error: *** STEP 8841.0 ON gpu-n00 CANCELLED AT 2026-03-02T10:01:33 DUE TO PREEMPTION ***",
        "saving checkpoint at iteration      21 to /lustre/run7/ckpt in torch_dist format", "  successfully saved checkpoint from iteration      21 to /lustre/run7/ckpt",
        "[exiting program after receiving SIGTERM.] datetime: 2026-03-02 10:01:40 ",
        "slurmstepd: error: *** JOB 8841 ON gpu-n00 CANCELLED AT 2026-03-02T10:01:45 DUE TO JOB REQUEUE ***",
        *_MEGATRON_HEAD[:15], " loading distributed checkpoint from /lustre/run7/ckpt at iteration 21", "  successfully loaded checkpoint from /lustre/run7/ckpt [ t 1/4, p 1/1 ] at iteration 21",
        *(megatron(n, 40, 1800 + 1.5 * n) for n in range(22, 41)), "[after training is done] datetime: 2026-03-02 10:31:40 ",
        "saving checkpoint at iteration      40 to /lustre/run7/ckpt in torch_dist format", "  successfully saved checkpoint from iteration      40 to /lustre/run7/ckpt",
    ]  # fmt: skip
    return {"slurm-8841.out": page(*lines)}


def nemo_running() -> Files:
    """NeMo 2: one file a rank, `nemo_error_log.txt` takes every rank's warnings (nemo/utils/nemo_logging.py)."""
    out, warnings = {}, []
    for rank in range(4):
        w = f"[NeMo W {clock(3, '%Y-%m-%d %H:%M:%S')} rerun_state_machine:1089] Implicit initialization of Rerun State Machine!"
        warnings += [
            w,
            f"[NeMo W {clock(4, '%Y-%m-%d %H:%M:%S')} nemo_logging:405] /opt/venv/lib/python3.12/site-packages/pydub/utils.py:170: RuntimeWarning: Couldn't find ffmpeg or avconv - defaulting to ffmpeg, but may not work",
        ]
        lines = [f"[NeMo I {clock(1, '%Y-%m-%d %H:%M:%S')} megatron_init:396] Rank {rank} has data parallel group : [0, 1, 2, 3]", w]
        if rank == 0:
            lines += [f"[NeMo I {clock(20 + n, '%Y-%m-%d %H:%M:%S')} megatron_strategy:1] Training epoch 0, iteration {n}/99 | lr: 1.5e-07 | consumed_samples: {n * 512} | global_batch_size: 512 | global_step: {n} | "
                      f"reduced_train_loss: {11.03 - n / 50:.2f} | train_step_timing in s: 9.1" for n in range(30)]  # fmt: skip
            lines += [f"[NeMo E {clock(60, '%Y-%m-%d %H:%M:%S')} exp_manager:1] No checkpoint to resume from, starting from scratch (this is expected for the first run)"]
            lines += [
                f"[NeMo I {clock(70 + n, '%Y-%m-%d %H:%M:%S')} megatron_strategy:1] Training epoch 0, iteration {n}/99 | lr: 1.5e-07 | global_batch_size: 512 | global_step: {n} | reduced_train_loss: 10.4{n} | train_step_timing in s: 9.0"
                for n in range(30, 40)
            ]
        out[f"nemo_log_globalrank-{rank}_localrank-{rank}.txt"] = page(*lines)
    return {**out, "nemo_error_log.txt": page(*warnings)}


def torchtitan_console() -> Files:
    """torchtitan: colours, every rank filtered but two, a slow asynchronous checkpoint (torchtitan/components/metrics.py)."""
    red, green, off = "\x1b[31m", "\x1b[32m", "\x1b[39m"
    lines = ["W0302 10:00:00.120000 812 torch/distributed/run.py:792] *****************************************",
             "W0302 10:00:00.120000 812 torch/distributed/run.py:792] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded, please further tune the variable for optimal performance in your application as needed. "]  # fmt: skip
    for n in range(1, 21):
        for rank in (0, 3):
            lines.append(
                f"[rank{rank}]:[titan] {clock(30 + n)} - root - INFO - {red}step: {n:2d}  {green}loss: {9.0 / n:8.5f}  \x1b[38;2;180;60;0mgrad_norm:  1.2345  \x1b[36mmemory: 61.34GiB(77.60%)  tps: 1,234  mfu: 42.34%{off}"
            )
        if n == 10:
            lines += [f"[rank0]:[titan] {clock(41)} - root - INFO - Saving the checkpoint (or staging if async is enabled).",
                      f"[rank0]:[titan] {clock(41)} - root - WARNING - Waiting for the background process to finish, time: 12.31 sec",
                      f"[rank0]:[titan] {clock(52)} - root - INFO - Finished saving the checkpoint (or staging if async is enabled)in 11.20 seconds."]  # fmt: skip
    lines += [f"[rank{r}]:[titan] {clock(90)} - root - INFO - Training completed" for r in (0, 3)]
    lines += [f"[rank{r}]:[titan] {clock(91)} - root - INFO - Process group destroyed." for r in (0, 3)]
    return {"console.log": page(*lines)}


def deepspeed_pdsh_overflow() -> Files:
    """DeepSpeed over pdsh, fp16: the loss scale comes down by skipped steps, then training runs (runtime/fp16/loss_scaler.py); still running."""

    def ds(host: str, seconds: float, text: str, level: str = "INFO", where: str = "logging.py:128:log_dist") -> str:
        return f"{host}: [{clock(seconds)}] [{level}] [{where}] {text}"

    lines = []
    for node in range(2):
        host = f"worker-{node}"
        lines += [ds(host, 0, "WORLD INFO DICT: {'worker-0': [0, 1], 'worker-1': [0, 1]}", where="launch.py:146:main"), ds(host, 0, f"nnodes=2, num_local_procs=2, node_rank={node}", where="launch.py:152:main"),
                  ds(host, 0, "global_rank_mapping=defaultdict(<class 'list'>, {'worker-0': [0, 1], 'worker-1': [2, 3]})", where="launch.py:163:main"), ds(host, 0, "dist_world_size=4", where="launch.py:164:main")]  # fmt: skip
        lines += [
            ds(
                host,
                0.1,
                f"process {700 + i} spawned with command: ['/opt/venv/bin/python', '-u', 'train.py', '--local_rank={i}', '--deepspeed']",
                where="launch.py:256:main",
            )
            for i in range(2)
        ]
    scale = 65536
    for n in range(1, 16):
        if n in (1, 2, 3, 9):
            lines.append(
                f"worker-0: [{clock(30 + n)}] [INFO] [loss_scaler.py:190:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {scale}, reducing to {scale // 2}"
            )
            scale //= 2
        lines.append(ds("worker-0", 30 + n, f"[Rank 0] step={n}, skipped={min(n, 3) + (n > 8)}, lr=[0.0001], mom=[(0.9, 0.999)]"))
        lines += [f"worker-{r // 2}: rank {r} step {n} loss {7.0 / n:.4f}" for r in range(4)]
    return {"run.log": page(*lines)}


# ---- schedulers, pods, hosts -----------------------------------------------------------------------


def kubernetes_preempted_pods() -> Files:
    """Pod logs as the node keeps them: container 0 saved on SIGTERM and left with 0, container 1 resumed and finished."""
    out = {}
    for rank in range(2):

        def cri(seconds: float, text: str) -> str:
            return f"{clock(seconds, '%Y-%m-%dT%H:%M:%S.%f')}Z stderr F {text}"

        folder = f"pods/ml_llm-worker-{rank}_7c1e-42/pytorch"
        out[f"{folder}/0.log"] = page(
            cri(0, pylog(0, f"initialized rank={rank} world_size=2 local_rank=0")),
            *(cri(n, step(n, 30, n)) for n in range(1, 13)),
            cri(13, pylog(13, "received SIGTERM, saving a checkpoint before the pod goes away", "WARNING")),
            cri(14, pylog(14, "saved checkpoint /ckpt/step_12 at step 12, leaving gracefully")),
        )
        out[f"{folder}/1.log"] = page(
            cri(100, pylog(100, f"initialized rank={rank} world_size=2 local_rank=0")),
            cri(101, pylog(101, "Resuming from checkpoint /ckpt/step_12 at step 13")),
            *(cri(100 + n, step(n, 30, 100 + n)) for n in range(13, 31)),
            cri(131, pylog(131, "training complete")),
        )
    return out


def kubectl_tail() -> Files:
    """kubectl logs --prefix --timestamps --tail of four running pods: the beginning is missing, the last line is cut."""
    lines = [
        f"[pod/llm-worker-{r}/pytorch] {clock(n, '%Y-%m-%dT%H:%M:%S.%f')}123Z {pylog(n, f'rank {r} step {4100 + n}/20000 loss={2.1 - n / 1000:.4f} grad_norm=0.38 step_time=0.98s')}"
        for n in range(30)
        for r in range(4)
    ]
    return {"pods.log": page(*lines, end=lines[-1][:70])}


def rotated_tail() -> Files:
    """Rotated files: only the middle of a run is there, nobody says who he is but the file names."""
    return {f"rank_{r}.log.2": page(*(step(n, 90000, n) for n in range(5000 + r % 2, 5040))) for r in range(4)}


def ray_train() -> Files:
    """Ray Train driver log: worker prefixes, repeats folded (ray/_private/ray_logging), a retried object fetch."""
    lines = [f"(TorchTrainer pid=801, ip=10.3.0.1) - (node_id=aa0{r}, ip=10.3.0.{r + 1}, pid=90{r}) world_rank={r}, local_rank=0, node_rank={r}" for r in range(4)]
    lines.insert(0, "(TorchTrainer pid=801, ip=10.3.0.1) Started distributed worker processes: ")
    lines.append("(RayTrainWorker pid=900, ip=10.3.0.1) Setting up process group for: env:// [rank=0, world_size=4]")
    lines.append(
        "(RayTrainWorker pid=902, ip=10.3.0.3) [2026-03-02 10:00:09,120 W 902 951] (raylet) object_manager.cc:210: Failed to fetch object from 10.3.0.2, retrying (attempt 1/3)"
    )
    for n in range(1, 21):
        lines.append(f"(RayTrainWorker pid=900, ip=10.3.0.1) step {n} loss {5.0 / n:.4f}")
        lines.append(
            f"(RayTrainWorker pid=902, ip=10.3.0.3) step {n} loss {5.1 / n:.4f} [repeated 3x across cluster] (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0 to disable log deduplication)"
        )
    return {"job-driver.log": page(*lines, f"{clock(90, '%Y-%m-%d %H:%M:%S')}\tSUCC cli.py:63 -- Job 'raysubmit_4Fb' succeeded")}


def healthy_hosts() -> Files:
    """Kernel logs of healthy machines beside the ranks' logs: driver start, a flap of an unused port, corrected errors."""
    out = {}
    for node in range(2):
        out[f"gpu-n0{node}/dmesg.txt"] = page(
            "[    8.123456] nvidia: loading out-of-tree module taints kernel.", "[    8.223456] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build",
            "[   14.100001] mlx5_core 0000:4b:00.0: Port module event: module 0, Cable plugged", "[   14.300001] IPv6: ADDRCONF(NETDEV_CHANGE): ib0: link becomes ready",
            "[ 5120.000001] mce: [Hardware Error]: Machine check events logged", "[ 5120.000009] EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x3a1f offset:0x0 grain:32 syndrome:0x0)",
            "[ 5300.100001] usb 1-1: USB disconnect, device number 4", "[ 5311.400001] igb 0000:02:00.1 eno2: igb: eno2 NIC Link is Down", "[ 5313.400001] igb 0000:02:00.1 eno2: igb: eno2 NIC Link is Up 1000 Mbps Full Duplex, Flow Control: RX",
        )  # fmt: skip
    for rank in range(4):
        out[f"gpu-n0{rank // 2}/rank_{rank}.log"] = page(
            pylog(0, f"initialized rank={rank} world_size=4 local_rank={rank % 2}"), *(step(n, 12, n) for n in range(1, 13)), pylog(14, "training complete")
        )
    return out


def object_store_retries() -> Files:
    """Retries of object stores and of a metrics service, all of them successful (botocore, urllib3, wandb)."""
    out = {}
    for rank in range(4):
        lines = [pylog(0, f"initialized rank={rank} world_size=4 local_rank={rank}")]
        for n in range(1, 15):
            if n == 5 and rank == 2:
                lines += [f"{clock(n)} WARNING urllib3.connectionpool: Retrying (Retry(total=2, connect=None, read=None, redirect=None, status=None)) after connection broken by "
                          "'NewConnectionError('<urllib3.connection.HTTPSConnection object at 0x7f1>: Failed to establish a new connection: [Errno 111] Connection refused')': /bucket/shard-00041.tar",
                          f"{clock(n + 0.1)} DEBUG botocore.retryhandler: retry needed, retryable exception caught: Connection was closed before we received a valid response from endpoint URL",
                          f"{clock(n + 0.2)} ERROR s3: GetObject shard-00041.tar: ReadTimeoutError, attempt 1/5, retrying in 0.5s"]  # fmt: skip
            if n == 8 and rank == 0:
                lines += [
                    "wandb: Network error (ReadTimeout), entering retry loop.",
                    "wandb: ERROR Error while calling W&B API: 502 Bad Gateway (<Response [502]>)",
                    "wandb: Network error resolved after 0:00:12.104993, resuming normal operation.",
                ]
            lines.append(step(n, 14, n))
        out[f"rank_{rank}.log"] = page(*lines, pylog(20, "training complete"))
    return out


def evaluation_only() -> Files:
    """A distributed evaluation without any training step (lm-evaluation-harness style bars)."""
    lines = []
    for n in range(0, 101, 10):
        lines.append(
            "\r".join(
                f"[default{r}]:Running generate_until requests: {n:3d}%|{'#' * (n // 10):10s}| {n * 4}/400 [{n // 60:02d}:{n % 60:02d}<00:{100 - n if n > 40 else 59:02d},  4.00it/s]"
                for r in range(1)
            )
        )
    lines += ["[default0]:|    Tasks    |Version|Filter|n-shot|Metric|   |Value |   |Stderr|", "[default0]:|-------------|------:|------|-----:|------|---|-----:|---|------|",
              "[default0]:|hellaswag    |      1|none  |     0|acc   |↑  |0.6141|±  |0.0049|", "[default0]:|truthfulqa   |      2|none  |     0|acc   |↑  |   nan|±  |   nan|"]  # fmt: skip
    return {"console.log": page(*lines)}


def tests_of_failures() -> Files:
    """pytest of a distributed library: failures that are expected, printed at length, and a green summary."""
    lines = ["============================= test session starts ==============================", "platform linux -- Python 3.12.4, pytest-9.0.1, pluggy-1.6.0", "collected 5 items", "",
             "tests/test_faults.py::test_timeout_is_reported PASSED                     [ 20%]", "tests/test_faults.py::test_oom_is_caught PASSED                          [ 40%]",
             "tests/test_faults.py::test_nan_raises PASSED                             [ 60%]", "tests/test_faults.py::test_worker_killed_by_sigkill PASSED               [ 80%]",
             "tests/test_faults.py::test_rank_mismatch XFAIL (needs two hosts)         [100%]", "", "======================== 4 passed, 1 xfailed in 61.02s ========================="]  # fmt: skip
    return {"ci.log": page(*lines)}


def two_jobs_steps() -> Files:
    """A pipeline of steps in one console: data preparation with caught errors, then training, then export."""
    lines = [pylog(0, "preparing data: 12 shards")]
    lines += [pylog(n, f"tokenised shard {n}/12: 20000 documents, {n % 3} skipped (UnicodeDecodeError)", "WARNING" if n % 3 else "INFO") for n in range(1, 13)]
    lines += [f"Map (num_proc=8): {p:3d}%|{'#' * (p // 10):10s}| {p * 200}/20000 [00:{p // 2:02d}<00:{50 - p // 2:02d}, 400.00 examples/s]" for p in range(0, 101, 20)]
    lines += [
        pylog(60, "initialized rank=0 world_size=1 local_rank=0"),
        *(step(n, 12, 60 + n) for n in range(1, 13)),
        pylog(80, "exporting to ONNX"),
        pylog(81, "training complete"),
    ]
    return {"job.log": page(*lines)}


JOBS: dict[str, tuple[Callable[[], Files], str]] = {
    "nccl-info-flood": (nccl_info_flood, "completed"),
    "nccl-debug-files": (nccl_debug_files, "completed"),
    "c10d-info-flood": (c10d_info_flood, "completed"),
    "megatron-running": (megatron_running, "running"),
    "megatron-fp16-warm-up": (megatron_fp16_warm_up, "cut"),
    "megatron-duration-exit": (megatron_duration_exit, "completed"),
    "megatron-requeued": (megatron_requeued, "completed"),
    "nemo-running": (nemo_running, "running"),
    "torchtitan-console": (torchtitan_console, "completed"),
    "deepspeed-pdsh-overflow": (deepspeed_pdsh_overflow, "running"),
    "kubernetes-preempted-pods": (kubernetes_preempted_pods, "completed"),
    "kubectl-tail": (kubectl_tail, "cut"),
    "rotated-tail": (rotated_tail, "running"),
    "ray-train": (ray_train, "completed"),
    "healthy-hosts": (healthy_hosts, "completed"),
    "object-store-retries": (object_store_retries, "completed"),
    "evaluation-only": (evaluation_only, "cut"),
    "tests-of-failures": (tests_of_failures, "cut"),
    "pipeline-of-steps": (two_jobs_steps, "completed"),
}
