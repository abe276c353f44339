"""Kubernetes: kubectl describe and event lines (kubelet, scheduler)."""

from __future__ import annotations

import re

from correlator.parsers.schema import Line, Sample, Sink

NAME = "kubernetes"
ORDER = 9
TOKENS = ("OOMKilled", "Restart Count", "Evicted", "Preempt", "NodeNotReady", "Last State", "Exit Code:", "TaintManager", "SystemOOM")
SAMPLES = (Sample("      Reason:       OOMKilled", "killed_by_kernel", {}, "kubectl describe"),)


def parse(line: Line, out: Sink) -> bool:
    """One line of a description or an event list."""
    text = line.text
    if re.search(r"Reason:\s+OOMKilled|\bOOMKilling\b|\bSystemOOM\b", text):
        out.event("killed_by_kernel", line, source=NAME, scope="host")
        return True
    if m := re.search(r"^\s*Restart Count:\s+(\d+)", text):
        if int(m[1]) > 0:
            out.event("pod_restarts", line, source=NAME, count=int(m[1]))
        return True
    if re.search(r"^\s*(?:Warning|Normal)?\s*\b(?:Preempted|Preempting|Evicted|TaintManagerEviction)\b", text):
        out.event("preempted", line, source=NAME, agent=True)
        return True
    if re.search(r"\bNodeNotReady\b", text):
        out.event("host_gone", line, source=NAME, scope="host")
        return True
    return False
