"""Log lines that a collector wrapped into JSON objects: docker, fluent-bit, vector, Cloud Logging, journald, Loki.

The text sits under one of a few keys and at least one key of the collector stands beside it; that tells these lines
apart from applications that log JSON metrics.
"""

from __future__ import annotations

import json
from typing import Any

from correlator.parsers.schema import Stamp, Tag
from correlator.parsers.wrapper_shapes import collector_time

_TEXT_KEYS = ("log", "message", "textPayload", "line", "MESSAGE")
_TIME_KEYS = ("time", "timestamp", "@timestamp", "date", "ts", "_SOURCE_REALTIME_TIMESTAMP", "__REALTIME_TIMESTAMP")
_BESIDE = frozenset((*_TIME_KEYS, "stream", "kubernetes", "labels", "container_name", "logName", "_HOSTNAME", "host", "filename"))


def load(raw: str) -> dict[str, Any] | None:
    """The object of a wrapped line, None when the line is something else. Never raises."""
    if not raw.startswith("{") or not raw.rstrip().endswith("}"):
        return None
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or text_key(value) is None or not _BESIDE & value.keys():
        return None
    return value


def text_key(value: dict[str, Any]) -> str | None:
    """Name of the key that holds the line."""
    return next((k for k in _TEXT_KEYS if k in value and isinstance(value[k], str | list)), None)


def text_of(value: dict[str, Any]) -> str:
    """The wrapped line as written. journald gives an array of bytes when the text is not printable."""
    key = text_key(value)
    text = value[key] if key else ""
    if isinstance(text, list):
        try:
            return bytes(text).decode("utf-8", "replace")
        except (TypeError, ValueError):
            return ""
    return text


def unwrap(value: dict[str, Any]) -> tuple[tuple[Tag, ...], str, Stamp | None]:
    """Tags (pod or host, stream), text and the collector's time of one object."""
    tags: list[Tag] = []
    kube = value.get("kubernetes")
    labels = value.get("resource", {}).get("labels") if isinstance(value.get("resource"), dict) else value.get("labels")
    meta: dict[str, Any] = kube if isinstance(kube, dict) else labels if isinstance(labels, dict) else {}
    pod = meta.get("pod_name") or meta.get("pod")
    host = meta.get("host") or meta.get("pod_node_name") or value.get("_HOSTNAME")
    if isinstance(pod, str):
        extra = {"container": meta.get("container_name"), "host": host, "namespace": meta.get("namespace_name")}
        tags.append(Tag("pod", None, pod, False, {k: v for k, v in extra.items() if isinstance(v, str)} or None))
    elif isinstance(host, str):
        tags.append(Tag("host", None, host))
    text = text_of(value)
    stream = value.get("stream")
    if isinstance(stream, str):
        # docker cuts entries at 16 kB: a piece without newline goes on in the next object of the same stream
        extra = {"partial": not text.endswith("\n")} if "log" in value else None
        tags.append(Tag("std", None, stream, False, extra))
    return tuple(tags), text.rstrip("\r\n"), _time(value)


def _time(value: dict[str, Any]) -> Stamp | None:
    for key in _TIME_KEYS:
        if isinstance(at := value.get(key), str | int | float) and (stamp := collector_time(str(at))):
            return stamp
    return None


def pieces(raw: str) -> list[str]:
    """One wrapped line per inner line: multi-line filters merge whole tracebacks into one object."""
    value = load(raw)
    if value is None:
        return [raw]
    inner = text_of(value).rstrip("\r\n")
    key = text_key(value)
    if "\n" not in inner or key is None:
        return [raw]
    return [json.dumps({**value, key: part.rstrip("\r") + "\n"}) for part in inner.split("\n")]
