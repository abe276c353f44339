"""Builds flight-recorder dumps of a job in each schema that was released, for tests."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

T0_NS = 1_796_000_000_000_000_000  # 2026-11-30


@dataclass
class Rank:
    """Calls of one rank. ``call`` adds one; the state of a call is scheduled, started or completed."""

    rank: int
    groups: dict[str, list[int]] = field(default_factory=dict)  # name -> global ranks in group order
    entries: list[dict[str, Any]] = field(default_factory=list)
    backend: str = "nccl"
    start_s: float = 0.0

    def call(self, seq: int, state: str = "completed", *, pg: str = "0", op: str = "all_reduce", size: Sequence[int] = (64, 2), dtype: str = "Float", at_s: float | None = None,
             timed_out: bool = False) -> Rank:  # fmt: skip
        at = self.start_s + (at_s if at_s is not None else float(len(self.entries)))
        done = state == "completed"
        self.entries.append({
            "record_id": len(self.entries), "pg_id": 0 if pg == "0" else 1 + sorted(self.groups).index(pg) if pg in self.groups else 1,
            "process_group": (pg, "default_pg" if pg == "0" else f"desc_{pg}"), "collective_seq_id": seq, "p2p_seq_id": 0, "op_id": seq,
            "profiling_name": f"{self.backend}:{op}", "time_created_ns": T0_NS + int(at * 1e9), "input_sizes": [list(size)], "input_dtypes": [dtype],
            "output_sizes": [list(size)], "output_dtypes": [dtype], "state": state if self.backend == "nccl" else "scheduled",
            "time_discovered_started_ns": T0_NS + int(at * 1e9) + 1000 if state != "scheduled" else None,
            "time_discovered_completed_ns": T0_NS + int(at * 1e9) + 2000 if done and self.backend == "nccl" else None,
            "retired": done or timed_out, "timeout_ms": 600000, "is_p2p": False,
        })  # fmt: skip
        return self

    def calls(self, upto: int, pg: str = "0") -> Rank:
        """Completed calls 1 to ``upto``."""
        for seq in range(1, upto + 1):
            self.call(seq, pg=pg)
        return self

    def document(self, version: str = "2.4") -> Any:
        """The dump in the schema of a version: 2.2 (a bare list), 1.4, 2.1, 2.4, 2.10."""
        if version == "2.2":
            gone = ("record_id", "process_group", "collective_seq_id", "p2p_seq_id", "op_id", "time_created_ns", "input_dtypes", "output_dtypes", "timeout_ms", "is_p2p",
                    "time_discovered_started_ns", "time_discovered_completed_ns")  # fmt: skip
            return [
                {k: v for k, v in e.items() if k not in gone} | {"seq_id": e["collective_seq_id"], "time_created_us": e["time_created_ns"] // 1000, "frames": []}
                for e in self.entries
            ]
        if version == "1.4":
            gone = ("process_group", "collective_seq_id", "p2p_seq_id", "input_dtypes", "output_dtypes", "timeout_ms", "is_p2p")
            entries = [{k: v for k, v in e.items() if k not in gone} | {"seq_id": e["collective_seq_id"]} for e in self.entries]
            return {"version": "1.4", "entries": entries, "pg_config": dict(enumerate(self.groups.values()))}
        status: dict[str, dict[str, int]] = {}
        for e in self.entries:
            row = status.setdefault(str(e["pg_id"]), {"last_enqueued_collective": 0, "last_started_collective": -1, "last_completed_collective": 0})
            row["last_enqueued_collective"] = max(row["last_enqueued_collective"], e["collective_seq_id"])
            if e["retired"] and (e["state"] == "completed" or self.backend == "gloo"):
                row["last_completed_collective"] = max(row["last_completed_collective"], e["collective_seq_id"])
        config = {n: {"name": n, "desc": "default_pg" if n == "0" else f"desc_{n}", "ranks": str(m)} for n, m in self.groups.items() if self.rank in m}
        out: dict[str, Any] = {"version": version, "entries": self.entries, "pg_config": config, "pg_status": status}
        if version == "2.1":
            del out["pg_status"]
            out["entries"] = [{k: v for k, v in e.items() if k != "timeout_ms"} for e in self.entries]
        if version == "2.10":
            out["comm_lib_version"] = "2.28.9"
            out["entries"] = [e | {"thread_id": "140", "thread_name": "pt_main_thread"} for e in self.entries]
        return out

    def write(self, folder: Path, name: str = "nccl_trace_rank_{}", version: str = "2.4", *, as_json: bool = False) -> None:
        """Writes the dump; ``{}`` in the name is the rank. JSON has 0 for None and texts for the numbers of pg_status."""
        folder.mkdir(parents=True, exist_ok=True)
        value = self.document(version)
        path = folder / name.format(self.rank)
        if not as_json:
            path.write_bytes(pickle.dumps(value, 2))
            return
        value = json.loads(json.dumps(value))
        value["entries"] = [{k: 0 if v is None else v for k, v in e.items()} for e in value["entries"]]
        value["pg_status"] = {k: {n: str(x) for n, x in v.items()} for k, v in value["pg_status"].items()}
        path.write_text(json.dumps(value), encoding="utf-8")


def job(world: int, groups: dict[str, list[int]] | None = None, **more: Any) -> list[Rank]:
    """One recorder a rank; the default group is there."""
    return [Rank(r, {"0": list(range(world)), **(groups or {})}, **more) for r in range(world)]
