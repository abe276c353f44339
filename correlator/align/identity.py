"""Who wrote what: identity is evidence with a kind, resolved to ranks once for the whole job.

A number called rank is often a local rank, a node rank or a device. Every statement is kept with its
kind; the strongest kind that is unique for a writer wins, and what cannot be resolved stays unknown.

Precedence, strongest first: a global rank that c10d printed on the writer's own lines; the writer's own
statement ("rank=3 world_size=8"); an outer label that is known to be global (mpi, srun of one task a rank);
a path that says rank; local rank plus the base of its node (from any resolved sibling or the launcher's
table); a dense family of numbered files.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any

from correlator.align.attempts import attempt_bounds, first_attempts, group_of
from correlator.discover import SourceRef
from correlator.parsers.pipeline import Part
from correlator.parsers.schema import Event

_LOOPBACK = {"localhost", "127.0.0.1", "localhost.localdomain", ""}


@dataclass(slots=True)
class Writer:
    """One process-like writer: a unit of a source within an attempt."""

    source_id: int
    unit: str
    attempt: int
    node: str | None = None  # what tells its machine apart from others (path component, tag or host name)
    agent_dir: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    node_rank: int | None = None
    pid: int | None = None
    how: str = ""
    kind: str = "writer"  # writer, agent, host (kernel, scheduler)
    conflict: str = ""


@dataclass(slots=True)
class StreamRow:
    """Identity of one stream (per attempt), ready for the ``streams`` table."""

    stream_id: int
    key: str
    host: str | None
    pid: int | None
    node_rank: int | None
    rank: int | None
    local_rank: int | None
    attempt: int
    evidence: str
    key_kind: str


@dataclass(slots=True)
class Identity:
    """The resolved job: writers, streams, who is known under which pid, and the world size."""

    world_size: int | None = None
    streams: list[StreamRow] = field(default_factory=list)
    moves: list[tuple[int, int, int]] = field(default_factory=list)  # old stream, first line, new stream
    pid_rank: dict[tuple[int, str | None, int], int] = field(default_factory=dict)
    known: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)  # (attempt, rank) -> facts
    attempts: int = 1
    aliases: dict[str, str] = field(default_factory=dict)  # ip or fqdn -> host
    problems: list[tuple[str, str]] = field(default_factory=list)
    group_of: dict[int, str] = field(default_factory=dict)
    multi_node: bool = False


def number_streams(parts: list[Part]) -> dict[tuple[int, str], int]:
    """Stream ids by (source_id, stream key), in the order of sources and first lines."""
    out: dict[tuple[int, str], int] = {}
    for part in parts:
        for key in part.streams:
            out[part.source_id, key] = len(out)
    return out


def resolve(parts: list[Part], refs: list[SourceRef], stream_ids: dict[tuple[int, str], int], rank_map: dict[str, int] | None = None,
            world_size: int | None = None) -> Identity:  # fmt: skip
    """Resolves identity for all streams of a job."""
    return _Resolver(parts, refs, stream_ids, rank_map or {}, world_size).run()


class _Resolver:
    def __init__(self, parts: list[Part], refs: list[SourceRef], stream_ids: dict[tuple[int, str], int], rank_map: dict[str, int], ws: int | None) -> None:
        self.parts, self.stream_ids, self.rank_map = parts, stream_ids, rank_map
        self.refs = {r.source_id: r for r in refs}
        self.out = Identity(world_size=ws)
        self.writers: dict[tuple[int, str, int], Writer] = {}
        self.bounds: dict[tuple[int, str], list[int]] = {}  # (source, launcher's group) -> lines after which the next attempt begins
        self.first: dict[int, int] = {}  # source -> its first attempt, where the path does not tell
        self.base: dict[tuple[Any, int], int] = {}  # (node key, attempt) -> global rank of local rank 0
        self.labels_are_nodes = False  # srun started a launcher a node: its task numbers are no ranks
        self.nodes_of: dict[int, str] = {}  # source -> machine, where a part of its path is the name of one

    def run(self) -> Identity:
        for part in self.parts:
            for group, lines in attempt_bounds(part).items():
                self.bounds[part.source_id, group] = lines
        self.first = first_attempts(self.parts, self.bounds, {r.source_id for r in self.refs.values() if r.hints.attempt is not None})
        self._named_paths()
        self._writers()
        self._own_words()
        self._labels_and_paths()
        self._launcher_tables()
        self._local_ranks()
        self._families()
        self._pids()
        self._name_exits()
        self._world()
        self._claims()
        self._files_called_after_hosts()
        self._rows()
        self._hosts_between()
        return self.out

    # ---- helpers --------------------------------------------------------------------------------
    def first_attempt(self, source_id: int) -> int:
        hint = self.refs[source_id].hints.attempt
        return hint if hint is not None else self.first.get(source_id, 0)

    def attempt_at(self, source_id: int, unit: str, line: int) -> int:
        return self.first_attempt(source_id) + sum(1 for b in self.bounds.get((source_id, group_of(unit)), ()) if line > b)

    def writer(self, source_id: int, unit: str, attempt: int) -> Writer:
        key = (source_id, unit, attempt)
        w = self.writers.get(key)
        if w is None:
            hints = self.refs[source_id].hints
            w = self.writers[key] = Writer(source_id, unit, attempt, node=hints.node or self.nodes_of.get(source_id), agent_dir=hints.agent_dir, local_rank=hints.local_rank,
                                           node_rank=hints.node_rank, pid=hints.pid)  # fmt: skip
        return w

    def _unit(self, part: Part, stream: str) -> str:
        return part.streams[stream].unit

    def _events(self, *kinds: str) -> Any:
        for part in self.parts:
            for ev in part.events:
                if ev.kind in kinds:
                    yield part, ev, self.attempt_at(part.source_id, self._unit(part, ev.stream), ev.line)

    # ---- steps ----------------------------------------------------------------------------------
    def _named_paths(self) -> None:
        """``n1/dmesg.txt``, ``worker-2.log``: a part of a path is a machine or pod if the logs know one of that name."""
        names: set[str] = set()
        for part in self.parts:
            for ev in part.events:
                for key in ("host", "node", "pod"):
                    if isinstance(value := ev.attrs.get(key), str) and value not in _LOOPBACK:
                        names.add(value.split(".")[0])
            names.update(tag.name for info in part.streams.values() for tag in info.tags if tag.kind in ("proc", "host", "pod") and tag.name)
        for ref in self.refs.values():
            if ref.hints.node is None:
                *folders, file = ref.path.replace("!", "/").split("/")
                named = [p for p in (*folders, file.split(".")[0]) if p in names]
                if named:
                    self.nodes_of[ref.source_id] = named[-1]

    def _writers(self) -> None:
        for part in self.parts:
            for info in part.streams.values():
                for attempt in range(self.attempt_at(part.source_id, info.unit, 0), self.attempt_at(part.source_id, info.unit, 1 << 60) + 1):
                    w = self.writer(part.source_id, info.unit, attempt)
                    for tag in info.tags:
                        if tag.kind == "tee":
                            w.local_rank = tag.value
                        elif tag.kind == "host" and tag.name:
                            w.node = w.node or tag.name
                        elif tag.kind == "hostrank":
                            w.node, w.rank, w.how = tag.name, tag.value, "host:rank prefix"
                        elif tag.kind in ("pod", "replica") and tag.name:
                            w.node = w.node or tag.name
                        elif tag.kind == "ray" and tag.extra:
                            w.node, w.pid = tag.extra.get("ip") or w.node, tag.extra.get("pid") or w.pid
                        elif tag.kind == "sky":
                            w.node_rank, w.node = tag.value, w.node or tag.name
                        elif tag.kind == "determined":
                            w.rank, w.how = tag.value, "[rank=N] prefix"

    def _own_words(self) -> None:
        """Ranks that the process itself (or c10d inside it) printed on its own lines."""
        tags: dict[tuple[int, str, int], Counter[int]] = defaultdict(Counter)
        words: dict[tuple[int, str, int], Counter[int]] = defaultdict(Counter)
        for part in self.parts:
            for info in part.streams.values():
                for tag in info.tags:
                    if tag.kind == "ranktag" and tag.value is not None:
                        for a in range(self.attempt_at(part.source_id, info.unit, info.first_line), self.attempt_at(part.source_id, info.unit, info.last_line) + 1):
                            tags[part.source_id, info.unit, a][tag.value] += 1
        for part, ev, attempt in self._events("identity"):
            unit = self._unit(part, ev.stream)
            w = self.writer(part.source_id, unit, attempt)
            a = ev.attrs
            if a.get("world_size"):
                self.out.world_size = max(self.out.world_size or 0, int(a["world_size"]))
            stream_tags = part.streams[ev.stream].tags
            if any(t.kind == "proc" for t in stream_tags):
                continue  # NCCL lines speak for their own process: handled per stream
            if a.get("global_rank") is not None:
                words[part.source_id, unit, attempt][int(a["global_rank"])] += 1
            if a.get("local_rank") is not None and w.local_rank is None:
                w.local_rank = int(a["local_rank"])
            if a.get("node_rank") is not None:
                w.node_rank = int(a["node_rank"])
            if a.get("host") and not w.node and str(a["host"]) not in _LOOPBACK:
                w.node = str(a["host"]).split(".")[0]
            if a.get("pid") and w.pid is None:
                w.pid = int(a["pid"])
        for key in {*tags, *words}:
            w = self.writer(*key)
            tag_ranks, word_ranks = set(tags.get(key, ())), set(words.get(key, ()))
            if len(word_ranks) == 1 and len(tag_ranks) <= 1:
                w.rank, w.how = next(iter(word_ranks)), "its own words"
                if tag_ranks and tag_ranks != word_ranks:
                    # two global claims disagree: the tag is then a launcher's local rank
                    w.conflict = f"prefix says {next(iter(tag_ranks))}"
            elif len(tag_ranks) == 1 and not word_ranks:
                w.rank, w.how = next(iter(tag_ranks)), "[rankN] prefix of c10d"
            elif len(tag_ranks) > 1 or len(word_ranks) > 1:
                w.kind = "merged"
                w.how = "several ranks write here"

    def _labels_and_paths(self) -> None:
        by_source: dict[int, dict[int, list[Writer]]] = defaultdict(lambda: defaultdict(list))
        merged: dict[int, bool] = defaultdict(bool)
        label_kinds: dict[tuple[int, str], int] = {}
        for part in self.parts:
            for info in part.streams.values():
                for tag in info.tags:
                    if tag.kind in ("label", "mpi") and tag.value is not None:
                        label_kinds[part.source_id, info.unit] = tag.value
        for w in self.writers.values():
            value = label_kinds.get((w.source_id, w.unit))
            if value is not None:
                by_source[w.source_id][value].append(w)
        for source_id, labels in by_source.items():
            # a label is a node when one label carries several processes (tee tags, merged ranks) or contradicts an own word
            for value, ws in labels.items():
                locals_ = {w.local_rank for w in ws if w.local_rank is not None}
                if len(locals_) > 1 or any(w.kind == "merged" for w in ws):
                    merged[source_id] = True
                if any(w.rank is not None and w.rank != value for w in ws):
                    merged[source_id] = True
            self.labels_are_nodes |= merged[source_id]
            for value, ws in labels.items():
                for w in ws:
                    if merged[source_id]:
                        w.node_rank, w.node = value, w.node or f"task{value}"
                    elif w.rank is None:
                        w.rank, w.how = value, "launcher's task label"
        for w in self.writers.values():
            hints = self.refs[w.source_id].hints
            mapped = self.rank_map.get(self.refs[w.source_id].path)
            if mapped is not None:
                w.rank, w.how = mapped, "--rank-map"
            elif w.rank is None and hints.rank is not None and w.kind != "merged" and not w.unit:
                w.rank, w.how = hints.rank, "path"

    def _launcher_tables(self) -> None:
        """Rank, local rank, pid and host as launchers print them; they also give the base of a node."""
        for part, ev, attempt in self._events("mapping", "exit_record"):
            a = ev.attrs
            rank = a.get("global_rank", ev.peer_rank)
            local, pid, host = a.get("local_rank"), a.get("pid"), a.get("host") or a.get("node")
            ws = a.get("world_size")
            if ws:
                self.out.world_size = max(self.out.world_size or 0, int(ws))
            unit = self._unit(part, ev.stream)
            node = self.writer(part.source_id, unit, attempt).node
            if host and str(host) not in _LOOPBACK:
                node = node or str(host).split(".")[0]
            if a.get("ip") and host:
                self.out.aliases[str(a["ip"])] = str(host).split(".")[0]
            where: list[Any] = [node] if node else [("source", part.source_id)]
            directory = _agent_dir_of(str(a.get("error_file") or ""))
            if directory:
                where.append(("dir", directory))
            ranks = a.get("global_ranks")
            if isinstance(ranks, list) and ranks:
                for key in where:
                    self.base[key, attempt] = min(int(r) for r in ranks)
            mapping = a.get("rank_map")
            if isinstance(mapping, dict):
                for name, members in mapping.items():
                    if members:
                        self.base[str(name), attempt] = min(int(m) for m in members)
                self.out.world_size = max(self.out.world_size or 0, sum(len(m) for m in mapping.values()))
            if rank is None:
                if pid is not None and local is not None:
                    self.out.known.setdefault((attempt, -1), {}).setdefault("pending", []).append((where, int(local), int(pid), host))
                continue
            rank = int(rank)
            info = self.out.known.setdefault((attempt, rank), {})
            for name, value in (
                ("local_rank", local),
                ("pid", pid),
                ("host", host if str(host) not in _LOOPBACK else None),
                ("pci_bus", a.get("pci_bus")),
                ("gpu", a.get("device")),
            ):
                if value is not None and info.get(name) is None:
                    info[name] = value
            if local is not None:
                for key in where:
                    self.base.setdefault((key, attempt), rank - int(local))
            if pid is not None:
                self.out.pid_rank[attempt, node, int(pid)] = rank

    def _node_keys(self, w: Writer) -> list[Any]:
        keys: list[Any] = []
        if w.agent_dir:
            keys.append(("dir", w.agent_dir.rsplit("/", 1)[-1]))
        if w.node:
            keys.append(w.node)
        keys.append(("source", w.source_id))
        return keys

    def _local_ranks(self) -> None:
        for w in self.writers.values():
            if w.rank is not None and w.local_rank is not None and w.kind == "writer":
                for key in self._node_keys(w):
                    self.base.setdefault((key, w.attempt), w.rank - w.local_rank)
        by_node: dict[tuple[str, int], set[int]] = defaultdict(set)
        for w in self.writers.values():
            if w.rank is not None and w.node and w.kind == "writer":
                by_node[w.node, w.attempt].add(w.rank)
        for (node, attempt), ranks in by_node.items():
            if max(ranks) - min(ranks) + 1 == len(ranks):  # ranks of a node are consecutive
                self.base.setdefault((node, attempt), min(ranks))
        pending = [w for w in self.writers.values() if w.rank is None and w.local_rank is not None and w.kind == "writer"]
        for w in pending:
            for key in self._node_keys(w):
                base = self.base.get((key, w.attempt))
                if base is not None:  # of this attempt only: rank numbers may change between attempts
                    w.rank, w.how = base + (w.local_rank or 0), "local rank plus the node's first rank"
                    break
        nodes = {self._node_keys(w)[0] for w in self.writers.values() if w.local_rank is not None}
        unresolved = [w for w in pending if w.rank is None]
        if unresolved and len(nodes) <= 1:
            for w in unresolved:  # one agent in the whole job: local is global
                w.rank, w.how = w.local_rank, "local rank of the only agent"
        for w in unresolved:
            if w.rank is None and w.node_rank is not None:
                size = 1 + max((o.local_rank or 0) for o in self.writers.values() if o.local_rank is not None)
                w.rank, w.how = w.node_rank * size + (w.local_rank or 0), "node rank times local world size"

    def _families(self) -> None:
        taken = {w.rank for w in self.writers.values() if w.rank is not None}
        # files of one family whose writers say their rank: do the numbers in the names agree?
        said = [
            (self.refs[w.source_id].hints.index, w.rank)
            for w in self.writers.values()
            if w.rank is not None and not w.unit and self.refs[w.source_id].hints.index is not None
        ]
        sure = len(said) >= 2 and all(index == rank for index, rank in said)
        for w in self.writers.values():
            index = getattr(self.refs[w.source_id].hints, "index", None)
            if w.rank is None and w.kind == "writer" and not w.unit and index is not None and index not in taken:
                w.rank, w.how = index, "path: its number, as the siblings' own words confirm" if sure else "number in the file name"

    def _pids(self) -> None:
        for w in self.writers.values():
            if w.rank is not None and w.pid is not None:
                self.out.pid_rank.setdefault((w.attempt, w.node, w.pid), w.rank)
        for w in self.writers.values():
            if w.rank is None and w.pid is not None:
                for node in (w.node, None):
                    r = self.out.pid_rank.get((w.attempt, node, w.pid))
                    if r is not None:
                        w.rank, w.how = r, "pid in the launcher's table"
                        break
        for attempt in sorted(a for a, rank in self.out.known if rank == -1):
            for where, local, pid, _host in self.out.known.pop((attempt, -1)).get("pending", []):
                for key in where:
                    base = self.base.get((key, attempt))
                    if base is None and len({k for k, _ in self.base}) == 0:
                        base = 0
                    if base is not None:
                        self.out.pid_rank.setdefault((attempt, key if isinstance(key, str) else None, pid), base + local)
                        info = self.out.known.setdefault((attempt, base + local), {})
                        info.setdefault("local_rank", local)
                        info.setdefault("pid", pid)
                        break

    def _name_exits(self) -> None:
        """Exit records and stops that only tell a pid or a local rank get their global rank."""
        launchers = self.labels_are_nodes or any(ev.attrs.get("by") in ("elastic", "deepspeed") for _, ev, _ in self._events("exit_record"))
        for _, ev, _ in self._events("killed_by_kernel"):
            tasks = ev.attrs.get("tasks") or ()
            if ev.source == "slurm" and len(tasks) == 1 and not launchers:
                ev.attrs["subject_rank"] = tasks[0]
        for part, ev, attempt in self._events("exit_record", "signalled"):
            if launchers and ev.attrs.get("by") == "slurm":
                ev.attrs["node_rank"], ev.peer_rank = ev.peer_rank, None  # the task is a launcher, its number a node's
                continue
            if ev.peer_rank is not None:
                continue
            w = self.writer(part.source_id, self._unit(part, ev.stream), attempt)
            pid, local = ev.attrs.get("pid"), ev.attrs.get("local_rank")
            node = ev.attrs.get("node") or w.node
            if pid is not None:
                for n in (node, w.node, None):
                    rank = self.out.pid_rank.get((attempt, n, int(pid)))
                    if rank is not None:
                        ev.peer_rank = rank
                        break
            if ev.peer_rank is None and local is not None:
                keys = self._node_keys(w)
                for key in keys:
                    base = self.base.get((key, attempt))
                    if base is not None:
                        ev.peer_rank = base + int(local)
                        break
                else:
                    bases = {b for (_, a), b in self.base.items() if a == attempt} or set(self.base.values())
                    if len(bases) == 1:
                        ev.peer_rank = bases.pop() + int(local)
                    elif not bases and not self.out.multi_node and len({x.node for x in self.writers.values() if x.node}) <= 1:
                        ev.peer_rank = int(local)

    def _world(self) -> None:
        seen = {w.rank for w in self.writers.values() if w.rank is not None} | {r for _, r in self.out.known if r >= 0}
        for part in self.parts:
            for info in part.streams.values():
                seen.update(t.value for t in info.tags if t.kind == "ranktag" and t.value is not None)
            seen.update(int(ev.attrs["assumed_rank"]) for ev in part.events if "assumed_rank" in ev.attrs)
        if self.out.world_size is None and seen:
            self.out.world_size = max(seen) + 1
        elif self.out.world_size is not None and seen:
            self.out.world_size = max(self.out.world_size, max(seen) + 1)
        self.out.attempts = 1 + max((w.attempt for w in self.writers.values()), default=0)
        self.out.multi_node = len({w.node for w in self.writers.values() if w.node}) > 1

    def _files_called_after_hosts(self) -> None:
        """Where one file is called after the host that its lines name, its siblings are called after theirs."""
        stems: dict[int, tuple[str, str]] = {}
        for source_id, ref in self.refs.items():
            path = PurePosixPath(ref.path)
            stems[source_id] = str(path.parent), path.name.split(".")[0]
        hosts: dict[int, set[str]] = defaultdict(set)
        for w in self.writers.values():
            known = self.out.known.get((w.attempt, w.rank), {}).get("host") if w.rank is not None else None
            hosts[w.source_id] |= {str(h).split(".")[0] for h in (w.node, known) if h}
        named = {stems[i][0] for i, found in hosts.items() if stems[i][1] in found and any(c.isdigit() for c in stems[i][1])}
        taken = {h for found in hosts.values() for h in found}
        for w in self.writers.values():
            folder, stem = stems[w.source_id]
            if folder in named and not w.node and not hosts[w.source_id] and stem not in taken and re.fullmatch(r"[A-Za-z][\w-]*\d[\w-]*", stem):
                w.node = stem

    def _hosts_between(self) -> None:
        """A host's ranks are consecutive: a rank between two ranks of one host, with no other host's among them, is on it too."""
        spans: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for (attempt, rank), facts in self.out.known.items():
            if rank >= 0 and facts.get("host"):
                spans[attempt][str(facts["host"])].append(rank)
        for attempt, hosts in spans.items():
            ranges = sorted((min(r), max(r), h) for h, r in hosts.items())
            if all(a[1] < b[0] for a, b in pairwise(ranges)):
                for low, high, host in ranges:
                    for rank in range(low, high + 1):
                        self.out.known.setdefault((attempt, rank), {}).setdefault("host", host)

    def _claims(self) -> None:
        """In a stream that several ranks share, a line belongs to the rank that its own header names."""
        for part in self.parts:
            for ev in part.events:
                if (
                    ev.rank is None
                    and "claimed" in ev.attrs
                    and self.writer(part.source_id, self._unit(part, ev.stream), self.attempt_at(part.source_id, self._unit(part, ev.stream), ev.line)).kind == "merged"
                ):
                    ev.rank = ev.attrs["claimed"]

    def _rows(self) -> None:
        next_id = len(self.stream_ids)
        procs = self._process_ranks()
        for part in self.parts:
            for key, info in part.streams.items():
                first = self.attempt_at(part.source_id, info.unit, info.first_line)
                last = self.attempt_at(part.source_id, info.unit, info.last_line)
                old = self.stream_ids[part.source_id, key]
                for attempt in range(first, last + 1):
                    sid = old
                    if attempt > first:
                        sid, next_id = next_id, next_id + 1
                        self.out.moves.append((old, self.bounds[part.source_id, group_of(info.unit)][attempt - 1 - self.first_attempt(part.source_id)] + 1, sid))
                    w = self.writer(part.source_id, info.unit, attempt)
                    rank, how, host, pid = w.rank, w.how, w.node, w.pid
                    if w.kind == "merged":
                        rank = None
                    for tag in info.tags:
                        if tag.kind == "ranktag" and (w.kind == "merged" or rank is None) and tag.value is not None:
                            rank, how = tag.value, "[rankN] prefix of c10d"
                        if tag.kind == "proc":
                            host, pid = (w.node or tag.name), tag.value
                            r = procs.get((attempt, tag.name, tag.value))
                            if r is not None:
                                rank, how = r, "NCCL init line of its process"
                            elif rank is None:
                                r = self.out.pid_rank.get((attempt, tag.name, tag.value or -1))
                                if r is not None:
                                    rank, how = r, "pid in the launcher's table"
                    kinds = "+".join(dict.fromkeys(t.kind for t in info.tags)) or "file"
                    self.out.streams.append(StreamRow(sid, key, host, pid, w.node_rank, rank, w.local_rank, attempt, how or "unknown", kinds))
                    if rank is not None:
                        info_r = self.out.known.setdefault((attempt, rank), {})
                        for name, value in (("host", host), ("pid", pid), ("local_rank", w.local_rank)):
                            if value is not None and info_r.get(name) is None:
                                info_r[name] = value

    def _process_ranks(self) -> dict[tuple[int, str | None, int | None], int]:
        """Global rank of NCCL processes (host, pid): their rank in the largest communicator they joined."""
        best: dict[tuple[int, str | None, int | None], tuple[int, int]] = {}
        shared: dict[tuple[int, str | None, int | None], set[int]] = defaultdict(set)
        largest = 0
        for part, ev, attempt in self._events("init_start", "init_done", "identity", "mapping"):
            a = ev.attrs
            if ev.kind == "mapping" and a.get("global_rank") is not None and a.get("pid") is not None:
                shared[attempt, str(a.get("host") or "").split(".")[0], int(a["pid"])].add(int(a["global_rank"]))
                continue
            rank, n = a.get("comm_rank"), a.get("nranks")
            proc = next((t for t in part.streams[ev.stream].tags if t.kind == "proc"), None)
            if rank is None or n is None or proc is None:
                continue
            largest = max(largest, int(n))
            key = (attempt, proc.name, proc.value)
            if key not in best or int(n) > best[key][0]:
                best[key] = (int(n), int(rank))
            info = {k: a.get(k) for k in ("pci_bus", "cuda_dev") if a.get(k) is not None}
            if int(n) == largest:
                known = self.out.known.setdefault((attempt, int(rank)), {})
                known.setdefault("pci_bus", info.get("pci_bus"))
                known.setdefault("gpu", info.get("cuda_dev"))
        if largest:
            self.out.world_size = max(self.out.world_size or 0, largest)
        return {key: rank for key, (n, rank) in best.items() if n == largest and len(shared.get(key, ())) <= 1}


def _agent_dir_of(error_file: str) -> str | None:
    """``.../<run_id>_<rand>/attempt_0/3/error.json`` -> ``<run_id>_<rand>``."""
    m = re.search(r"([^/]+)/attempt_\d+/\d+/error\.json$", error_file)
    return m.group(1) if m else None


def speaks_of(event: Event) -> int | None:
    """Rank an event is about when that is not its writer."""
    value = event.attrs.get("subject_rank")
    return int(value) if value is not None else None
