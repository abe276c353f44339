"""A small job for law tests: events, steps and ranks as rows in, facts and edges out."""

from __future__ import annotations

import json
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb

from correlator import store
from correlator.align.run import collectives
from correlator.judge import laws

T0 = datetime(2026, 5, 3, 10, 0, 0, tzinfo=UTC)
PREDICATES = tomllib.loads((Path(__file__).parents[2] / "rules" / "predicates.toml").read_text(encoding="utf-8"))


class Board:
    """Collects rows and runs laws on them. ``ev(kind, rank=..)`` adds an event, ``step`` progress."""

    def __init__(self, world: int, hosts: dict[int, str] | None = None, attempt: int = 0) -> None:
        self.con = duckdb.connect()
        self.con.execute("SET TimeZone = 'UTC'")
        self.con.execute(store.sql_text("tables"))
        self.world, self.hosts, self.attempt = world, hosts or {}, attempt
        self.con.execute("CREATE TEMP TABLE predicates(predicate VARCHAR, can_initiate VARCHAR, ends_subject BOOLEAN, certainty VARCHAR, names VARCHAR)")
        for name, p in PREDICATES.items():
            self.con.execute("INSERT INTO predicates VALUES (?, ?, ?, ?, ?)", [name, p["can_initiate"], p["ends_subject"], p["certainty"], p.get("names", "rank")])
        self.con.execute("INSERT INTO sources (source_id, path, format) VALUES (0, 'merged.log', 'log')")
        for r in range(world):
            self.con.execute("INSERT INTO sources (source_id, path, format) VALUES (?, ?, 'log')", [r + 1, f"rank_{r}.log"])
            self.con.execute(
                "INSERT INTO streams (stream_id, source_id, key, unit, host, rank, attempt, ending, last_line, last_text) VALUES (?, ?, '', '', ?, ?, ?, 'open', 9, 'last words')",
                [r + 1, r + 1, self.hosts.get(r), r, attempt],
            )
        self.con.execute("INSERT INTO streams (stream_id, source_id, key, unit, attempt, ending, last_line) VALUES (0, 0, '', '', ?, 'open', 9)", [attempt])
        self.line = 0
        self.gone: set[int] = set()

    def no_log(self, rank: int) -> None:
        """The rank has no log at all."""
        self.con.execute("DELETE FROM streams WHERE rank = ?", [rank])
        self.gone.add(rank)

    def ev(board, kind: str, rank: int | None = None, *, at: float | None = None, line: int | None = None, peer_rank: int | None = None, seq: int | None = None,
           pg: str | None = None, op: str | None = None, duration_ms: float | None = None, source: str = "test", **attrs: Any) -> int:  # fmt: skip
        """Adds an event; ``at`` seconds after the start, None for a line without time."""
        board.line = line or board.line + 1
        event_id = board.con.execute("SELECT coalesce(max(event_id), -1) + 1 FROM event_rows").fetchone()[0]  # type: ignore[index]
        stream = rank + 1 if rank is not None and rank not in board.gone else 0
        board.con.execute(
            "INSERT INTO event_rows (event_id, source_id, stream_id, line, line_end, ts_utc, ts_resolution_us, ts_origin, rank_on_line, seq, pg, op, source, kind, peer_rank,"
            " duration_ms, attrs, message) VALUES (?, ?, ?, ?, ?, ?, 1000, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [event_id, stream, stream, board.line, board.line, T0 + timedelta(seconds=at) if at is not None else None, "own" if at is not None else "none", rank, seq, pg, op, source,
             kind, peer_rank, duration_ms, json.dumps(attrs), f"{kind} {attrs}"],
        )  # fmt: skip
        return int(event_id)

    def step(self, rank: int, step: int, at: float | None = None, loss: float = 1.0, line: int | None = None, **values: Any) -> None:
        """Adds a step line of a rank; ``values``: grad_norm, loss_scale, skipped."""
        self.line = line or self.line + 1
        self.con.execute(
            "INSERT INTO step_rows (source_id, stream_id, line, rank_on_line, step, ts_utc, loss, grad_norm, loss_scale, skipped) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                rank + 1,
                rank + 1,
                self.line,
                rank,
                step,
                T0 + timedelta(seconds=at) if at is not None else None,
                loss,
                values.get("grad_norm"),
                values.get("loss_scale"),
                values.get("skipped"),
            ],
        )

    def run(self, *names: str) -> Board:
        """Prepares ev, ranks and collectives, then runs the named laws (all if none is named) in their order."""
        assert set(names) <= {law.name for law in laws.load_laws()}, names
        self.align()
        laws.run_laws(self.con, only=set(names) or None)
        return self

    def align(self) -> None:
        """Prepares ev, ranks, process_groups and collectives."""
        con = self.con
        con.execute("CREATE OR REPLACE TEMP TABLE ev AS SELECT * FROM events")
        con.execute("CREATE OR REPLACE TEMP TABLE world(attempt INTEGER, rank INTEGER)")
        con.executemany("INSERT INTO world VALUES (?, ?)", [[self.attempt, r] for r in range(self.world)])
        con.execute("CREATE OR REPLACE TEMP TABLE known_ranks(attempt INTEGER, rank INTEGER, host VARCHAR, local_rank INTEGER, pid BIGINT, gpu INTEGER, pci_bus VARCHAR)")
        for r, h in self.hosts.items():
            con.execute("INSERT INTO known_ranks VALUES (?, ?, ?, NULL, ?, NULL, ?)", [self.attempt, r, h, 100 + r, f"0000:{r + 16:02x}:00.0"])
        con.execute(f"INSERT INTO ranks {store.sql_text('ranks')}")
        collectives(con)

    def facts(self, predicate: str | None = None, status: str = "active") -> list[tuple[str, str, str]]:
        """(predicate, subject kind, subject) of facts with a status."""
        return self.con.execute(
            "SELECT predicate, subject_kind, subject FROM facts WHERE status = ? AND (? IS NULL OR predicate = ?) AND predicate <> 'group_broken' ORDER BY ALL",
            [status, predicate, predicate],
        ).fetchall()

    def edges(self) -> list[tuple[str, str, str, str]]:
        """(cause predicate, cause subject, effect predicate, effect subject) of all edges."""
        return self.con.execute(
            "SELECT c.predicate, c.subject, f.predicate, f.subject FROM edges e JOIN facts c ON c.fact_id = e.cause JOIN facts f ON f.fact_id = e.effect ORDER BY ALL"
        ).fetchall()
