"""Recovered faults are not blamed: one rank really ends the job while others had earlier or louder trouble that passed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.recovery.logs import CLOSED, RECV, RESET, SEND, Job, diagnose, primary

Case = Callable[[Job], tuple[int, str]]


def caught_tracebacks(job: Job) -> tuple[int, str]:
    """Ranks 0 and 3 print five tracebacks each; rank 2 dies of one."""
    for n in range(5):
        job.caught(0, 3.2 + n, "sample is broken, skipped", "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)", logged=False)
        job.caught(3, 3.3 + n, "feature store failed, using the cache", "KeyError: 'user_17'")
    job.uncaught(2, 20.1, "KeyError: 'labels'")
    job.peers_lose(2, 20.3)
    return 2, "user_exception"


def caught_at_the_last_step(job: Job) -> tuple[int, str]:
    """Rank 0 logs a handled exception in the very step in which rank 2 dies: no step of its own shows that it was handled."""
    job.caught(0, 19.9, "could not write metrics, continuing without", "ConnectionResetError: [Errno 104] Connection reset by peer")
    job.uncaught(2, 20.1, "ZeroDivisionError: division by zero")
    job.peers_lose(2, 20.3)
    return 2, "user_exception"


def skipped_overflows(job: Job) -> tuple[int, str]:
    """Rank 1 skipped steps for overflow; rank 3 runs out of GPU memory."""
    for n in (1, 2, 5):
        job.say(1, n + 0.1, f"Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {65536 / 2**n}")
    job.uncaught(
        3,
        20.1,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.11 GiB of which 1.12 GiB is free. Process 703 has 77.98 GiB memory in use.",
    )
    job.peers_lose(3, 20.3)
    return 3, "gpu_oom"


def retried_store(job: Job) -> tuple[int, str]:
    """Ranks 1 to 3 could not reach the store at first; rank 0 dies later of its data."""
    for r in (1, 2, 3):
        job.raw(
            r,
            -3,
            f"[W503 09:59:57.104993123 socket.cpp:767] [c10d] The client socket has failed to connect to [localhost]:29500 (errno: 111 - Connection refused). [rank{r}]",
            "[W503 09:59:58.104993123 socket.cpp:767] [c10d] The IPv6 network addresses of (node0, 29500) cannot be retrieved (gai error: -2 - Name or service not known).",
        )
        job.caught(
            r,
            -1,
            "rendezvous not ready, trying again in 1 s (1/5)",
            "torch.distributed.DistNetworkError: The client socket has timed out after 5000ms while trying to connect to (node0, 29500).",
        )
    job.uncaught(0, 20.1, "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x80 in position 0: invalid start byte")
    job.peers_lose(0, 20.3)
    return 0, "data_error"


def retried_nccl(job: Job) -> tuple[int, str]:
    """NCCL's sockets were refused and retried on rank 0; rank 1 makes an illegal access."""
    job.raw(0, 0.1, *["gpu-n01:700:911 [0] NCCL INFO Call to connect returned Connection refused, retrying"] * 30)
    job.raw(
        0,
        0.2,
        "",
        "gpu-n01:700:911 [0] misc/socket.cc:575 NCCL WARN socketPollConnect: connect to 10.61.3.15<52011> returned Connection refused, retrying (5/35) after sleep for 500 msec",
    )
    job.uncaught(1, 20.1, "torch.AcceleratorError: CUDA error: an illegal memory access was encountered")
    job.peers_lose(1, 20.3, RESET)
    return 1, "cuda_illegal_access"


def retried_storage(job: Job) -> tuple[int, str]:
    """Rank 3 retries its reads with long errors; the agent records that rank 1 was killed."""
    for n in range(4):
        job.say(3, 4 + n, f"GetObject shard-0004{n}.tar: ReadTimeoutError, attempt {n + 1}/5, retrying in 0.5s", "ERROR")
        job.caught(
            3,
            4.1 + n,
            "s3 read failed, retrying",
            "botocore.exceptions.ConnectionClosedError: Connection was closed before we received a valid response from endpoint URL",
        )
    job.peers_lose(1, 20.3, RESET)
    job.records(21, 1, -9)
    return 1, "process_killed"


