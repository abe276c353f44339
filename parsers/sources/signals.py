"""Names of POSIX signals on Linux (signal(7)), and which signal an exit status speaks of."""

from __future__ import annotations

NAMES = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 10: "SIGUSR1",
    11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}  # fmt: skip
# what the C library (strsignal) and faulthandler write
WORDS = {
    "Segmentation fault": "SIGSEGV", "Aborted": "SIGABRT", "Bus error": "SIGBUS", "Illegal instruction": "SIGILL", "Floating": "SIGFPE",
    "Killed": "SIGKILL", "Terminated": "SIGTERM",
}  # fmt: skip


def name(number: int | str | None) -> str | None:
    """``SIGTERM`` for 15, ``"15"``, ``"SIGTERM"`` and ``"Signals.SIGTERM"``; other text as it stands."""
    if number is None:
        return None
    text = str(number).removeprefix("Signals.")
    return NAMES.get(int(text), f"signal {text}") if text.isdigit() else text


def of_words(text: str) -> str | None:
    """``SIGSEGV`` for a text that starts with ``Segmentation fault``."""
    return next((signal for word, signal in WORDS.items() if text.startswith(word)), None)


def of_exit(code: int) -> str | None:
    """Signal of an exit status: ``SIGKILL`` for -9 (Popen) and 137 (128 + 9, a shell in between), None for a plain code."""
    if code < 0:
        return name(-code)
    return NAMES.get(code - 128) if code > 128 else None
