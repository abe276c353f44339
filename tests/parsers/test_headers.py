"""Log headers of every logger that writes into training logs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from correlator.parsers.headers import read_header

REF = int(datetime(2026, 12, 2, tzinfo=UTC).timestamp()) * 1_000_000

# text, time as printed in ISO or None, level, origin, rank, pid, message
CASES = [
    ("[E1104 12:34:56.123456789 ProcessGroupNCCL.cpp:607] m", "2026-11-04 12:34:56", "ERROR", "ProcessGroupNCCL.cpp:607", None, None, "m"),
    ("[W105 12:34:56.123456789 socket.cpp:469] [c10d] m", "2026-01-05 12:34:56", "WARNING", "socket.cpp:469", None, None, "[c10d] m"),
    ("[E ProcessGroupNCCL.cpp:475] [Rank 1] m", None, "ERROR", "ProcessGroupNCCL.cpp:475", None, None, "[Rank 1] m"),
    ("W1130 21:01:14.146000 1616 torch/distributed/run.py:793]   m", "2026-11-30 21:01:14.146", "WARNING",
     "torch/distributed/run.py:793", None, 1616, "  m"),
    ("E1130 21:01:14.146000 139876543210304 torch/run.py:792] m", "2026-11-30 21:01:14.146", "ERROR", "torch/run.py:792", None, None, "m"),
    ("V1104 12:34:56.123000 77 torch/_dynamo/x.py:1] [0/0] [__guards] m", "2026-11-04 12:34:56.123", "DEBUG",
     "torch/_dynamo/x.py:1", None, 77, "m"),
    ("W1104 12:34:56.123000 77 torch/run.py:1] [default] m", "2026-11-04 12:34:56.123", "WARNING", "torch/run.py:1", None, 77, "[default] m"),
    ("I20250302 11:00:05.123456 881 file.cpp:12] m", "2025-03-02 11:00:05.123456", "INFO", "file.cpp:12", None, None, "m"),
    ("[2023-11-04 12:34:56,123] torch.distributed.run: [WARNING] m", "2023-11-04 12:34:56.123", "WARNING",
     "torch.distributed.run", None, None, "m"),
    ("WARNING:torch.distributed.elastic.agent:m", None, "WARNING", "torch.distributed.elastic.agent", None, None, "m"),
    ("2026-11-30 21:09:02,633 INFO train: m", "2026-11-30 21:09:02.633", "INFO", "train", None, None, "m"),
    ("2026-11-30T21:00:43.472Z | INFO | rank=2/4 | m", "2026-11-30 21:00:43.472", "INFO", None, 2, None, "m"),
    ("11/30/2026 21:40:19 - INFO - train - m", "2026-11-30 21:40:19", "INFO", "train", None, None, "m"),
    ("11/30/2026 21:40:19 - ERROR - train -   File", "2026-11-30 21:40:19", "ERROR", "train", None, None, "  File"),
    ("2026-11-30 21:36:00,175 [rank 3] INFO    m", "2026-11-30 21:36:00.175", "INFO", None, 3, None, "m"),
    ("[INFO|2025-09-03 21:44:52] mod:143 >> m", "2025-09-03 21:44:52", "INFO", "mod:143", None, None, "m"),
    ("[INFO|trainer.py:123] 2025-09-03 21:44:52,123 >> m", "2025-09-03 21:44:52.123", "INFO", "trainer.py:123", None, None, "m"),
    ("[2024-11-26 20:10:02,500] [INFO] [launch.py:245:main] m", "2024-11-26 20:10:02.500", "INFO", "launch.py:245:main", None, None, "m"),
    ("[2024-11-26 20:10:02,500] [INFO] [t.py:72:say] [Rank 2] m", "2024-11-26 20:10:02.500", "INFO", "t.py:72:say", 2, None, "m"),
    ("[NeMo W 2025-03-02 11:00:05 exp_manager:708] m", "2025-03-02 11:00:05", "WARNING", "exp_manager:708", None, None, "m"),
    ("[NeMo I 2025-03-02 11:00:05 exp_manager:708 rank:3] m", "2025-03-02 11:00:05", "INFO", "exp_manager:708", 3, None, "m"),
    ("[2025-03-02 11:00:05,347 E 4259 6839] (raylet) f.cc:35: m", "2025-03-02 11:00:05.347", "ERROR", "f.cc:35", None, 4259, "m"),
    ("2025-03-02 11:00:05,347: rank3[1234][MainThread]: INFO: composer.trainer: m", "2025-03-02 11:00:05.347", "INFO",
     "composer.trainer", 3, 1234, "m"),
    ("2023-09-17 12:20:10,022 INFO train.py:280 in record -- m", "2023-09-17 12:20:10.022", "INFO", "train.py:280", None, None, "m"),
    ("[2025-01-17 04:02:25,607][root][INFO] - m, rank: 0", "2025-01-17 04:02:25.607", "INFO", "root", None, None, "m, rank: 0"),
    ("INFO 07-01 12:34:56 [__init__.py:239] m", "2026-07-01 12:34:56", "INFO", "__init__.py:239", None, None, "m"),
    ("[2025-04-26 11:32:00 DP0 TP3] m", "2025-04-26 11:32:00", None, "DP0 TP3", None, None, "m"),
    ("INFO - train - m", None, "INFO", "train", None, None, "m"),
    ("Mar  2 11:00:05 node-3 kernel: [12345.678901] NVRM: m", "2026-03-02 11:00:05", None, "kernel", None, None, "NVRM: m"),
    ("Mar  2 11:00:05 node-3 slurmd[123]: m", "2026-03-02 11:00:05", None, "slurmd", None, 123, "m"),
    ("[Thu Aug 13 18:20:14 2026] nvidia-nvswitch3: m", "2026-08-13 18:20:14", None, None, None, None, "nvidia-nvswitch3: m"),
    ("[Mar 02 2025 11:00:05] [ERROR] [tid 841] m", "2025-03-02 11:00:05", "ERROR", None, None, None, "m"),
    ("2025-03-02_11:00:05.123+0000: [E] m", "2025-03-02 11:00:05.123", "ERROR", None, None, None, "m"),
    ("[2026-02-11 03:14:07] node-2:4411:4490 [3] x.cc:1 NCCL WARN m", "2026-02-11 03:14:07", None, None, None, None,
     "node-2:4411:4490 [3] x.cc:1 NCCL WARN m"),
    ("node-2:4411:4490 [3] NCCL INFO m", None, None, None, None, None, "node-2:4411:4490 [3] NCCL INFO m"),
    (" [2024-10-29 16:12:20] iteration        1/  10 |", "2024-10-29 16:12:20", None, None, None, None, "iteration        1/  10 |"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "time", "level", "origin", "rank", "pid", "message"), CASES)
def test_shapes(text: str, time: str | None, level: str | None, origin: str | None, rank: int | None, pid: int | None, message: str) -> None:
    head = read_header(text, REF)
    expected = None
    if time is not None:
        at = datetime.fromisoformat(time).replace(tzinfo=UTC)
        expected = int(at.timestamp()) * 1_000_000 + at.microsecond
    assert (head.stamp.naive_us if head.stamp else None) == expected
    assert (head.level, head.origin, head.rank, head.pid) == (level, origin, rank, pid)
    assert text[head.msg_start :] == message


def test_resolution_is_what_the_logger_knows() -> None:
    """The c10 fraction is monotonic clock, torch's Python logger has three real digits."""
    c10 = read_header("[E1104 12:34:56.999456789 P.cpp:607] m", REF).stamp
    python = read_header("W1130 21:01:14.146000 1616 torch/x.py:1] m", REF).stamp
    glog = read_header("W1130 21:01:14.146000 1616 x.cpp:1] m", REF).stamp
    assert [s.resolution_us if s else None for s in (c10, python, glog)] == [1_000_000, 1000, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2025-03-02 11:00:05 ERROR RuntimeError: foo", "RuntimeError: foo"),
        ("2025-03-02 11:00:05 INFO step: 10 loss: 2", "step: 10 loss: 2"),
        ("2025-03-02 11:00:05 INFO samples: 10", "samples: 10"),
        ("INFO rank 0 of 8 starting", "rank 0 of 8 starting"),
        ("[Rank 3] Watchdog caught collective", "[Rank 3] Watchdog caught collective"),
        ("RuntimeError: x", "RuntimeError: x"),
        ("Epoch 3: loss", "Epoch 3: loss"),
        ("[rank: 3] Seed set to 1", "[rank: 3] Seed set to 1"),
    ],
)
def test_words_of_the_message_stay(text: str, message: str) -> None:
    assert text[read_header(text, REF).msg_start :] == message


def test_an_undated_time_is_no_stamp() -> None:
    head = read_header("[12345.678901][ T123] NVRM: Xid", REF)
    assert head.stamp is None
    assert head.clock is not None
    assert head.clock.naive_us == 12_345_678_901
    assert "[12345.678901][ T123] NVRM: Xid"[head.msg_start :] == "NVRM: Xid"


def test_a_time_after_words_does_not_cut_them() -> None:
    text = "[after dataloaders are built] datetime: 2024-10-29 16:11:02 "
    head = read_header(text, REF)
    assert head.stamp is not None
    assert head.msg_start == 0


@given(
    st.one_of(
        st.text(),
        st.sampled_from([c[0] for c in CASES]).flatmap(lambda t: st.integers(0, len(t)).map(lambda n: t[n:] + t[:n])),
    )
)
def test_never_raises(text: str) -> None:
    head = read_header(text, REF)
    assert 0 <= head.msg_start <= len(text)