def memory_backoff_then_hang(job: Job) -> tuple[int, str]:
    """Rank 1 caught an out of memory and went on with half a batch; much later rank 2 stops arriving."""
    job.caught(
        1,
        2.5,
        "batch does not fit, trying half of it",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 1 has a total capacity of 79.11 GiB of which 4.12 GiB is free.",
    )
    job.uncaught(1, 50.1, RECV)
    job.uncaught(3, 50.1, SEND)
    job.uncaught(0, 50.4, CLOSED.format(port=40001))
    return 2, "rank_stalled"


def broken_samples_then_full_disk(job: Job) -> tuple[int, str]:
    """Loader workers of rank 0 skip samples with errors; rank 2 cannot write its checkpoint."""
    for n in range(6):
        job.caught(0, 3 + n, f"sample {n} cannot be decoded, taking the next", "PIL.UnidentifiedImageError: cannot identify image file <_io.BytesIO object at 0x7f10>")
    job.uncaught(2, 20.1, "OSError: [Errno 28] No space left on device: '/ckpt/step_400/rank2.pt'")
    job.peers_lose(2, 20.3)
    return 2, "storage_full"


def lost_and_found_store(job: Job) -> tuple[int, str]:
    """Rank 3 waited in vain for a key, tried again and went on; rank 1 fails an assertion."""
    job.caught(3, 4.5, "straggler report not there yet, asking again", "torch.distributed.DistStoreError: wait timeout after 3000ms, keys: /straggler/0")
    job.uncaught(1, 20.1, "AssertionError: 4097 tokens in a batch of 4096")
    job.peers_lose(1, 20.3)
    return 1, "user_exception"


def nan_metric(job: Job) -> tuple[int, str]:
    """Rank 0 prints NaN metrics that are not defined yet; rank 2 crashes in native code."""
    job.say(0, 5.5, "eval: val_auc=nan val_recall=nan nan_count=0 (no positive sample yet)")
    job.say(0, 6.5, "grad stats: max=inf before clipping in 0 of 4 buckets", "WARNING")
    job.raw(
        2, 20.1, "Fatal Python error: Segmentation fault", "", "Current thread 0x00007f10a2 (most recent call first):", '  File "/workspace/train.py", line 354 in train'
    )
    job.peers_lose(2, 20.3, RESET)
    return 2, "native_crash"


def helper_process(job: Job) -> tuple[int, str]:
    """A child process of rank 0 dies of an uncaught exception into the rank's own log; the rank goes on for twelve steps."""
    job.raw(0, 8.5, "Traceback (most recent call last):", '  File "/workspace/tools/upload_logs.py", line 12, in <module>', "    main()", '  File "/workspace/tools/upload_logs.py", line 9, in main',
            "    bucket.put(path)", "PermissionError: [Errno 13] Permission denied: '/mnt/share/run7'")  # fmt: skip
    job.uncaught(2, 20.1, "KeyError: 'labels'")
    job.peers_lose(2, 20.3)
    return 2, "user_exception"


def helper_process_of_a_stopped_rank(job: Job) -> tuple[int, str]:
    """The same, but the agent stops rank 0 before it can complain."""
    job.raw(0, 8.5, "Traceback (most recent call last):", '  File "/workspace/tools/upload_logs.py", line 12, in <module>', "    main()", "ValueError: unknown bucket")
    job.uncaught(3, 20.1, "KeyError: 'labels'")
    job.records(20.5, 3)
    job.raw(None, 22, "Traceback (most recent call last):", '  File "/opt/venv/bin/torchrun", line 8, in <module>', "    sys.exit(main())", "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
            "============================================================", "train.py FAILED", "------------------------------------------------------------", "Failures:")  # fmt: skip
    for n, (r, code) in enumerate(((0, -15), (1, -15), (2, -15))):
        job.raw(None, 22, f"[{n + 1}]:", "  time      : 2026-05-03_10:00:21", "  host      : node0", f"  rank      : {r} (local_rank: {r})", f"  exitcode  : {code} (pid: {700 + r})",
                "  error_file: <N/A>", f"  traceback : Signal 15 (SIGTERM) received by PID {700 + r}")  # fmt: skip
    job.raw(None, 22, "------------------------------------------------------------", "Root Cause (first observed failure):", "[0]:", "  time      : 2026-05-03_10:00:20", "  host      : node0",
            "  rank      : 3 (local_rank: 3)", "  exitcode  : 1 (pid: 703)", "  error_file: <N/A>", "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
            "============================================================")  # fmt: skip
    return 3, "user_exception"


