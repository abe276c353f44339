"""Wrapper layers of a file: decided once from a sample, peeled off every line, outermost first.

Prefixes stack (CRI > tee > excepthook; srun label > tee > excepthook) and many of them look like text, so which ones a
file has is a question of coverage over the file, not of a single line: ``12: `` also numbers source lines, ``node1: ``
has the form of ``Traceback: ``, ``Epoch 3: `` or ``bash: line 3:``. See `parsers.wrapper_shapes` for the shapes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from correlator.parsers import wrapper_json as wj
from correlator.parsers import wrapper_shapes as shapes
from correlator.parsers.schema import Stamp, Tag
from correlator.parsers.times import DateOrder, parse_stamp, slash_order
from correlator.parsers.wrapper_shapes import PLAIN, Layer

MAX_LAYERS = 5
MOST = 0.6  # share of lines that a prefix must cover when its shape alone proves nothing

_OWN_LOGGER = re.compile(r"\[[VIWEF]\d{3,4} |\[[VIWEF] [\w.]+:\d+\]|[VIWEC]\d{4} \d\d:|\[\d{4}-\d\d-\d\d [\d:,]+\] (?:\[|torch)")
_C10_RANK = re.compile(r"\[rank\d{1,6}\]:(?: |\[[VIWEF][ \d]|[VIWEC]\d{4} |$)")
# Lines that name their writer themselves may bypass a task label (NCCL_DEBUG_FILE=/dev/stderr, srun's own words)
_SELF_NAMED = re.compile(r"(?:srun|slurmstepd(?:-[\w.-]+)?): |[\w.-]+:\d+:\d+ (?:\[-?\d+\]|NCCL)")


@dataclass(slots=True)
class WrapperPlan:
    """The layers of one file. Immutable in use; `peel` may be called for any line, in any order.

    Attributes:
        json: lines are objects of a collector. layers: counted layers, outermost first.
        hosts: names that stand for hosts in this file, and their shapes. tee_rank: ``[rankN]:`` is a tee prefix here
            (template or ``--role rank``). order: meaning of slash dates in this file.
    """

    json: bool = False
    layers: tuple[Layer, ...] = ()
    hosts: frozenset[str] = frozenset()
    host_shapes: frozenset[str] = frozenset()
    tee_rank: bool = False
    tear: re.Pattern[str] | None = None
    order: DateOrder = DateOrder.US

    def peel(self, raw: str) -> tuple[tuple[Tag, ...], str, Stamp | None]:
        """Takes the wrappers off one line. Never raises.

        Returns:
            Tags outermost first, the text that is left (a suffix of `raw`, except for JSON), and the collector's time.
        """
        tags: list[Tag] = []
        outer: Stamp | None = None
        if self.json and (value := wj.load(raw)) is not None:
            found, raw, outer = wj.unwrap(value)
            tags.extend(found)
        pos = done = 0
        for _ in range(MAX_LAYERS):
            peeled = self._plain(raw, pos)
            while peeled is None and done < len(self.layers):
                peeled = self._counted(self.layers[done], raw, pos)
                done += 1
            if peeled is None:
                break
            tag, stamp, pos = peeled
            if tag is not None:
                tags.append(tag)
            outer = outer or stamp
        if len(tags) > 1 or self.tee_rank:
            self._settle_rank_tags(tags)
        return tuple(tags), raw[pos:], outer

    def split(self, raw: str) -> list[str]:
        """Parts a line that two writers tore: the file's own prefix stands again inside of it."""
        if self.json and raw[:1] == "{":
            return wj.pieces(raw)
        if self.tear is None and raw.find("[rank", 1) < 0:
            return [raw]
        cuts = [m.start() for m in _C10_RANK.finditer(raw, 1)]
        if self.tear is not None:
            cuts += [m.start() for m in self.tear.finditer(raw, 1)]
        if not cuts:
            return [raw]
        front = len(raw) - len(self.peel(raw)[1])  # prefixes that are stacked are not torn
        out, start = [], 0
        for cut in sorted(set(cuts)):
            if cut < front or raw[cut - 1] in "'\"`":
                continue
            out.append(raw[start:cut])
            start, front = cut, cut + len(raw[cut:]) - len(self.peel(raw[cut:])[1])
        out.append(raw[start:])
        return out

    # ---- one layer ------------------------------------------------------------------------------
    @staticmethod
    def _plain(raw: str, pos: int) -> tuple[Tag | None, Stamp | None, int] | None:
        for layer in PLAIN.get(raw[pos : pos + 1], ()):
            if m := layer.pattern.match(raw, pos):
                return (*layer.make(m), m.end())
        return None

    def _counted(self, layer: Layer, raw: str, pos: int) -> tuple[Tag | None, Stamp | None, int] | None:
        m = layer.pattern.match(raw, pos)
        if m is None:
            return None
        if layer is shapes.HOST or layer is shapes.UNIT:
            name = m["name"]
            if name not in self.hosts and not (shapes.host_shape(name) in self.host_shapes and shapes.host_like(name)):
                return None
        return (*layer.make(m), m.end())

    def _settle_rank_tags(self, tags: list[Tag]) -> None:
        """Of two ``[rankN]:`` the inner one is c10d's; an outer one that differs is a launcher's local rank."""
        at = [i for i, t in enumerate(tags) if t.kind == "ranktag"]
        for i in at[:-1]:
            if tags[i].value != tags[at[-1]].value:
                tags[i] = Tag("tee", tags[i].value, "rank")
        if self.tee_rank and at and tags[at[0]].kind == "ranktag" and not tags[at[0]].spaced:
            t = tags[at[0]]
            tags[at[0]] = Tag("ranktag", t.value, t.name, t.spaced, {"template": True})


