"""Lines in which a process says who it is. Evidence only: ``parse`` returns False so that others may own the line.

Only a writer's statement about itself counts: "rank 3 of 8", not "waiting for rank 3". A rank in a log header
(``[Rank 2]``, ``rank=2/4 |``) is the printer's claim and carries ``how="header"``. DeepSpeed's ``log_dist``
prints for rank 0 only, so a file shared by all ranks shows nobody but rank 0: such a claim is kept as
``claimed_rank`` and never as ``global_rank``.
Wordings: lightning's ``distributed`` module, transformers' training_args, accelerate's state, torchvision's
references, NeMo's megatron_init, c10d and Slurm environment names.
"""

from __future__ import annotations

import re
from typing import Any

from correlator.parsers.schema import Line, Sample, Sink

NAME = "identity_lines"
ORDER = 1
TOKENS = (
    "world_size", "WORLD_SIZE", "GLOBAL_RANK", "LOCAL_RANK", "RANK=", "PROCID", "NODEID=", "PMI", "Process rank", "Process index", "rocess index:", "distributed init",
    "[rank", "[Rank", "rank=", "(rank ", " is rank ", "Rank ", "Global rank", "global rank", "rank: ", "rank ", "GLOBAL RANK", "RESTART_COUNT",
)  # fmt: skip
STATEMENTS_KEPT = 60  # explicit statements kept of one stream; start-up prints a few, restarts some more

_OWN = tuple(
    re.compile(p)
    for p in (
        r"\brank[=:] ?(?P<r>\d+)[ ,|]+world[ _]size[=:] ?(?P<w>\d+)",
        r"\bworld[ _]size[=:] ?(?P<w>\d+)[ ,|]+(?:global[ _])?rank[=:] ?(?P<r>\d+)",
        r"^\W*(?:\w+[:,] )?(?:I am |this is |process |worker )?rank (?P<r>\d+) (?:of|out of|/) (?P<w>\d+)\b",
        r"^\W*(?:I am |this is )?[Rr]ank (?P<r>\d+)/(?P<w>\d+)\b(?= (?:start|init|ready|up|join|on |host|pid|using))",
        r"GLOBAL_RANK: (?P<r>\d+), MEMBER: \d+/(?P<w>\d+)",
        r"^\s*Process rank: (?P<r>\d+), (?:world size: (?P<w>\d+)|device: (?P<d>[\w:]+))",
        r"^\s*Process index: (?P<r>\d+)\s*$",
        r"^\s*Num processes: (?P<w>\d+)\s*$",
        r"^\s*Local process index: (?P<l>\d+)\s*$",
        r"^LOCAL_RANK: (?P<l>\d+) - CUDA_VISIBLE_DEVICES",
        r"\| distributed init \(rank (?P<r>\d+)(?:, (?:gpu|world) (?P<d>\d+))?\)",
        r"^\[rank: (?P<r>\d+)\] (?!on )",
        r"^Rank (?P<r>\d+) has (?:\w+ )*(?:data|tensor|pipeline|context|model|expert|embedding)[\w -]* (?:group|rank)\b",
        r"^\[rank (?P<r>\d+), pid (?P<p>\d+)\]",
        r"^\[(?P<h>[\w.-]+):(?P<p>\d+)\] \[?rank[ =](?P<r>\d+)\]?",
        r"Setting up process group for: \S+ \[rank=(?P<r>\d+), world_size=(?P<w>\d+)\]",
        r"^\W*(?:my )?(?:global rank|GLOBAL RANK|global_rank|Global rank)[ =:]+(?P<r>\d+)(?:\D{1,20}(?:world[ _]size|WORLD SIZE)[ =:]+(?P<w>\d+))?",
        r"\bRANK[=:] ?(?P<r>\d+)[ ,|]+WORLD_SIZE[=:] ?(?P<w>\d+)",
        r"\bRANK[=:] ?(?P<r>\d+)[ ,|]+LOCAL_RANK[=:] ?(?P<l>\d+)(?:[ ,|]+WORLD_SIZE[=:] ?(?P<w>\d+))?",
    )
)
# one variable a line, as `env` or `export -p` print them; quotes as in Python dumps of os.environ
_ENV = re.compile(
    r"^\W*(?:export |declare -x )?'?(RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_RANK|PET_NODE_RANK|SLURM_PROCID|SLURM_LOCALID|SLURM_NODEID|SLURM_NTASKS"
    r"|OMPI_COMM_WORLD_RANK|OMPI_COMM_WORLD_SIZE|OMPI_COMM_WORLD_LOCAL_RANK|PMI_RANK|PMI_SIZE|HOSTNAME|TORCHELASTIC_RESTART_COUNT|SLURM_RESTART_COUNT)'?(?:=|: )[\"']?([\w.-]+)[\"',]*\s*$"
)
_ENV_KEYS = {
    "RANK": "global_rank", "WORLD_SIZE": "world_size", "LOCAL_RANK": "local_rank", "LOCAL_WORLD_SIZE": "local_world_size", "NODE_RANK": "node_rank",
    "GROUP_RANK": "node_rank", "PET_NODE_RANK": "node_rank", "SLURM_PROCID": "global_rank", "SLURM_LOCALID": "local_rank", "SLURM_NODEID": "node_rank",
    "SLURM_NTASKS": "world_size", "OMPI_COMM_WORLD_RANK": "global_rank", "OMPI_COMM_WORLD_SIZE": "world_size", "OMPI_COMM_WORLD_LOCAL_RANK": "local_rank",
    "PMI_RANK": "global_rank", "PMI_SIZE": "world_size", "HOSTNAME": "host",
    "TORCHELASTIC_RESTART_COUNT": "restart", "SLURM_RESTART_COUNT": "restart",
}  # fmt: skip
_NAMES = {"r": "global_rank", "w": "world_size", "l": "local_rank", "p": "pid", "h": "host", "d": "device"}
_LOCAL = re.compile(r"\blocal[ _]rank[=:]? ?(\d+)\b", re.IGNORECASE)
_HOST = re.compile(r"\b(?:host(?:name)?|node)[=:] ?([A-Za-z][\w.-]*)")
_OWN_PID = re.compile(r"\bpid[=: ]+(\d+)")
_PID = re.compile(r"\bpid[ =](?P<p>\d+) (?:is|->|=) (?:global )?rank (?P<r>\d+)\b|\b[Rr]ank (?P<r2>\d+) (?:is|has|->) pid (?P<p2>\d+)\b")
_HEADER = re.compile(r"(?:^|[^\w\s]\s*)(?:[\[(][Rr]ank[ =:]*(?P<a>\d+)[\])]|rank=(?P<b>\d+)(?:/(?P<w>\d+))? \||rank(?P<c>\d+)\[(?P<p>\d+)\])")
_FRONT = re.compile(r"^\[(?:user )?[Rr]ank ?(?P<a>\d+)\] (?!\w+Watchdog)(?=[a-z])")
_SUFFIX = re.compile(r" \(rank (?P<a>\d+)\)\s*$")
_RANK_ZERO_LOGGER = re.compile(r"\b(?:log_dist|print_dist|log_rank_?0\w*)\b|logging\.py")

