"""The DeepSpeed launcher, one per host (reference: deepspeed.md 2.2). Its closing line names the process spawned last, whoever died."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulator.cluster import Job
from tests.simulator.tape import Happening, Line
from tests.simulator.texts.headers import logger


def _command(local: int) -> str:
    return f"['/opt/conda/bin/python3.11', '-u', 'train.py', '--local_rank={local}', '--deepspeed_config', 'ds_config.json']"


def _say(job: Job, h: Happening, level: str, origin: str, text: str, proof: str = "") -> Line:
    return Line(h.t, h.who, logger(job.hosts[h.who[1]], h.t, level, origin) + text, "err", proof, h.attempt)


def started(job: Job, h: Happening) -> Iterator[Line]:
    host = job.hosts[h.who[1]]
    world = {x.name: list(range(job.per_host)) for x in job.hosts}
    ranks = {x.name: [p.rank for p in job.on(x.index)] for x in job.hosts}
    origin = "launch.py:{}:main"
    if len(job.hosts) <= 16:  # the dictionaries of a large job are one very long line each; short ones do
        yield _say(job, h, "INFO", origin.format(145), f"WORLD INFO DICT: {world}")
        yield _say(job, h, "INFO", origin.format(163), f"global_rank_mapping=defaultdict(<class 'list'>, {ranks})", "mapping")
    yield _say(job, h, "INFO", origin.format(151), f"nnodes={len(job.hosts)}, num_local_procs={job.per_host}, node_rank={host.index}", "mapping")
    yield _say(job, h, "INFO", origin.format(164), f"dist_world_size={job.world}")
    for p in job.on(host.index):
        yield _say(job, h, "INFO", origin.format(256), f"process {p.pid} spawned with command: {_command(p.local)}")


def kills(job: Job, h: Happening) -> Iterator[Line]:
    for p in job.on(h.who[1]):
        yield _say(job, h, "INFO", "launch.py:319:sigkill_handler", f"Killing subprocess {p.pid}")
    yield _say(job, h, "ERROR", "launch.py:325:sigkill_handler", f"{_command(job.per_host - 1)} exits with return code = {h.data['code']}")


def told_to_stop(job: Job, h: Happening) -> Iterator[Line]:
    for p in job.on(h.who[1]):
        yield _say(job, h, "INFO", "launch.py:319:sigkill_handler", f"Killing subprocess {p.pid}")
    yield _say(job, h, "INFO", "launch.py:328:sigkill_handler", "Main process received SIGTERM, exiting", "stop")


RENDER = {"ds_started": started, "ds_kills": kills, "ds_told_to_stop": told_to_stop}