def decide(sample: Sequence[str]) -> WrapperPlan:
    """Finds out which wrapper layers a file has.

    Args:
        sample: lines of the file, ANSI codes removed, from as many places as possible.
    """
    lines = [t for t in sample if t.strip()]
    plan = WrapperPlan(order=slash_order(lines))
    if not lines:
        return plan
    if lines[0][:1] == "{" or sum(t[:1] == "{" for t in lines) > len(lines) / 2:
        loaded = [(t, wj.load(t)) for t in lines]
        if sum(v is not None for _, v in loaded) > len(lines) / 2:
            plan.json = True
            lines = [part for t, v in loaded for part in (wj.unwrap(v)[1].split("\n") if v else [t])]
    ranks = [t for t in lines if t.startswith("[rank")]
    lines = _strip_plain(lines)
    layers: list[Layer] = []
    while len(layers) < MAX_LAYERS:
        body = [t for t in lines if t.strip()]
        layer, hosts = _next_layer(body, layers)
        if layer is None:
            break
        layers.append(layer)
        plan.layers = tuple(layers)
        if hosts:
            plan.hosts |= hosts
            plan.host_shapes |= {shapes.host_shape(h) for h in hosts if any(c.isdigit() for c in h)}
        peeled = [(t, plan._counted(layer, t, 0)) for t in lines]
        lines = [t[p[2] :] if p else t for t, p in peeled]
        ranks += [t for t in lines if t.startswith("[rank")]
        lines = _strip_plain(lines)
    plan.tee_rank = _rank_is_tee(ranks)
    plan.tear = _tear_pattern(sample, plan)
    return plan


def _strip_plain(lines: list[str]) -> list[str]:
    out = []
    for text in lines:
        pos = 0
        while (m := WrapperPlan._plain(text, pos)) is not None and m[2] > pos:
            pos = m[2]
        out.append(text[pos:])
    return out


def _next_layer(lines: list[str], have: list[Layer]) -> tuple[Layer | None, frozenset[str]]:
    """The outermost counted layer of these lines, with the host names that it has learned."""
    none: frozenset[str] = frozenset()
    if not lines:
        return None, none
    total = len(lines)
    for layer, share in ((shapes.CRI, 0.3), (shapes.MPI_TIMED, 0.1), (shapes.VERTEX, 0.5)):
        if layer not in have and sum(bool(layer.pattern.match(t)) for t in lines) >= max(1, share * total):
            return layer, none
    if shapes.DETERMINED not in have and _count(shapes.DETERMINED, lines) >= 0.5 * total:
        return shapes.DETERMINED, none
    if shapes.TIMED not in have and _is_collector_time(lines):
        return shapes.TIMED, none
    for layer in (shapes.HOST_RANK, shapes.REPLICA, shapes.LABEL, shapes.HYDRA):
        if layer not in have and _is_numbered(layer, lines):
            return layer, none
    for layer in (shapes.HOST, shapes.UNIT):
        if not {shapes.HOST, shapes.UNIT} & set(have) and (names := _host_names(layer, lines)):
            return layer, names
    return None, none


