"""The diagnosis as Markdown for a ticket."""

from __future__ import annotations

from typing import Any

from correlator.show.text import _ranks


def render(document: dict[str, Any]) -> str:
    """Markdown of a document; log lines stand in code blocks, so that nothing in them is markup."""
    if not document["incidents"]:
        return f"**No incident.** Job state: {document['job']['state']}.\n"
    out: list[str] = []
    for n, i in enumerate(document["incidents"]):
        mark = " (primary)" if n == document["primary"] and len(document["incidents"]) > 1 else ""
        out += [f"## {i['summary']}{mark}", "", f"- outcome: {i['outcome']}, scope: {i['scope']} ({i['confidence']:.2f})", f"- class: `{i['failure_class']}` ({i['class_confidence']:.2f})"
                + (f", rule `{i['rule']}`" if i["rule"] else "")]  # fmt: skip
        if i["onset"]["time"]:
            out.append(f"- onset: {i['onset']['time']}" + (f", step {i['onset']['step']}" if i["onset"]["step"] is not None else ""))
        out += ["", "**Why**", "", *(f"- {r}" for r in i["reasons"]), "", "**Evidence**", ""]
        for e in i["evidence"]:
            out += [f"`{e['path'] or 'query'}:{e['line'] or ''}` ({e['role']})", "", "```text", e["text"].replace("```", "'''"), "```", ""]
        if i["collateral"]:
            out += [f"**Collateral**: {_ranks(c['rank'] for c in i['collateral'])}", ""]
        out += ["**Do**", "", f"- {i['action']['kind'].replace('_', ' ')} ({i['action']['target']}): {i['action']['why']}"]
        out += [f"- {name}: {i[key]}" for name, key in (("fix", "fix"), ("verify", "verify"), ("do not", "do_not")) if i[key]]
        if i["missing"]:
            out += ["", "**Missing**", "", *(f"- {m['fact']}: `{m['how']}`" for m in i["missing"])]
        out.append("")
    return "\n".join(out)
