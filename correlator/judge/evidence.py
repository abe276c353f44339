"""Quotes: every statement resolves to a file and a line."""

from __future__ import annotations

from typing import Any

from correlator.judge.graph import Fact
from correlator.store import first


class Evidence:
    """Looks up quoted lines of one attempt."""

    def __init__(self, con: Any, attempt: int) -> None:
        self.con, self.attempt = con, attempt
        self._cited: dict[int, tuple[Any, ...]] | None = None

    def _line(self, event_id: int | None) -> tuple[Any, ...] | None:
        """Path, line, text, rank, waited milliseconds and kind of quotation of an event. What facts cite is fetched once, not a scan each."""
        if event_id is None:
            return None
        query = (
            "SELECT e.event_id, s.path, coalesce(TRY_CAST((e.attrs->>'quote_line') AS BIGINT), e.line), e.message, e.rank, e.duration_ms,"
            " CASE WHEN s.format = 'log' AND (e.attrs->>'reading') IS NULL THEN 'line' ELSE 'record' END FROM ev e JOIN sources s USING (source_id)"
        )
        if self._cited is None:
            rows = self.con.execute(f"{query} WHERE e.event_id IN (SELECT first_event_id FROM facts WHERE attempt = ?)", [self.attempt]).fetchall()
            self._cited = {row[0]: row[1:] for row in rows}
        if event_id not in self._cited and (row := first(self.con, f"{query} WHERE e.event_id = ?", [event_id])):
            self._cited[event_id] = row[1:]
        return self._cited.get(event_id)

    def place(self, event_id: int | None) -> tuple[str | None, int | None]:
        """Path and line of an event."""
        row = self._line(event_id)
        return (row[0], row[1]) if row else (None, None)

    def waited(self, event_id: int | None) -> float | None:
        """How long the writer had waited, milliseconds."""
        row = self._line(event_id)
        return row[4] if row else None

    def of_fact(self, fact: Fact, role: str = "initiating") -> list[dict[str, Any]]:
        """The lines behind a fact. A fact of absence cites the last line of its rank."""
        out: list[dict[str, Any]] = []
        if row := self._line(fact.first_event_id):
            out.append({"role": role, "kind": row[5], "rank": fact.rank if fact.rank is not None else row[3], "path": row[0], "line": row[1], "text": row[2][:400]})
        if "line" in fact.attrs and "source_id" in fact.attrs and not out:
            row = first(self.con, "SELECT path FROM sources WHERE source_id = ?", [int(fact.attrs["source_id"])])
            if row:
                step = first(self.con, "SELECT loss, grad_norm FROM step_rows WHERE source_id = ? AND line = ?", [int(fact.attrs["source_id"]), int(fact.attrs["line"])])
                text = f"step {fact.step}: loss {step[0]}, grad norm {step[1]}" if step else f"step {fact.step}"
                out.append({"role": role, "kind": "record", "rank": fact.rank, "path": row[0], "line": int(fact.attrs["line"]), "text": text})
        if fact.certainty == "absence" and fact.rank is not None:
            path, line, text = self.last_line(fact.rank)
            if path is not None:
                out.insert(0, {"role": role, "kind": "absence", "rank": fact.rank, "path": path, "line": line, "text": f"last line of rank {fact.rank}: {text}"[:400]})
            elif not out:
                out.append({"role": role, "kind": "absence", "rank": fact.rank, "path": None, "line": None,
                            "text": f"SELECT * FROM ranks WHERE attempt = {self.attempt} AND rank = {fact.rank}  -- coverage: no log"})  # fmt: skip
        elif fact.certainty in ("absence", "record") and not out:
            out.append({"role": role, "kind": "absence", "rank": fact.rank, "path": None, "line": None, "text": f"SELECT * FROM facts WHERE fact_id = {fact.fact_id}"})
        return out

    def last_line(self, rank: int) -> tuple[str | None, int | None, str]:
        """Path, line and text of the last line that a rank wrote."""
        row = first(self.con, "SELECT s.path, t.last_line, t.last_text FROM streams t JOIN sources s USING (source_id) WHERE t.attempt = ? AND t.rank = ? AND t.last_line > 0"
            " AND s.format = 'log' ORDER BY s.last_ts DESC NULLS LAST, t.last_line DESC LIMIT 1", [self.attempt, rank],)  # fmt: skip
        return (row[0], row[1], row[2] or "") if row else (None, None, "")

    def resume(self) -> dict[str, Any] | None:
        """The last checkpoint that was said to be saved."""
        row = first(self.con, "SELECT e.step, s.path, e.line FROM ev e JOIN sources s USING (source_id) WHERE e.kind = 'checkpoint_saved' AND e.attempt <= ?"
            " ORDER BY e.attempt DESC, e.step DESC NULLS LAST, e.ts DESC NULLS LAST, e.line DESC LIMIT 1", [self.attempt],)  # fmt: skip
        return {"step": row[0], "path": row[1], "line": row[2]} if row else None