def _count(layer: Layer, lines: list[str]) -> int:
    return sum(bool(layer.pattern.match(t)) for t in lines)


def _is_collector_time(lines: list[str]) -> bool:
    """A time before every line is a collector's when it is printed in nanoseconds or stands before continuations."""
    hits = [m for t in lines if (m := shapes.TIMED.pattern.match(t))]
    if len(hits) < 3 or len(hits) < 0.9 * len(lines):
        return False
    nanos = sum(len(m["ts"].partition(".")[2].rstrip("Z")) >= 7 for m in hits)
    if nanos > len(hits) / 2:
        return True
    rest = [m.string[m.end() :] for m in hits]
    inner = sum(bool(re.match(r"\s{2,}|Traceback", r)) or parse_stamp(r, ref_us=1 << 51) is not None for r in rest)
    return inner >= max(2, 0.02 * len(rest))


def _is_numbered(layer: Layer, lines: list[str]) -> bool:
    """Coverage, and numbers that come back: source lines and counters show each number once."""
    ids = [int(m["id"]) for t in lines if (m := layer.pattern.match(t))]
    if layer is shapes.LABEL and len(ids) < 0.5 * len(lines):
        lines = [t for t in lines if not _SELF_NAMED.match(t)]
    if len(ids) < max(2, (0.5 if layer is shapes.LABEL else MOST) * len(lines)):
        return False
    distinct = set(ids)
    rising = sum(b == a + 1 for a, b in pairwise(ids))
    if len(ids) >= 6 and (len(distinct) > len(ids) * 0.6 or rising > 0.9 * (len(ids) - 1)):
        # every task of a big step may have said one thing only: then the numbers are dense, and not in order
        return len(distinct) > 4 and max(distinct) < 2 * len(distinct) and rising < 0.5 * len(ids) and min(distinct) == 0
    return len(ids) >= 6 or (max(distinct) < 4 * len(distinct) and rising < len(ids) - 1 or len(distinct) == 1)


def _host_names(layer: Layer, lines: list[str]) -> frozenset[str]:
    """Names that open most lines: several recurring ones, or a single one that looks like a machine."""
    names = Counter(m["name"] for t in lines if (m := layer.pattern.match(t)))
    looks = shapes.host_like if layer is shapes.HOST else shapes.unit_like
    hosts = {n: c for n, c in names.items() if looks(n)}
    recurring = sum(hosts.values()) >= 2 * len(hosts)
    if not hosts or not recurring or sum(hosts.values()) < MOST * len(lines):
        return frozenset()
    if layer is shapes.UNIT and sum(hosts.values()) < 8:
        return frozenset()
    return frozenset(hosts)


def _rank_is_tee(lines: list[str]) -> bool:
    """``[rankN]:`` before text that neither c10d nor the excepthook writes comes from torchrun's tail logger."""
    doubled = plain = 0
    for text in lines:
        rest = text[text.index("]") + 1 :] if "]" in text else ""
        if rest[:1] != ":" or rest[1:2] in ("", " "):
            continue
        if rest.startswith(":[rank"):
            doubled += 1
        elif not _OWN_LOGGER.match(rest, 1):
            plain += 1
    return doubled > 0 or plain > 2


def _tear_pattern(sample: Sequence[str], plan: WrapperPlan) -> re.Pattern[str] | None:
    """What to look for inside of lines: the tee roles and MPI tags that the file shows at the start of lines."""
    roles: Counter[str] = Counter()
    mpi = 0
    for raw in sample:
        for tag in plan.peel(raw)[0]:
            if tag.kind == "tee" and tag.name and tag.name != "rank":
                roles[tag.name] += 1
            mpi += tag.kind == "mpi" and bool(tag.extra and tag.extra.get("stream"))
    options = [rf"\[{re.escape(role)}\d{{1,6}}\]:" for role in roles]
    if plan.tee_rank:
        options.append(r"\[rank\d{1,6}\]:")
    if mpi:
        options.append(r"\[[\w@.-]+,(?:mpirank:)?\d+(?:,[\w.-]+)?\]<(?:stdout|stderr|stddiag)>:")
    return re.compile("|".join(options)) if options else None
