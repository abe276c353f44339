"""One screen of plain text: the sentence first, then why, evidence, collateral, what to do, what is missing."""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

WIDTH = 80
_SOURCE_PATH = re.compile(r"(?:/[\w.+-]+){3,}/([\w.+-]+:\d+)")  # of the program's source, not of a log
_STATES = {
    "completed": "the job completed", "running": "the job was making progress at the end of its logs", "cut": "the logs end without a failure",
    "failed": "the job failed", "hung": "the job hung", "stopped": "the job was stopped",
}  # fmt: skip


def render(document: dict[str, Any], *, why: bool = False, why_not: int | None = None) -> str:
    """The text report of a document. ``why`` adds the causal graph, ``why_not`` a rank's acquittal."""
    job, incidents = document["job"], document["incidents"]
    out: list[str] = []
    if not incidents:
        size = f", world size {job['world_size']}" if job.get("world_size") else ""
        out.append(f"No incident: {_STATES.get(job['state'], job['state'])}{size}, {len(job['ranks_seen'])} ranks seen.")
    else:
        primary = incidents[document["primary"]]
        out.extend(_incident(primary, job))
        if why:
            out.extend(_graph(primary))
        others = [i for i in incidents if i is not primary]
        if others:
            out += ["", "OTHER INCIDENTS"]
            out += _wrap(f"attempt {i['attempt']}: {i['summary']}" for i in others)
    if why_not is not None:
        out.extend(_why_not(incidents[document["primary"]] if incidents else None, why_not, job))
    if document.get("hazards"):
        out += ["", "HAZARDS"]
        out += _wrap(str(h.get("summary", h)) for h in document["hazards"])
    if job.get("other_runs"):
        out += ["", f"Other runs in this directory: {', '.join(job['other_runs'])} (choose with --job)"]
    if document["problems"]:
        out += ["", *_problems(document["problems"])]
    return "\n".join(out) + "\n"


