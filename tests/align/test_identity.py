"""Who wrote what, from files to the ``ranks`` and ``streams`` tables."""

from __future__ import annotations

from pathlib import Path

from correlator.api import open_job

TIMEOUT = "[rank{0}]:[E506 18:30:13.220418367 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600069 milliseconds before timing out."
STEP = "2026-05-06 18:20:1{1},140 INFO train: step {1}/40 loss=5.7122 grad_norm=0.382"


def table(folder: Path, sql: str) -> list[tuple[object, ...]]:
    with open_job(str(folder)) as job:
        return [tuple(row.values()) for row in job.sql(sql).to_pylist()]


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).write_text(text + "\n", encoding="utf-8")
    return folder


def test_a_rank_between_two_ranks_of_a_host_is_on_it(tmp_path: Path) -> None:
    lines = [f"srun: error: {host}: task {rank}: Terminated" for rank, host in ((0, "n1"), (1, "n1"), (2, "n1"), (3, "n2"), (5, "n2"))]
    write(tmp_path, {"slurm-1.out": "\n".join(lines), **{f"rank_{r}.log": TIMEOUT.format(r) if r != 4 else STEP.format(r, 3) for r in range(6)}})

    assert table(tmp_path, "SELECT rank, host FROM ranks ORDER BY rank") == [(0, "n1"), (1, "n1"), (2, "n1"), (3, "n2"), (4, "n2"), (5, "n2")]


def test_files_are_called_after_hosts_where_one_is(tmp_path: Path) -> None:
    """The console gx1.log names its host in the launcher's line; gx2.log holds nothing but workers' lines."""
    agent = "[2026-05-06 18:20:01,000] [INFO] [launch.py:145:main] WORLD INFO DICT: {'gx1': [0, 1], 'gx2': [0, 1]}"
    mine = "srun: error: gx1: task 0: Terminated"
    write(tmp_path, {"gx1.log": "\n".join([agent, mine, f"[default0]:{TIMEOUT.format(0)}", f"[default1]:{TIMEOUT.format(1)}"]),
                     "gx2.log": "\n".join([f"[default0]:{TIMEOUT.format(2)}", f"[default1]:{TIMEOUT.format(3)}"])})  # fmt: skip

    hosts = dict(table(tmp_path, "SELECT rank, any_value(host) FROM ranks GROUP BY rank"))
    assert hosts[2] == hosts[3] == "gx2"


def test_numbers_of_files_that_their_siblings_confirm_are_sure(tmp_path: Path) -> None:
    words = "2026-05-06 18:20:01,140 INFO train: initializing process group: rank={0} world_size=4 backend=nccl"
    write(tmp_path, {f"train-77-{r}.out": words.format(r) if r != 2 else "hello" for r in range(4)})

    assert table(tmp_path, "SELECT DISTINCT rank, evidence FROM streams WHERE rank = 2") == [(2, "path: its number, as the siblings' own words confirm")]


def test_a_torn_console_is_torn_for_all_who_write_there(tmp_path: Path) -> None:
    text = "\n".join(f"{r}: {STEP.format(r, s)}" for s in range(1, 4) for r in range(3))
    (tmp_path / "console.log").write_text(text + "\n1: 2026-05-06 18:2", encoding="utf-8")

    assert {c for (c,) in table(tmp_path, "SELECT coverage FROM ranks")} == {"torn"}
