"""Where attempts begin inside one file, with and without a launcher's word."""

from __future__ import annotations

import pytest

from correlator.align.attempts import attempt_bounds, first_attempts
from correlator.engine import rulebook
from correlator.parsers.pipeline import Part, parse_log


def part(text: str, source_id: int = 0, path: str = "rank_0.log") -> Part:
    """What one file says."""
    data = f"{text}\n".encode()
    return parse_log(source_id, path, iter([data]), len(data), rulebook().catalogue, 1_800_000_000_000_000)


def bounds(text: str) -> list[int]:
    """Bounds of the only launcher in a file."""
    return attempt_bounds(part(text)).get("", [])


def firsts(*texts: str, told: frozenset[int] = frozenset()) -> list[int]:
    """First attempt of each file, as far as their words and times tell."""
    parts = [part(text, i, f"{i}.log") for i, text in enumerate(texts)]
    found = first_attempts(parts, {(p.source_id, group): lines for p in parts for group, lines in attempt_bounds(p).items()}, set(told))
    return [found.get(i, -1) for i in range(len(texts))]


BEGIN = "2026-05-03 10:00:00,000 INFO train: initialized rank=0 world_size=4"
AGAIN = BEGIN.replace("10:00:00", "10:05:00")
STEPS = "\n".join(f"2026-05-03 10:00:0{n},000 INFO train: step {n}/40 loss=2.0" for n in range(1, 5))
LATER = "\n".join(f"2026-05-03 10:05:0{n},000 INFO train: step {n}/40 loss=2.0" for n in range(5, 8))
CRASH = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\nValueError: bad shard'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{BEGIN}\n{STEPS}\n{AGAIN}\n{STEPS}", [5]),  # its steps go back
        (f"{BEGIN}\n{STEPS}\n{AGAIN}\nINFO train: Resuming from checkpoint /ckpt/4 at step 5\n{LATER}", [5]),
        (f"{BEGIN}\n{STEPS}\n{CRASH}\n{AGAIN}\n{LATER}", [9]),  # it had ended
        (f"{BEGIN}\n{CRASH}\n{AGAIN}\n{CRASH}\n{AGAIN}\n{CRASH}", [5, 10]),  # dies at its start each time
        (f"{BEGIN}\n{STEPS}\n{AGAIN}\n{STEPS}\n{AGAIN}\n{STEPS}", [5, 10]),
    ],
)
def test_a_writer_that_begins_anew(text: str, expected: list[int]) -> None:
    assert bounds(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        f"{BEGIN}\n{STEPS}\n{AGAIN}\n{LATER}",  # it only says again who it is
        f"{BEGIN}\n{BEGIN}\n{STEPS}\n{LATER}",
        f"{BEGIN}\n{STEPS}\nINFO train: Resuming from checkpoint /ckpt/2 after a loss spike\n{STEPS}",  # rolled back in the same process
        f"{BEGIN}\n{STEPS}\n{CRASH}",
        f"{STEPS}\nINFO train: training complete\n{BEGIN}\n{LATER}",  # a second stage of one run
    ],
)
def test_no_restart(text: str) -> None:
    assert bounds(text) == []


def test_ranks_that_share_a_file_begin_once() -> None:
    begins = "\n".join(BEGIN.replace("rank=0", f"rank={r}") for r in range(4))
    steps = "\n".join(f"2026-05-03 10:00:0{n},000 INFO train: step {n}/40 loss=2.0" for n in (1, 1, 1, 2, 1, 2, 2, 2, 3, 3))
    again = begins.replace("10:00:00", "10:05:00")

    assert bounds(f"{begins}\n{steps}") == []
    assert bounds(f"{begins}\n{steps}\n{again}\n{steps}") == [14]
    # one of them repeats its introduction; another one's step comes late
    assert bounds(f"{begins}\n{steps}\n{BEGIN}\n2026-05-03 10:00:04,000 INFO train: step 3/40 loss=2.0\n2026-05-03 10:00:05,000 INFO train: step 4/40 loss=2.0") == []


@pytest.mark.parametrize(
    "mark",
    [
        "slurmstepd: error: *** JOB 71 ON node-1 CANCELLED AT 2026-05-03T10:01:00 DUE TO JOB REQUEUE ***",
        "slurmstepd: error: *** JOB 71 ON node-1 CANCELLED AT 2026-05-03T10:01:00 DUE TO PREEMPTION ***",
        "E0503 10:01:00.000000 71 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) local_rank: 2 (pid: 766) of binary: /opt/venv/bin/python3",
    ],
)
def test_a_launcher_says_so(mark: str) -> None:
    assert bounds(f"{STEPS}\n{mark}\n{LATER}") == [5]
    assert bounds(f"{STEPS}\n{mark}") == []


def agent(minute: int) -> str:
    """An agent's words at the end of an attempt."""
    api = "torch/distributed/elastic/multiprocessing/api.py"
    return (
        f"W0503 10:0{minute}:30.000000 71 {api}:1028] Sending process 702 closing signal SIGTERM\n"
        f"E0503 10:0{minute}:31.000000 71 {api}:1002] failed (exitcode: 1) local_rank: 1 (pid: 701) of binary: /opt/venv/bin/python3"
    )


def test_a_file_written_anew_holds_the_last_attempt() -> None:
    story = f"{agent(1)}\n{agent(6)}"  # attempt 0 ended at 10:01, attempt 1 at 10:06

    assert firsts(story, f"{AGAIN}\n{LATER}") == [0, 1]  # begins at 10:05
    assert firsts(story, f"{BEGIN}\n{STEPS}") == [0, 0]  # begins at 10:00
    assert firsts(story, f"{BEGIN}\n{STEPS}\n{CRASH}\n{AGAIN}\n{LATER}") == [0, 0]  # appended: it holds both
    assert firsts(story, f"{AGAIN}\n{LATER}", told=frozenset({1})) == [0, -1]


def test_a_process_says_how_often_it_was_restarted() -> None:
    assert firsts(f"TORCHELASTIC_RESTART_COUNT=2\n{BEGIN}\n{STEPS}") == [2]
    assert firsts(f"TORCHELASTIC_RESTART_COUNT=0\n{BEGIN}\n{STEPS}") == [0]
    # what one says holds for the file that says nothing
    assert firsts(f"TORCHELASTIC_RESTART_COUNT=1\n{BEGIN}\n{STEPS}", f"{BEGIN}\n{STEPS}") == [1, 1]
    # it said so behind a bound: the attempt before is in the file
    assert firsts(f"{BEGIN}\n{STEPS}\n{CRASH}\n{AGAIN}\nTORCHELASTIC_RESTART_COUNT=1\n{LATER}") == [0]


def test_a_launcher_s_own_lines_follow_its_labelled_workers() -> None:
    def labelled(text: str) -> str:
        return "\n".join(f"{r}: {line.replace('rank=0', f'rank={r}')}" for line in text.splitlines() for r in range(2))

    first, second = labelled(f"{BEGIN}\n{STEPS}"), labelled(f"{AGAIN}\n{STEPS}")
    text = f"{first}\nsrun: error: node-3: task 1: Killed\n{second}\nsrun: error: node-3: task 1: Killed"
    found = attempt_bounds(part(text))

    assert found["label:0"] == [11]
    assert found[""] == [11]
