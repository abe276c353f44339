"""What went before the logs: whether they begin with a later attempt."""

from __future__ import annotations

from typing import Any

from correlator.store import one


def unseen_attempts(con: Any) -> int:
    """Number of attempts before the first one of which anything is in the logs."""
    return int(one(con, "SELECT coalesce(min(attempt), 0) FROM streams WHERE last_line > 0")[0] or 0)


def missing_history(con: Any, failure_class: str) -> dict[str, str] | None:
    """What to fetch if the story began before these logs, as {fact, how}."""
    unseen = unseen_attempts(con)
    if unseen:
        which = "attempt 0" if unseen == 1 else f"attempt 0 to attempt {unseen - 1}"
        fact = f"the log of {which}: these begin with attempt {unseen}, a restart"
    elif failure_class == "unknown_restart":
        fact = "the log of the earlier attempt: these begin with a restart"
    else:
        return None
    return {"fact": fact, "how": "the attempt_N folders of the launcher's log directory; kubectl logs --previous; sacct -j JOB --duplicates and the first run's file"}
