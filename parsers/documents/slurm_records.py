"""Slurm's own records in a file of their own: ``sacct`` tables, ``scontrol show job`` and ``scontrol show node``.

States are Slurm's word on the job as a whole: PREEMPTED, TIMEOUT and NODE_FAIL come from outside, FAILED and
OUT_OF_MEMORY from a task. ``ExitCode`` is ``exit:signal`` (man sacct, JOB STATE CODES). Times are the controller's local
time without a zone. A job's script may print the same at the top of its log; such a log stays a log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from correlator.parsers.schema import Line, Sink, Stamp, document_line
from correlator.parsers.sources import signals

NAME = "slurm_records"
SOURCE = "slurm"  # the source of the rulebook's signatures for these rows

_PROMPT = re.compile(r"^\s*[$#]")
_SACCT_ROW = re.compile(r"^\s*(?:JobID\w*\b|-{3,}[ -]*$|\d+(?:_\d+|_\[[\d,%-]+\]|\+\d+)?(?:\.\w+)?(?:[ |]|$))")
_PAIRS_ROW = re.compile(r"^\s*[A-Z][\w/:.-]*=")
_PAIR = re.compile(r"(?P<key>[A-Z][\w/:.-]*)=(?P<value>.*?)(?=\s+[A-Z][\w/:.-]*=|$)")
_REASON_AT = re.compile(r"\[\w+@(?P<at>[\dT:-]+)\]\s*$")
_GONE_STATES = re.compile(r"\b(?:DOWN|NOT_RESPONDING|FAIL|REBOOT\w*|POWERED_DOWN|POWERING_DOWN)\b|\*")


def claims(path: str, head: bytes) -> bool:
    """By its first row, provided that no other row of the head belongs to anything else."""
    rows = [row for row in head.decode("utf-8", "replace").split("\n") if row.strip() and not _PROMPT.match(row)]
    if len(head) >= 4096:  # the last row may be cut
        rows = rows[:-1]
    if not rows:
        return False
    if rows[0].lstrip().startswith("JobID") and "State" in rows[0]:
        return all(_SACCT_ROW.match(row) for row in rows)
    if re.match(r"\s*(?:JobId|NodeName)=", rows[0]):
        return "State=" in "".join(rows) and all(_PAIRS_ROW.match(row) for row in rows)
    return False


def parse(path: str, data: bytes, out: Sink) -> None:
    """Events of every job (and node) in the file; ``slurm.state`` and ``slurm.reason`` as settings."""
    rows = list(enumerate(data.decode("utf-8", "replace").split("\n"), 1))
    first = next((text for _, text in rows if text.strip() and not _PROMPT.match(text)), "")
    if first.lstrip().startswith("JobID"):
        _sacct(list(_table(rows)), out)
        return
    for line, record in _records(rows):
        if "NodeName" in record and "JobId" not in record:
            _node(line, record, out)
        else:
            _job(
                line,
                record,
                out,
                state=record.get("JobState", ""),
                job=record.get("JobId", ""),
                origin="scontrol",
                whole=True,
            )


def _table(rows: list[tuple[int, str]]) -> Iterator[tuple[Line, dict[str, str]]]:
    """Rows of a table: split at ``|`` (``-P``, ``-p``), otherwise at the columns that the dashes under the header give."""
    header: list[str] = []
    spans: list[tuple[int, int]] = []
    names = ""
    for no, text in rows:
        if not text.strip() or _PROMPT.match(text):
            continue
        if text.lstrip().startswith("JobID"):
            names, spans, header = text, [], [c.strip() for c in text.split("|")] if "|" in text else []
        elif not header and re.fullmatch(r"[- ]+", text):
            spans = [m.span() for m in re.finditer(r"-+", text)]
        elif header:
            yield document_line(no, text.strip()), dict(zip(header, (c.strip() for c in text.split("|"))))
        elif spans:
            yield document_line(no, text.strip()), {names[a:b].strip(): text[a:b].strip() for a, b in spans}


def _sacct(rows: list[tuple[Line, dict[str, str]]], out: Sink) -> None:
    """The state of a job is told by its own row, how its tasks ended by the rows of its numbered steps."""
    ids = [record.get("JobID") or record.get("JobIDRaw") or "" for _, record in rows]
    with_steps = {job.split(".")[0] for job in ids if re.search(r"\.\d+$", job)}
    for (line, record), job in zip(rows, ids):
        step = job.partition(".")[2]
        if not step or step.isdigit():
            _job(
                line,
                record,
                out,
                state=record.get("State", ""),
                job=job,
                origin="sacct",
                whole=not step,
                ends=bool(step) or job not in with_steps,
            )


def _records(rows: list[tuple[int, str]]) -> Iterator[tuple[Line, dict[str, str]]]:
    """Records of ``key=value`` pairs, a blank line or the next first key between them; quoted by the line of the state."""
    record: dict[str, str] = {}
    quoted: Line | None = None
    for no, text in [*rows, (len(rows) + 1, "")]:
        if record and quoted is not None and (not text.strip() or re.match(r"(?:JobId|NodeName)=", text)):
            yield quoted, record
            record, quoted = {}, None
        for m in _PAIR.finditer(text.strip()) if not _PROMPT.match(text) else ():
            record.setdefault(m["key"], m["value"].strip())
            if m["key"] in ("JobState", "State") or quoted is None:
                quoted = document_line(no, text.strip())


def _job(line: Line, record: dict[str, str], out: Sink, *, state: str, job: str, origin: str, whole: bool, ends: bool = True) -> None:
    """One job or step. ``whole``: the row of the job itself; ``ends``: this row says how its tasks ended."""
    name = state.split()[0].rstrip("+") if state else ""
    line.stamp = _stamp(record.get("End") or record.get("EndTime") or "")
    reason = record.get("Reason", "")
    node = _single(record.get("NodeList", ""))
    if whole:
        out.config(line, "slurm.state", name, f"{origin} {job}")
        if reason and reason not in ("None", "(null)"):
            out.config(line, "slurm.reason", reason, f"{origin} {job}")
    if whole and name in ("PREEMPTED", "REQUEUED"):
        out.event("preempted", line, source=SOURCE, refine=True, agent=True, job=job, reason=name.lower())
    elif whole and name in ("TIMEOUT", "DEADLINE"):
        out.event(
            "external_signal",
            line,
            source=SOURCE,
            refine=True,
            agent=True,
            job=job,
            signal="SIGTERM",
            reason="time limit",
        )
    elif whole and name == "CANCELLED":
        by = re.search(r"by (\d+)", state)
        out.event(
            "external_signal",
            line,
            source=SOURCE,
            agent=True,
            job=job,
            signal="SIGTERM",
            reason="cancelled",
            uid=int(by[1]) if by else None,
        )
    elif whole and name in ("NODE_FAIL", "BOOT_FAIL"):  # of several nodes the record does not say which one
        out.event("host_gone", line, source=SOURCE, refine=True, scope="host", host=node, job=job, reason="node failure")
    elif ends and name == "OUT_OF_MEMORY":
        out.event("killed_by_kernel", line, source=SOURCE, scope="host", host=node, job=job)
    elif ends and name == "FAILED" and (m := re.fullmatch(r"(\d+):(\d+)", record.get("ExitCode", ""))):
        code, number = int(m[1]), int(m[2])
        signal = signals.name(number) if number else signals.of_exit(code)
        out.event(
            "exit_record",
            line,
            source=SOURCE,
            by="slurm",
            job=job,
            node=node,
            exitcode=code if code else None,
            signal=signal,
        )


def _node(line: Line, record: dict[str, str], out: Sink) -> None:
    """A node that is down is gone for the job; one that is only drained is a warning with the administrator's reason."""
    state, reason = record.get("State", ""), record.get("Reason", "")
    if m := _REASON_AT.search(reason):
        line.stamp, reason = _stamp(m["at"]), reason[: m.start()].strip()
    host = record["NodeName"].split(".")[0]
    if _GONE_STATES.search(state.replace("+", " ")):
        out.event("host_gone", line, source=SOURCE, refine=True, scope="host", host=host, state=state, reason=reason or None)
    elif "DRAIN" in state:
        out.event("warned", line, source=SOURCE, scope="host", host=host, why="drained", state=state, reason=reason or None)


def _single(nodes: str) -> str | None:
    """The node of a list that holds only one."""
    return nodes.split(".")[0] if re.fullmatch(r"[\w.-]+", nodes) and nodes not in ("None", "(null)") else None


def _stamp(text: str) -> Stamp | None:
    try:
        when = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
    except ValueError:  # Unknown, None
        return None
    return Stamp(int(when.timestamp()) * 1_000_000, None, 1_000_000, True, True, text)