def _problems(problems: list[dict[str, Any]]) -> list[str]:
    n, first = len(problems), problems[0]
    text = f"{n} thing{'s' if n != 1 else ''} could not be read (table problems), for example {first['path']}: {first['kind']}, {first['detail']}"
    return textwrap.wrap(text, WIDTH, max_lines=3, placeholder=" ...", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _incident(i: dict[str, Any], job: dict[str, Any]) -> list[str]:
    out = textwrap.wrap(i["summary"], WIDTH)
    out += ["", f"{i['outcome']} | scope {i['scope']} {i['confidence']:.2f} | class {i['failure_class']} {i['class_confidence']:.2f}"]
    if i["rule"]:
        out.append(f"rule {i['rule']} (correlator rules show {i['rule']})")
    when = onset(i["onset"])
    if when:
        out.append(f"onset {when}")
    out += ["", "WHY", *_wrap(i["reasons"])]
    if table := collective(i.get("collective")):
        out += ["", *textwrap.wrap(table[0], WIDTH), *_wrap(table[1:])]
    out += ["", "EVIDENCE"]
    for e in i["evidence"][:6]:
        kind = "" if e["kind"] == "line" else f", {e['kind']}"
        out.append(f"  {place(e)}  [{e['role']}{kind}]")
        out += _quote(e["text"])
    if i["suspects"]:
        out += ["", "SUSPECTS (not a verdict)", *_wrap(f"rank {s['rank']}: {s['why']}" for s in i["suspects"][:8])]
    if i["collateral"]:
        out += ["", "COLLATERAL"]
        out += _wrap(collateral(i))
    if i["demoted"]:
        out += ["", "SET ASIDE", *_wrap(f"{d['count']} x {d['kind']}: {d['why']}" for d in i["demoted"])]
    out += ["", "DO"]
    action = i["action"]
    out += _wrap([f"{action['kind'].replace('_', ' ')} ({action['target']}): {action['why']}"])
    for name, key in (("fix", "fix"), ("verify", "verify"), ("do not", "do_not")):
        if i[key]:
            out += _wrap([f"{name}: {i[key]}"])
    if i["resume"]:
        out += _wrap([f"resume: {resume(i['resume'])}"])
    if i["missing"]:
        out += ["", "MISSING", *_wrap(f"{m['fact']}: {m['how']}" for m in i["missing"])]
    return out


def collective(c: dict[str, Any] | None) -> list[str]:
    """A heading and who called, did not call or called something else; empty where this tells nobody apart."""
    if not c or not (c["absent"] or c["different"]):
        return []
    number = f" {c['seq']}" if c["seq"] is not None else ""
    group = f"group {c['pg']}" + (f" ({c['description']})" if c["description"] else "")
    out = [f"COLLECTIVE{number} of {group}" + (f": {c['op']}" if c["op"] else "")]
    for label, members in (("called it", c["present"]), ("never called it", c["absent"])):
        if members:
            out.append(f"{label}: {ranks(members)}")
    out += [f"called something else: {ranks(d['ranks'])} ({d['what']})" for d in c["different"]]
    return [*out, f"not known: {ranks(c['unknown'])}"] if c["unknown"] else out


def _graph(i: dict[str, Any]) -> list[str]:
    out = ["", "CAUSES AND EFFECTS"]
    seen: set[tuple[str, str]] = set()
    for e in i["why_graph"]:
        if (e["cause"], e["effect"]) in seen:
            continue
        seen.add((e["cause"], e["effect"]))
        place = f" ({e['path']}:{e['line']})" if e["path"] else ""
        out += _wrap([f"{e['cause']} -> {e['effect']}{place}: {e['why']} [{e['law']}, {e['grade']}]"])
    out += ["", "CONFIDENCE (feature, value, weight)", *_wrap(f"{f['feature']} {f['value']} {f['logit']:+.2f}" for f in i["features"])]
    return out


def _why_not(i: dict[str, Any] | None, rank: int, job: dict[str, Any]) -> list[str]:
    if i is None:
        return ["", f"Rank {rank}: there is no incident to blame it for."]
    if rank not in (*job["ranks_seen"], *job["ranks_missing"]) and not 0 <= rank < (job["world_size"] or 0):
        return ["", f"Rank {rank} is not a rank of this job."]
    entry = i["why_not"].get(str(rank))
    if entry is None:  # large jobs keep only the rank that was asked for
        return ["", *textwrap.wrap(f"Rank {rank} was not asked for when this job was judged: ask again from the logs with --why-not {rank}.", WIDTH)]
    verdict = {"initiating": "THE INITIATOR", "suspect": "A SUSPECT, NOT PROVED"}.get(entry["role"], "NOT THE INITIATOR")
    head = f"RANK {rank} IS {verdict}"
    return ["", head, *_wrap(f"{r['text']}" + (f" ({r['path']}:{r['line']})" if r["path"] else "") for r in entry["reasons"])]


def onset(o: dict[str, Any]) -> str:
    """Time to the millisecond, its uncertainty and the step; empty if nothing of it is known."""
    time = re.sub(r"(\.\d{3})\d+Z$", r"\1Z", o["time"]) if o["time"] else ""
    parts = [time, f"+-{o['uncertainty_ms']:.0f} ms" if o["uncertainty_ms"] else "", f"at step {o['step']}" if o["step"] is not None else ""]
    return " ".join(p for p in parts if p)


def place(e: dict[str, Any]) -> str:
    """``path:line`` of a piece of evidence; a query has none."""
    return f"{e['path']}:{e['line']}" if e["path"] else "(query)"


def collateral(i: dict[str, Any]) -> list[str]:
    """One sentence per way in which ranks were drawn in, with the longest wait and one place to look at."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for c in i["collateral"]:
        groups[c["via"]].append(c)
    out = []
    for via, rows in groups.items():
        waited = [r["waited_ms"] for r in rows if r["waited_ms"]]
        tail = f", waited {max(waited) / 1000:.0f} s" if waited else ""
        where = next((f" ({place(r)})" for r in rows if r["path"]), "")
        out.append(f"{ranks(r['rank'] for r in rows)}: {via}{tail}{where}")
    return out


def resume(r: dict[str, Any]) -> str:
    """From which checkpoint the job can go on, as far as the logs say."""
    step = f" at step {r['step']}" if r["step"] is not None else ""
    return f"last checkpoint said to be saved{step} ({place(r)})"


def _wrap(texts: Iterable[str]) -> list[str]:
    out: list[str] = []
    for text in texts:
        out += textwrap.wrap(" ".join(str(text).split()), WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return out


def _quote(text: str) -> list[str]:
    """The first lines of a quotation; a lone long line gets two. Long source paths go first: the news follows them."""
    lines = [_SOURCE_PATH.sub(r".../\1", line.strip()) for line in text.splitlines() if line.strip()][:3]
    out: list[str] = []
    for line in lines:
        out += textwrap.wrap(line, WIDTH - 6, max_lines=2 if len(lines) == 1 else 1, placeholder=" ...", break_on_hyphens=False)
    return [f"    | {line}" for line in out]


def ranks(numbers: Iterable[int]) -> str:
    """``rank 3`` or ``ranks 0-1, 3-7``."""
    unique = sorted(set(numbers))
    runs: list[list[int]] = []
    for r in unique:
        if runs and r == runs[-1][1] + 1:
            runs[-1][1] = r
        else:
            runs.append([r, r])
    text = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
    return f"rank {text}" if len(unique) == 1 else f"ranks {text}"
