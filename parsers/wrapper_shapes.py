"""The shapes of wrapper layers: what collectors and launchers put before a line.

Two families. *Plain* shapes cannot be mistaken for text (``[default3]:``, ``[1,3]<stderr>:``, ``(Actor pid=1) ``):
they are peeled wherever they stand. *Counted* shapes look like ordinary text on a single line (``3: ``, ``node-1: ``):
`parsers.wrappers.decide` allows them for a file only when they cover it. Formats: Slurm (srun --label), Open MPI 4 and 5,
Hydra, pdsh, torchrun's tail logger, c10d's excepthook, Ray, SkyPilot, Determined, TorchX, Vertex AI, kubectl and CRI.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from correlator.parsers.schema import Stamp, Tag
from correlator.parsers.times import parse_stamp

_A = re.ASCII
_FAR_US = 4_102_444_800_000_000  # year 2100: collectors print the year, so no year has to be inferred
_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_CTIME = r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}"

Peeled = tuple[Tag | None, Stamp | None]
Make = Callable[[re.Match[str]], Peeled]


@dataclass(frozen=True, slots=True)
class Layer:
    """One shape: what it matches and which tag it makes. `name` is its own, a tag kind may have several shapes."""

    name: str
    pattern: re.Pattern[str]
    make: Make


def collector_time(text: str | None) -> Stamp | None:
    """The time a collector printed, None when there is none or it is broken."""
    if not text:
        return None
    found = parse_stamp(text, ref_us=_FAR_US)
    return found[0] if found else None


def _int(text: str | None) -> int | None:
    return int(text) if text else None


def _extra(**values: Any) -> dict[str, Any] | None:
    return {k: v for k, v in values.items() if v is not None} or None


# ---- plain shapes: by first character --------------------------------------------------------------
def _mpi(m: re.Match[str]) -> Peeled:
    extra = _extra(pid=_int(m["pid"]), stream=m["stream"], job=m["job"])
    return Tag("mpi", int(m["rank"]), m["host"] or m["h2"], False, extra), collector_time(m["ts"])


def _determined(m: re.Match[str]) -> Peeled:
    """Lines of the container itself have no rank, hence no tag."""
    tag = Tag("determined", int(m["n"]), None, False, _extra(container=m["cid"])) if m["n"] else None
    return tag, collector_time(m["ts"])


# [rank3]: of the excepthook has a blank of its own; after [default3]: a blank is the worker's text
RANKTAG = Layer(
    "ranktag", re.compile(r"\[rank(?P<n>\d{1,6})\]:(?P<sp> ?)", _A),
    lambda m: (Tag("ranktag", int(m["n"]), None, bool(m["sp"])), None),
)  # fmt: skip
TEE = Layer(
    "tee",
    re.compile(
        r"\[(?!(?i:step|epoch|iter\w*|layer|stage|batch|gpu|cuda|note|line)\d)(?P<role>[A-Za-z_][\w.-]*?)(?P<n>\d{1,6})\]:",
        _A,
    ),
    lambda m: (Tag("tee", int(m["n"]), m["role"]), None),
)
_LT, _GT = r"(?:<|&lt;| ?lt;)", r"(?:>|&gt;|gt;)?"  # pasted logs have damaged brackets
_MPI_TAG = (
    r"\[(?:(?P<job>[\w@.-]+),)?(?:mpirank:)?(?P<rank>\d{1,7})(?:,(?P<host>[\w.-]+))?\]"
    rf"(?:\[(?P<h2>[^:\]\s]+):(?P<pid>\d{{1,10}})\])?{_LT}(?P<stream>stdout|stderr|stddiag){_GT}: ?"
)
MPI = Layer("mpi", re.compile(rf"(?P<ts>){_MPI_TAG}", _A), _mpi)
MPI_TIMED = Layer("mpi_timed", re.compile(rf"(?P<ts>\[?(?:{_CTIME}|{_ISO})\]?):? ?{_MPI_TAG}", _A), _mpi)
KUBECTL = Layer(
    "kubectl", re.compile(r"\[pod/(?P<pod>[a-z0-9][a-z0-9.-]*)/(?P<ctr>[a-z0-9][a-z0-9-]*)\] ?", _A),
    lambda m: (Tag("pod", None, m["pod"], False, {"container": m["ctr"]}), None),
)  # fmt: skip
RANK_EQ = Layer("rank_eq", re.compile(r"\[rank=(?P<n>\d{1,6})\] ", _A), lambda m: (Tag("determined", int(m["n"])), None))
DETERMINED = Layer(
    "determined",
    re.compile(rf"(?:\[(?P<ts>{_ISO})\] )?(?:(?P<cid>[0-9a-f]{{8}})|\s{{8}})? ?(?:\[rank=(?P<n>\d{{1,6}})\])?\s*\|\| ?", _A),
    _determined,
)
STD = Layer("std", re.compile(r"\[(?P<s>stdout|stderr)\]: ", _A), lambda m: (Tag("std", None, m["s"]), None))  # Composer's FileLogger
SKY = Layer(
    "sky",
    re.compile(
        r"\((?P<node>head|worker\d+|task|setup)(?:, rank=(?P<r>\d{1,6}))?(?:,? pid=(?P<pid>\d{1,10}))?(?:, ip=(?P<ip>[\d.]+))?\) ",
        _A,
    ),
    lambda m: (Tag("sky", _int(m["r"]), m["node"], False, _extra(pid=_int(m["pid"]), ip=m["ip"])), None),
)
RAY = Layer(
    "ray",
    re.compile(r"\((?P<actor>[^()\n]{0,120}(?:\([^()\n]{0,120}\))?[^()\n]{0,120}?) ?\bpid=(?P<pid>\d{1,10})(?:, ip=(?P<ip>[\d.a-fA-F:]+))?\) ?", _A),
    lambda m: (
        Tag("ray", _rank_of(m["actor"]), m["actor"].strip() or None, False, _extra(pid=int(m["pid"]), ip=m["ip"])), None,
    ),
)  # fmt: skip


def _rank_of(actor: str) -> int | None:
    """Some actors carry their rank in the name: ``PolicyWorker[rank=9]``."""
    m = re.search(r"rank=(\d{1,6})", actor)
    return int(m[1]) if m else None


PLAIN: dict[str, tuple[Layer, ...]] = {"[": (RANKTAG, TEE, MPI, KUBECTL, RANK_EQ, STD), "(": (SKY, RAY)}

# ---- counted shapes --------------------------------------------------------------------------------
CRI = Layer(
    "cri",
    re.compile(
        r"(?P<ts>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) (?P<s>stdout|stderr) (?P<t>[PF])(?::\S*)?(?: |$)",
        _A,
    ),
    lambda m: (Tag("std", None, m["s"], False, {"partial": m["t"] == "P"}), collector_time(m["ts"])),
)
TIMED = Layer("timed", re.compile(rf"(?P<ts>{_ISO.replace('[T ]', 'T')})(?: |$)", _A), lambda m: (None, collector_time(m["ts"])))
LABEL = Layer(
    "label", re.compile(r"(?:P(?P<het>\d{1,5}) )?(?P<id> {0,5}\d{1,6})(?::| ?\|)(?: |$)", _A),
    lambda m: (Tag("label", int(m["id"]), None, False, _extra(component=_int(m["het"]))), None),
)  # fmt: skip
HYDRA = Layer("hydra", re.compile(r"\[(?P<id>\d{1,6})\] ", _A), lambda m: (Tag("mpi", int(m["id"])), None))
HOST_RANK = Layer(
    "hostrank",
    re.compile(r"(?P<host>[A-Za-z][\w.-]*)(?<!\.py)(?<!\.cc)(?<!\.cu)(?<!\.cpp):(?P<id>\d{1,6}):(?: |$)", _A),
    lambda m: (Tag("hostrank", int(m["id"]), m["host"]), None),
)
REPLICA = Layer(
    "replica", re.compile(r"(?P<name>[A-Za-z_][\w.-]*)/(?P<id>\d{1,5}) ", _A),
    lambda m: (Tag("replica", int(m["id"]), m["name"]), None),
)  # fmt: skip
VERTEX = Layer(
    "vertex", re.compile(rf"[A-Z]+\t(?P<ts>{_ISO}(?: [+-]\d{{4}})?)\t(?P<name>[\w-]+?(?P<ix>\d{{1,6}})?)\t", _A),
    lambda m: (Tag("replica", _int(m["ix"]), m["name"]),
               collector_time(m["ts"])),
)  # fmt: skip
HOST = Layer("host", re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*):(?: |$)", _A), lambda m: (Tag("host", None, m["name"]), None))
# A constant block without colon: a unit's name, then perhaps the stream: ``job-a.cluster [stderr] ``
_STREAM = r"(?: [\[(<]?(?P<s>stdout|stderr)[\])>]?:?)?(?: \|)? "
UNIT = Layer(
    "unit", re.compile(rf"(?P<name>[A-Za-z][\w.-]*){_STREAM}", _A),
    lambda m: (Tag("host", None, m["name"], False, _extra(stream=m["s"])), None),
)  # fmt: skip

_NOT_HOST = re.compile(
    r"(?i)^(?:rank|gpu|cuda|device|step|epoch|iter(?:ation)?|layer|stage|batch|fold|trial|process|proc|thread|frame)?[_-]?\d*$"
    r"|(?:error|exception|warning|interrupt|exit|\.py|\.cpp|\.cc|\.cu|\.json|\.yaml|\.sh|\.so)$"
    r"|^v?\d+(?:\.\d+)+\w*$|^(?:info|debug|fatal|critical|note|usage|traceback|srun|slurmstepd|bash|sh|python3?|torchrun|mpirun)$"
)


def host_like(name: str) -> bool:
    """Whether a token can be a machine's name: a digit, a dash or a dot inside a word; ``localhost``.

    IPv4 addresses count, versions, file names, exception classes and counters (``step10``) do not.
    """
    if re.fullmatch(r"\d{1,3}(?:\.\d{1,3}){3}", name):
        return True
    if _NOT_HOST.search(name) or not any(c.isalpha() for c in name):
        return False
    return name == "localhost" or any(c.isdigit() for c in name) or "-" in name[1:-1] or "." in name[1:-1]


def unit_like(name: str) -> bool:
    """Stricter than `host_like`, for a name with no colon after it: a digit and a joint, or two joints."""
    joints = sum(name[1:-1].count(c) for c in ".-")
    return host_like(name) and (joints >= 2 or (joints >= 1 and any(c.isdigit() for c in name)))


def host_shape(name: str) -> str:
    """Names of one cluster differ in digits (and a last letter): ``node-07`` and ``node-12`` have one shape."""
    return re.sub(r"\d+", "#", name)
