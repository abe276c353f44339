"""Kubernetes objects as ``kubectl get .. -o json`` or ``-o yaml`` prints them: how containers ended, and events.

The fields say the same as ``kubectl describe`` and event tables, so each is put into those words and read by
`parsers.sources.kubernetes`: one place decides what OOMKilled means. ``lastState`` is the container's earlier run.
Reference: Kubernetes API, core/v1 PodStatus, ContainerStatus and Event.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from datetime import datetime
from email.utils import format_datetime
from typing import Any

from correlator.parsers.documents import block_yaml
from correlator.parsers.schema import Event, Sink, Stamp, document_line
from correlator.parsers.sources import kubernetes

NAME = "kube_objects"
OBJECTS_LIMIT = 20_000  # of one file

_SPACE = re.compile(r"\s*")
_KINDS = r"(?:Pod|PodList|Event|EventList|List)\b"
_JSON_KIND = re.compile(rb'"kind"\s*:\s*"' + _KINDS.encode())
_CORE_JSON = re.compile(rb'"apiVersion"\s*:\s*"(?:v1|events\.k8s\.io/v1)"')
_CORE_YAML = re.compile(rb"(?m)^apiVersion: (?:v1|events\.k8s\.io/v1)\s*$")
_YAML_KIND = re.compile(rb"(?m)^(?:- | *)kind: " + _KINDS.encode())
# a pod's own status and its DisruptionTarget condition: why it was taken off its node
_TAKEN = {
    "Evicted": "Evicted", "Preempted": "Preempted", "Preempting": "Preempting", "PreemptionByScheduler": "Preempted",
    "DeletionByTaintManager": "TaintManagerEviction", "EvictionByEvictionAPI": "Evicted", "TerminationByKubelet": "Evicted",
    "NodeLost": "NodeNotReady",
}  # fmt: skip


def claims(path: str, head: bytes) -> bool:
    """By API version and kind near the front; custom resources (a PyTorchJob) and audit records are something else."""
    if head.lstrip()[:1] == b"{":
        return _CORE_JSON.search(head) is not None and _JSON_KIND.search(head) is not None
    first = next((row for row in head.split(b"\n") if row.strip() and not row.startswith((b"#", b"---", b"$"))), b"")
    return first.startswith(b"apiVersion:") and _CORE_YAML.search(head) is not None and _YAML_KIND.search(head) is not None


def parse(path: str, data: bytes, out: Sink) -> None:
    """Exit records, kills, restarts and events of all objects; what is cut off at the end is a problem, not a failure."""
    text = data.decode("utf-8", "replace")
    where = _Lines(text)
    for count, item in enumerate(_objects(text, out)):
        if count >= OBJECTS_LIMIT:
            out.problem(None, "too_many", f"only {OBJECTS_LIMIT} objects are read")
            return
        if item.get("kind") == "Event" or "involvedObject" in item or "regarding" in item:
            _event(item, where, out)
        elif item.get("kind") in ("Pod", None):
            _pod(item, where, out)


class _Lines:
    """Finds the lines that values stand on: objects are visited in file order, so each search goes on behind the last."""

    _FIELD = re.compile(r'"?\b(exitCode|restartCount|reason)"?\s*: *"?([\w.-]+)')

    def __init__(self, text: str) -> None:
        self.found: dict[tuple[str, str], list[int]] = {}
        self.used: dict[tuple[str, str], int] = {}  # occurrences that an object has taken: the next one is another's
        for no, row in enumerate(text.split("\n"), 1):
            for m in self._FIELD.finditer(row):
                self.found.setdefault((m[1], m[2]), []).append(no)
        self.at = 1

    def of(self, key: str, value: object) -> int:
        """1-based number of the next line with this key and value; the last found one if there is none."""
        lines = self.found.get((key, str(value)), [])
        index = bisect_left(lines, self.at, lo=self.used.get((key, str(value)), 0))
        if index < len(lines):
            self.at, self.used[key, str(value)] = lines[index], index + 1
        return self.at


def _objects(text: str, out: Sink) -> Iterator[dict[str, Any]]:
    """Single objects of all documents in the text; lists are opened."""
    documents: list[Any] = []
    if text.lstrip()[:1] == "{":
        decoder, at = json.JSONDecoder(), 0
        while (at := _SPACE.match(text, at).end()) < len(text):  # type: ignore[union-attr]
            try:
                value, at = decoder.raw_decode(text, at)
            except (json.JSONDecodeError, RecursionError) as exc:
                out.problem(text.count("\n", 0, at) + 1, "truncated", f"not complete JSON: {exc}")
                break
            documents.append(value)
    else:
        try:
            documents = block_yaml.load_all(text)
        except ValueError as exc:
            out.problem(None, "unreadable", f"not the YAML that kubectl writes: {exc}")
    for value in documents:
        for item in value.get("items", [value]) if isinstance(value, dict) else ():
            if isinstance(item, dict):
                yield item


def _pod(pod: dict[str, Any], where: _Lines, out: Sink) -> None:
    status, name = _map(pod.get("status")), str(_map(pod.get("metadata")).get("name") or "")
    node = _map(pod.get("spec")).get("nodeName")
    before = len(out.events)
    _say(f"Name:         {name}", 1, out)
    for key in ("initContainerStatuses", "containerStatuses"):
        for container in _list(status.get(key)):
            for field, title in (("lastState", "Last State"), ("state", "State")):
                if ended := _map(_map(container.get(field)).get("terminated")):
                    _ended(ended, title, where, out)
            if container.get("restartCount"):
                _say(
                    f"    Restart Count:  {container['restartCount']}",
                    where.of("restartCount", container["restartCount"]),
                    out,
                )
    taken = [
        status.get("reason"),
        *(c.get("reason") for c in _list(status.get("conditions")) if c.get("type") == "DisruptionTarget" and c.get("status") == "True"),
    ]
    for reason in dict.fromkeys(r for r in taken if r in _TAKEN):
        _say(
            f"Warning  {_TAKEN[reason]}  node/{node}  pod/{name} {status.get('message') or ''}".rstrip(),
            where.of("reason", reason),
            out,
        )
    for event in out.events[before:]:
        event.attrs.update({"pod": name, "kube_node": node} if node else {"pod": name})


def _ended(ended: dict[str, Any], title: str, where: _Lines, out: Sink) -> None:
    """One ended run of a container, in the words of ``kubectl describe``."""
    code = ended.get("exitCode")
    no = where.of("exitCode", code)
    before = len(out.events)
    _say(f"    {title}:     Terminated", no, out)
    _say(f"      Reason:       {ended.get('reason') or 'Error'}", no, out)
    _say(f"      Exit Code:    {code}", no, out)
    finished = _time(ended.get("finishedAt"))
    if finished is None:
        return
    _say(f"      Finished:     {format_datetime(finished)}", no, out)
    for event in out.events[before:]:
        event.stamp, event.ts_origin = _stamp(finished, str(ended["finishedAt"])), "own"


def _event(item: dict[str, Any], where: _Lines, out: Sink) -> None:
    """One event, in the words of ``kubectl get events``. Repeats are folded: ``lastTimestamp`` is the newest of ``count``."""
    about = _map(item.get("involvedObject") or item.get("regarding"))
    series = _map(item.get("series"))
    printed = item.get("lastTimestamp") or series.get("lastObservedTime") or item.get("eventTime") or item.get("deprecatedLastTimestamp")
    reason, note = str(item.get("reason") or ""), str(item.get("message") or item.get("note") or "")
    before = len(out.events)
    thing = f"{str(about.get('kind') or '').lower()}/{about.get('name') or ''}"
    _say(f"{item.get('type') or 'Normal'}  {reason}  {thing}  {note}", where.of("reason", reason), out)
    at = _time(printed)
    for event in out.events[before:]:
        if at is not None:
            event.stamp, event.ts_origin = _stamp(at, str(printed)), "own"
        _add(
            event,
            count=item.get("count") or series.get("count"),
            pod=about.get("name") if thing.startswith("pod/") else None,
        )


def _say(text: str, no: int, out: Sink) -> None:
    kubernetes.parse(document_line(no, text), out)


def _add(event: Event, **attrs: Any) -> None:
    event.attrs.update({k: v for k, v in attrs.items() if v is not None})


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[dict[str, Any]]:
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _time(text: Any) -> datetime | None:
    """RFC 3339, whole seconds or microseconds, always UTC in the API."""
    try:
        when = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return when if when.tzinfo is not None else None


def _stamp(when: datetime, text: str) -> Stamp:
    offset = when.utcoffset()
    minutes = int(offset.total_seconds()) // 60 if offset is not None else 0
    utc_us = round(when.timestamp() * 1_000_000)
    return Stamp(utc_us + minutes * 60_000_000, minutes, 1 if "." in text else 1_000_000, True, True, text)