SAMPLES = (
    Sample("initializing process group: rank=1 world_size=4 backend=gloo timeout=12.0s", "identity", {"global_rank": 1, "world_size": 4}),
    Sample("Initializing distributed: GLOBAL_RANK: 3, MEMBER: 4/16", "identity", {"global_rank": 3, "world_size": 16}, "lightning/fabric/utilities/distributed.py"),
    Sample("[INFO|2026-01-01 10:00:00] app:1 >> Process rank: 3, device: cuda:3, n_gpu: 1, distributed training: True", "identity", {"global_rank": 3}, "transformers examples"),
    Sample("| distributed init (rank 3): env://, gpu 3", "identity", {"global_rank": 3}, "torchvision references"),
    Sample("trainer pid 5506 is rank 6", "mapping", {"pid": 5506, "global_rank": 6}),
    Sample("TORCHELASTIC_RESTART_COUNT=2", "identity", {"restart": 2}, "torch/distributed/elastic/agent/server/local_elastic_agent.py"),
    Sample("SLURM_PROCID=5", "identity", {"global_rank": 5}, "env"),
    Sample("[2024-05-01 12:34:56,789] [INFO] [train.py:96:say] [Rank 2] model has 9 parameters", "identity", {"global_rank": 2, "how": "header"}),
)  # fmt: skip


def parse(line: Line, out: Sink) -> bool:
    """Emits identity or mapping, never owns the line."""
    text = line.msg
    if "pid" in text and (m := _PID.search(text)):
        out.mapping(line, NAME, pid=int(m["p"] or m["p2"]), global_rank=int(m["r"] or m["r2"]))
        return False
    state = out.state(NAME, line.stream)
    found = statement(text) or _env(text)
    if found is not None:
        if state.get("said", 0) < STATEMENTS_KEPT:
            state["said"] = state.get("said", 0) + 1
            out.identity(line, NAME, **found)
        return False
    claim = header_claim(line)
    claims: set[tuple[tuple[str, Any], ...]] = state.setdefault("claims", set())
    if claim is not None and (said := tuple(claim.items())) not in claims:
        claims.add(said)
        out.identity(line, NAME, **claim)
    return False


def statement(text: str) -> dict[str, Any] | None:
    """What a message says about its own process, None if nothing."""
    if "ank" not in text and "RANK" not in text and "ndex" not in text and "Num proc" not in text:
        return None
    for pattern in _OWN:
        m = pattern.search(text)
        if m is None:
            continue
        found: dict[str, Any] = {"how": "own words"}
        for group, value in m.groupdict().items():
            if value is not None:
                found[_NAMES[group]] = int(value) if value.isdigit() else value
        for key, more in (("local_rank", _LOCAL), ("host", _HOST), ("pid", _OWN_PID)):
            if key not in found and (x := more.search(text)):
                found[key] = int(x[1]) if x[1].isdigit() else x[1]
        return found
    return None


def header_claim(line: Line) -> dict[str, Any] | None:
    """The rank that a log header, a ``[rank 3]`` in front or a ``(rank 3)`` behind claims for its printer."""
    head = line.text[: len(line.text) - len(line.msg)]
    m = _HEADER.search(head) if "ank" in head else None
    how = "header"
    if m is None and "ank" in line.msg:
        m = _FRONT.match(line.msg)
        if m is None and line.level in ("INFO", "DEBUG", None) and (m := _SUFFIX.search(line.msg)):
            how = "suffix"
    if m is None:
        return None
    groups = m.groupdict()
    rank = int(groups.get("a") or groups.get("b") or groups.get("c") or 0)
    if rank == 0 and how == "header" and _RANK_ZERO_LOGGER.search(head):
        return {"claimed_rank": 0, "how": how}
    claim: dict[str, Any] = {"global_rank": rank, "how": how}
    if groups.get("w"):
        claim["world_size"] = int(groups["w"])
    if groups.get("p"):
        claim["pid"] = int(groups["p"])
    return claim


def _env(text: str) -> dict[str, Any] | None:
    m = _ENV.match(text)
    if m is None:
        return None
    key = _ENV_KEYS[m[1]]
    if key != "host" and not m[2].isdigit():
        return None
    return {key: m[2] if key == "host" else int(m[2]), "how": f"environment {m[1]}"}
