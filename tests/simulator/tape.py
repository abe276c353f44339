"""What happened, and the lines that were written about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: ("rank", n), ("agent", host index), ("srun", 0), ("kernel", host index)
Writer = tuple[str, int]


@dataclass(slots=True)
class Happening:
    """Something that some software writes about: ``t`` true time, ``who`` the process that writes, ``what`` a name known to ``texts``."""

    t: float
    who: Writer
    what: str
    data: dict[str, Any] = field(default_factory=dict)
    attempt: int = 0


@dataclass(slots=True)
class Line:
    """One written line. ``proof`` names what this line tells a careful reader (see ``label``); ``dated`` is false for lines without a time."""

    t: float
    writer: Writer
    text: str
    stream: str = "err"  # out, err
    proof: str = ""
    attempt: int = 0