def thread_exceptions(job: Job) -> tuple[int, str]:
    """Threads, tasks and finalizers of ranks 0 and 1 die; the main threads do not care."""
    job.raw(0, 6.5, "Exception in thread Thread-3 (_report):", "Traceback (most recent call last):", '  File "/opt/venv/lib/python3.12/threading.py", line 1075, in _bootstrap_inner', "    self.run()",
            '  File "/workspace/metrics.py", line 40, in _report', "    self.sock.send(data)", "BrokenPipeError: [Errno 32] Broken pipe")  # fmt: skip
    job.raw(1, 7.5, "Task exception was never retrieved", "future: <Task finished name='Task-7' coro=<push() done, defined at /workspace/metrics.py:9> exception=TimeoutError()>",
            "Traceback (most recent call last):", '  File "/workspace/metrics.py", line 12, in push', "    await self.post(data)", "TimeoutError")  # fmt: skip
    job.raw(1, 9.5, "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f2a40>", "Traceback (most recent call last):",
            '  File "/opt/venv/lib/python3.12/site-packages/torch/utils/data/dataloader.py", line 1663, in __del__', "    self._shutdown_workers()", "AssertionError: can only test a child process")  # fmt: skip
    job.uncaught(2, 20.1, "RuntimeError: The size of tensor a (128) must match the size of tensor b (64) at non-singleton dimension 1")
    job.peers_lose(2, 20.3)
    return 2, "user_exception"


def restarted_loader(job: Job) -> tuple[int, str]:
    """A loader worker of rank 3 was killed, the loader was built again; rank 0 raises later."""
    job.caught(3, 6.5, "data loader died, building it again", "RuntimeError: DataLoader worker (pid 8841) is killed by signal: Killed. ")
    job.uncaught(0, 20.1, "IndexError: list index out of range")
    job.peers_lose(0, 20.3)
    return 0, "user_exception"


def shell_children(job: Job) -> tuple[int, str]:
    """A shell reports that copies started by rank 1 were killed or crashed; they were tried again."""
    job.raw(
        1,
        5.5,
        "/bin/sh: line 1:   812 Killed                  aws s3 cp s3://bucket/shard-7.tar /scratch/",
        "/bin/sh: line 1:   815 Segmentation fault      (core dumped) zstd -d /scratch/shard-7.tar.zst",
    )
    job.say(1, 5.9, "copy of shard-7.tar failed with exit code 137, trying again", "WARNING")
    job.uncaught(2, 20.1, "KeyError: 'labels'")
    job.peers_lose(2, 20.3)
    return 2, "user_exception"


def error_level_words(job: Job) -> tuple[int, str]:
    """Rank 0 logs CRITICAL and FATAL words at every step; rank 1 says one quiet line at its end."""
    for n in range(1, 20):
        job.say(0, n + 0.5, f"FATAL: spike detector: loss z-score {n}.2 above threshold, aborting micro-batch {n} (skipped)", "CRITICAL")
    job.uncaught(1, 20.1, "SystemError: <built-in method run_backward> returned NULL without setting an exception")
    job.peers_lose(1, 20.3)
    return 1, "user_exception"


CASES: list[Case] = [helper_process, helper_process_of_a_stopped_rank, thread_exceptions, restarted_loader, shell_children, error_level_words,
                     caught_tracebacks, caught_at_the_last_step, skipped_overflows, retried_store, retried_nccl, retried_storage, memory_backoff_then_hang,
                     broken_samples_then_full_disk, lost_and_found_store, nan_metric]  # fmt: skip


@pytest.mark.parametrize("layout", ["files", "tee", "label"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__)
def test_the_rank_that_ended_the_job_is_named(case: Case, layout: str, tmp_path: Path) -> None:
    job = Job()
    job.begin()
    job.train(1, 20, 1)
    rank, failure_class = case(job)
    document = diagnose(job.written(tmp_path / "logs", layout))
    found = primary(document)

    assert len(document["incidents"]) == 1
    assert (found["scope"], found["initiating_ranks"], found["failure_class"]) == ("rank", [rank], failure_class), found["summary"]
    assert document["job"]["attempts"] == 1
