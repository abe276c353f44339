"""The diagnosis as Markdown for a ticket."""

from __future__ import annotations

import re
from typing import Any

from correlator.show.text import collateral, collective, onset, place, resume


def render(document: dict[str, Any]) -> str:
    """Markdown of a document; log lines stand in code blocks, so that nothing in them is markup."""
    job, incidents = document["job"], document["incidents"]
    if not incidents:
        return f"**No incident.** Job state: {job['state']}, {len(job['ranks_seen'])} ranks seen.\n"
    primary = incidents[document["primary"]]
    out = _incident(primary, job)
    others = [i for i in incidents if i is not primary]
    if others:
        out += ["### Other incidents", "", *(f"- attempt {i['attempt']}: {_plain(i['summary'])} (`{i['failure_class']}`)" for i in others), ""]
    if document["problems"]:
        out += [f"{len(document['problems'])} things could not be read; see the table `problems`.", ""]
    return "\n".join(out)


def _incident(i: dict[str, Any], job: dict[str, Any]) -> list[str]:
    rule = f", rule `{i['rule']}`" if i["rule"] else ""
    out = [f"## {_plain(i['summary'])}", ""]
    out += [f"- outcome: {i['outcome']}, scope: {i['scope']} ({i['confidence']:.2f})", f"- class: `{i['failure_class']}` ({i['class_confidence']:.2f}){rule}"]
    if onset(i["onset"]):
        out.append(f"- onset: {onset(i['onset'])}")
    out.append(f"- job: `{job['path']}`, world size {job['world_size'] or 'unknown'}, attempt {i['attempt']} of {job['attempts']} (from 0)")
    out += _list("Why", (_plain(r) for r in i["reasons"]))
    if table := collective(i.get("collective")):
        out += _list(_plain(table[0]).capitalize(), (_plain(t) for t in table[1:]))
    out += ["", "### Evidence", ""]
    for e in i["evidence"]:
        mark = "" if e["kind"] == "line" else f", {e['kind']}"
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", e["text"])), default=0))
        out += [f"`{place(e)}` ({e['role']}{mark})", "", f"{fence}text", e["text"], fence, ""]
    out.pop()
    out += _list("Suspects (not a verdict)", (f"rank {s['rank']}: {_plain(s['why'])}" for s in i["suspects"]))
    out += _list("Collateral", collateral(i))
    out += _list("Set aside", (f"{d['count']} x {d['kind']}: {_plain(d['why'])}" for d in i["demoted"]))
    todo = [f"{i['action']['kind'].replace('_', ' ')} ({i['action']['target']}): {i['action']['why']}"]
    todo += [f"{name}: {i[key]}" for name, key in (("fix", "fix"), ("verify", "verify"), ("do not", "do_not")) if i[key]]
    if i["resume"]:
        todo.append(f"resume: {resume(i['resume'])}")
    out += _list("Do", todo)
    out += _list("Missing", (f"{m['fact']}: {m['how']}" for m in i["missing"]))
    return [*out, ""]


def _list(title: str, items: Any) -> list[str]:
    lines = [f"- {' '.join(str(item).split())}" for item in items]
    return ["", f"### {title}", "", *lines] if lines else []


def _plain(text: str) -> str:
    """A sentence that may quote a log line: markup in it shows as text."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", " ".join(text.split()))
