"""Pods and events of Kubernetes, as JSON and as YAML."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from correlator.parsers.documents import block_yaml, kube_objects
from correlator.parsers.schema import Event, Sink

YAML = """apiVersion: v1
kind: Pod
metadata:
  annotations:
    note: |-
      two
      lines: here
  labels: {}
  name: llm-worker-3
spec:
  containers:
  - args:
    - --steps
    - "100"
    name: pytorch
  nodeName: gpu-node-4
status:
  conditions:
  - lastTransitionTime: "2026-03-02T10:00:00Z"
    status: "True"
    type: Ready
  containerStatuses:
  - containerID: containerd://ab12
    image: registry/llm:1
    lastState:
      terminated:
        exitCode: 137
        finishedAt: "2026-03-02T11:00:05Z"
        reason: OOMKilled
    name: pytorch
    restartCount: 2
    state:
      running:
        startedAt: "2026-03-02T11:01:00Z"
  phase: Running
"""


def pod(terminated: dict[str, Any] | None = None, *, restarts: int = 0, **status: Any) -> dict[str, Any]:
    containers = [
        {
            "name": "pytorch",
            "restartCount": restarts,
            "state": {"terminated": terminated} if terminated else {"running": {}},
        }
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "llm-worker-3"},
        "spec": {"nodeName": "gpu-node-4"},
        "status": {"containerStatuses": containers, **status},
    }


def event(reason: str, message: str = "", kind: str = "Pod", name: str = "llm-worker-3", **more: Any) -> dict[str, Any]:
    about = {"kind": kind, "name": name}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "type": "Warning",
        "reason": reason,
        "message": message,
        "involvedObject": about,
        **more,
    }


def read(value: Any) -> Sink:
    text = value if isinstance(value, str) else json.dumps(value, indent=4)
    assert kube_objects.claims("objects", text.encode()[:4096])
    out = Sink("objects")
    kube_objects.parse("objects", text.encode(), out)
    return out


def one(out: Sink, kind: str) -> Event:
    (found,) = [e for e in out.events if e.kind == kind]
    return found


def us(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp()) * 1_000_000  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(("code", "signal"), [(139, "SIGSEGV"), (137, "SIGKILL"), (143, "SIGTERM"), (1, None)])
def test_how_a_container_ended(code: int, signal: str | None) -> None:
    value = pod({"exitCode": code, "reason": "Error", "finishedAt": "2026-03-02T11:00:05Z"})
    found = one(read(value), "exit_record")
    assert (found.attrs["by"], found.attrs["exitcode"], found.attrs.get("signal")) == ("kubernetes", code, signal)
    assert (found.attrs["pod"], found.attrs["kube_node"]) == ("llm-worker-3", "gpu-node-4")
    assert found.stamp is not None and found.stamp.utc_us == us(2026, 3, 2, 11, 0, 5)
    assert found.line == json.dumps(value, indent=4).split("\n").index(f'                        "exitCode": {code},') + 1


def test_yaml_says_the_same() -> None:
    out = read(YAML)
    assert [e.kind for e in out.events] == ["killed_by_kernel", "exit_record", "restart"]
    killed, ended, restart = out.events
    assert (killed.attrs["pod"], killed.attrs["scope"]) == ("llm-worker-3", "host")
    assert killed.stamp is not None and killed.stamp.utc_us == us(2026, 3, 2, 11, 0, 5)
    assert (ended.attrs["exitcode"], ended.attrs["reason"]) == (137, "OOMKilled")
    assert YAML.split("\n")[ended.line - 1].strip() == "exitCode: 137"
    assert restart.attrs["count"] == 2
    assert YAML.split("\n")[restart.line - 1].strip() == "restartCount: 2"


def test_a_pod_that_is_well_says_nothing() -> None:
    assert read(pod()).events == []
    assert read(pod({"exitCode": 0, "reason": "Completed"})).events == []


def test_a_list_of_pods() -> None:
    first, second = pod({"exitCode": 1, "reason": "Error"}), pod({"exitCode": 1, "reason": "Error"})
    second["metadata"]["name"] = "llm-worker-4"
    found = read({"apiVersion": "v1", "items": [first, second], "kind": "List"}).events
    assert [e.attrs["pod"] for e in found] == ["llm-worker-3", "llm-worker-4"]
    assert found[0].line < found[1].line


@pytest.mark.parametrize(
    ("status", "kind", "reason"),
    [
        ({"reason": "Preempted"}, "preempted", "Preempted"),
        (
            {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]},
            "preempted",
            "Preempted",
        ),
        (
            {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]},
            "preempted",
            "TaintManagerEviction",
        ),
        ({"reason": "NodeLost"}, "host_gone", None),
        ({"reason": "Evicted", "message": "The node was low on resource: memory."}, "host_memory", None),
    ],
)
def test_a_pod_that_was_taken_off_its_node(status: dict[str, Any], kind: str, reason: str | None) -> None:
    (found,) = read(pod(**status)).events
    assert (found.kind, found.attrs.get("reason"), found.attrs["kube_node"]) == (kind, reason, "gpu-node-4")
    if kind in ("host_gone", "host_memory"):
        assert found.attrs["host"] == "gpu-node-4"


def test_a_condition_that_is_not_met_says_nothing() -> None:
    assert read(pod(conditions=[{"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}])).events == []


def test_events_with_their_newest_time() -> None:
    items = [
        event("NodeNotReady", "Node is not ready", "Node", "gpu-node-4", lastTimestamp="2026-03-02T11:00:45Z", count=3),
        event("Preempted", "Preempted by pod 7c1f", eventTime="2026-03-02T11:00:05.250000Z"),
        event("Scheduled", "Successfully assigned"),
    ]
    gone, preempted = read({"apiVersion": "v1", "kind": "EventList", "items": items}).events
    assert (gone.kind, gone.attrs["host"], gone.attrs["count"]) == ("host_gone", "gpu-node-4", 3)
    assert gone.stamp is not None and (gone.stamp.utc_us, gone.stamp.resolution_us) == (
        us(2026, 3, 2, 11, 0, 45),
        1_000_000,
    )
    assert (preempted.kind, preempted.attrs["pod"]) == ("preempted", "llm-worker-3")
    assert preempted.stamp is not None and (preempted.stamp.utc_us, preempted.stamp.resolution_us) == (
        us(2026, 3, 2, 11, 0, 5) + 250_000,
        1,
    )


def test_a_kill_names_its_victim() -> None:
    found = one(
        read(
            event(
                "OOMKilling",
                "Memory cgroup out of memory: Killed process 4411 (python3) total-vm:9kB",
                "Node",
                "gpu-node-4",
            )
        ),
        "killed_by_kernel",
    )
    assert (found.attrs["host"], found.attrs["pid"], found.attrs["comm"]) == ("gpu-node-4", 4411, "python3")


def test_a_watch_prints_one_object_after_another() -> None:
    text = json.dumps(event("Preempted")) + "\n" + json.dumps(event("NodeNotReady", kind="Node", name="n4")) + "\n"
    assert [e.kind for e in read(text).events] == ["preempted", "host_gone"]


def test_a_long_watch_is_read_in_one_pass() -> None:
    text = "\n".join(json.dumps(event("Preempted", name=f"p{i}")) for i in range(5000))
    found = read(text).events
    assert [e.line for e in found] == [*range(1, 5001)] and found[-1].attrs["pod"] == "p4999"


def test_what_is_whole_before_a_cut_is_kept() -> None:
    out = read(json.dumps(event("Preempted")) + "\n" + json.dumps(event("NodeNotReady"))[:60])
    assert [e.kind for e in out.events] == ["preempted"]
    assert [(p.kind, p.line) for p in out.problems] == [("truncated", 2)]


def test_yaml_that_kubectl_does_not_write_is_a_problem() -> None:
    out = read("apiVersion: v1\nkind: Pod\nwhat is this\n")
    assert out.events == [] and [p.kind for p in out.problems] == ["unreadable"]


@pytest.mark.parametrize(
    "value",
    [
        {"status": None},
        {"status": {"containerStatuses": [1, None]}},
        {"metadata": [], "status": {"containerStatuses": {"a": 1}}},
    ],
)
def test_odd_shapes_do_no_harm(value: dict[str, Any]) -> None:
    assert read({"apiVersion": "v1", "kind": "Pod", **value}).events == []


@pytest.mark.parametrize(
    "text",
    [
        '{"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}',
        '{"apiVersion": "audit.k8s.io/v1", "kind": "Event", "level": "Metadata"}',
        '{"log": "step 1", "stream": "stderr"}',
        "apiVersion: apps/v1\nkind: Deployment\n",
        "step 1\napiVersion: v1\nkind: Pod\n",
    ],
)
def test_other_files_are_left_alone(text: str) -> None:
    assert not kube_objects.claims("x", text.encode())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a:\n- 1\n- b: x\n  c: 'it''s'\nd: []\n", {"a": [1, {"b": "x", "c": "it's"}], "d": []}),
        ("a:\n  - - 1\n    - 2\n", {"a": [[1, 2]]}),
        ("a: >-\n  one\n  two\nb: true\nc: null\n", {"a": "one two", "b": True, "c": None}),
        ('a: a long\n  text\nb: "x\\ty"\n', {"a": "a long text", "b": "x\ty"}),
        ("# remark\na:\nb: 2026-03-02T11:00:05Z\n", {"a": None, "b": "2026-03-02T11:00:05Z"}),
    ],
)
def test_block_yaml(text: str, value: Any) -> None:
    assert block_yaml.load_all(text) == [value]


def test_several_documents_and_deep_nesting() -> None:
    assert block_yaml.load_all("a: 1\n---\nb: 2\n") == [{"a": 1}, {"b": 2}]
    with pytest.raises(ValueError, match="deeply"):
        block_yaml.load_all("\n".join(" " * i + "k:" for i in range(200)))
