from __future__ import annotations

import base64
import json

from correlator.parsers.schema import Sink, Tag
from correlator.parsers.sources import launch_deepspeed
from correlator.parsers.sources.launch_deepspeed import decode_world_info

from .reading import line, only, read

HEAD = "[2024-05-01 12:34:56,789] [INFO] [launch.py:142:main] "


def test_world_info_of_the_command() -> None:
    slots = {"node-a": [0, 1], "node-b": [0, 1, 2]}
    code = base64.urlsafe_b64encode(json.dumps(slots).encode()).decode()
    assert decode_world_info(code) == slots and decode_world_info(code.rstrip("=")) == slots
    event = only(
        read(
            launch_deepspeed,
            f"[2024-05-01 12:34:56,789] [INFO] [runner.py:550:main] cmd = python -m deepspeed.launcher.launch --world_info={code} --master_addr=a train.py",
        ),
        "mapping",
    )
    assert event.attrs["rank_map"] == {"node-a": [0, 1], "node-b": [2, 3, 4]} and event.attrs["world_size"] == 5


def test_broken_world_info_is_nothing() -> None:
    assert decode_world_info("%%%") == {} and decode_world_info("AAAA") == {}


def test_spawned_pid_gets_its_global_rank_from_the_table_and_the_pdsh_host() -> None:
    out = Sink("x")
    tags = (Tag("host", name="b"),)
    for text in (
        HEAD + "global_rank_mapping=defaultdict(<class 'list'>, {'a': [0, 1], 'b': [2, 3]})",
        HEAD + "process 77 spawned with command: ['python', '-u', 't.py', '--local_rank=1', '--x']",
    ):
        launch_deepspeed.parse(line(text, tags=tags), out)
    assert out.events[1].attrs == {"pid": 77, "local_rank": 1, "host": "b", "how": "spawned", "global_rank": 3}


def test_exit_code_belongs_to_nobody_in_particular() -> None:
    event = only(
        read(
            launch_deepspeed,
            "[2024-05-01 12:34:56,789] [ERROR] [launch.py:259:sigkill_handler] ['python', '-u', 't.py', '--local_rank=7'] exits with return code = -11",
        ),
        "exit_record",
    )
    assert event.attrs["signal"] == "SIGSEGV" and event.attrs["last_spawned"] == 7
    assert "local_rank" not in event.attrs and "pid" not in event.attrs and event.peer_rank is None


def test_killing_lines_are_counted_in_spawn_order() -> None:
    out = read(launch_deepspeed, "\n".join(HEAD + f"Killing subprocess {p}" for p in (10, 11, 12, 10)))
    assert [(e.attrs["pid"], e.attrs["order"]) for e in out.events] == [(10, 0), (11, 1), (12, 2), (10, 0)]


def test_success() -> None:
    event = only(read(launch_deepspeed, HEAD + "Process 12345 exits successfully."), "exit_record")
    assert event.attrs["exitcode"] == 0 and event.attrs["pid"] == 12345
