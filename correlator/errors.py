"""Errors that a user sees: what, where, why, and what to do."""

from __future__ import annotations


class CorrelatorError(Exception):
    """An error with everything the user needs; the command line prints it without a traceback."""

    def __init__(self, what: str, *, where: str = "", why: str = "", help: str = "") -> None:
        super().__init__(what)
        self.what, self.where, self.why, self.help = what, where, why, help

    def __str__(self) -> str:
        lines = [f"error: {self.what}"]
        lines += [f"  {name}: {text}" for name, text in (("where", self.where), ("why", self.why), ("help", self.help)) if text]
        return "\n".join(lines)
