"""What the columns of the tables mean; goes into the metadata of exported files. One name means one thing everywhere."""

from __future__ import annotations

DOCS: dict[str, str] = {
    # who
    "rank": "global rank of the writer, or of the process the event is about; null for agents, kernel and scheduler",
    "local_rank": "rank inside its node, from 0",
    "host": "host of the writer",
    "pid": "process id on that host",
    "attempt": "restart attempt, from 0",
    "peer_rank": "global rank that the line speaks of",
    "peer_host": "host or address that the line speaks of",
    "pg": "process group as the log names it",
    "seq": "sequence number of the collective inside its process group",
    # when
    "ts": "time of the event, UTC, corrected for the skew of its host's clock",
    "ts_utc": "time as logged, zone applied, not corrected for skew",
    "ts_raw": "time exactly as printed",
    "ts_uncertainty_ms": "half width of that time, milliseconds",
    "ts_origin": "own: on the line; inherited: from the line before; derived: from a duration; none",
    "t_ms": "milliseconds since the incident's onset, null without a clock",
    "order_basis": "what the order rests on: clock, line or none",
    "duration_ms": "how long it took or waited, milliseconds",
    "step": "training step printed with the event",
    "onset_ts": "when the incident began, UTC",
    "onset_step": "training step at which the incident began",
    # where
    "path": "log file, relative to the given path; archive members are archive!member",
    "line": "line number in the file, from 1",
    "byte_offset": "offset of the line's first byte in the uncompressed file",
    "source_id": "log file, see the table sources",
    "stream_id": "writer inside a log file, see the table streams",
    # what
    "incident_id": "incident the row belongs to",
    "role": "initiating, propagated, teardown, benign or unknown",
    "kind": "predicate or structural kind of the event",
    "failure_class": "class of the failure",
    "message": "the quoted line",
    "outcome": "failed, hung, stopped or degraded",
    "scope": "rank, ranks, node, job, external or undetermined",
    "confidence": "probability that scope and ranks are right",
    "class_confidence": "probability that the class is right",
    "state": "completed, raised, exited, killed, terminated, waiting, silent, alive, no_log or unknown",
    "coverage": "closed: the process's end is on record; open: last line whole; torn: ends inside a line; absent",
    "grad_norm": "norm of the gradients as logged",
    "loss": "loss as logged, may be NaN or infinite",
    "every": "this row stands for every Nth step of the log",
}
