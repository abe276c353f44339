from __future__ import annotations

import json

import pytest

from correlator.parsers.documents import error_json
from correlator.parsers.schema import Sink

STACK = 'Traceback (most recent call last):\n  File "/v/torch/distributed/elastic/multiprocessing/errors/__init__.py", line 367, in wrapper\n    return f()\n  File "/w/train.py", line 445, in main\n    train()\n'


def read(document: object) -> Sink:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    assert error_json.claims("attempt_0/0/error.json", data[:4096])
    out = Sink("attempt_0/0/error.json")
    error_json.parse("attempt_0/0/error.json", data, out)
    return out


def written(text: str) -> dict[str, object]:
    return {"message": {"message": text, "extraInfo": {"py_callstack": STACK + text, "timestamp": "1796074455"}}}


def test_the_exception_left_the_program_at_that_second() -> None:
    (event,) = read(written("ValueError: bad sample 7741")).events
    assert (event.kind, event.attrs["exception"], event.attrs["text"], event.attrs["uncaught"]) == ("raised", "ValueError", "bad sample 7741", True)
    assert event.attrs["frames"] == ["__init__.py:wrapper", "train.py:main"]
    assert event.stamp is not None
    assert (event.stamp.utc_us, event.stamp.offset_min, event.stamp.resolution_us, event.ts_origin) == (1_796_074_455_000_000, 0, 1_000_000, "own")


def test_a_victims_text_is_read_like_in_a_log() -> None:
    (event,) = read(written("RuntimeError: [/x/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.1]:6. This is")).events
    assert (event.kind, event.peer_host, event.attrs["exception"]) == ("lost_connection", "10.0.0.1", "RuntimeError")


def test_the_older_form() -> None:
    (event,) = read({"message": "KeyError: 'lr'", "timestamp": 1796074455}).events
    assert (event.attrs["exception"], event.stamp is not None) == ("KeyError", True)


def test_a_time_that_cannot_be_read_is_left_out() -> None:
    (event,) = read({"message": "KeyError: 'lr'", "timestamp": "soon"}).events
    assert (event.stamp, event.ts_origin) == (None, "none")


@pytest.mark.parametrize(("data", "kind"), [(b"", "empty"), (b'{"message": {"message": "Val', "truncated"), (b'{"message": 3}', "unreadable"), (b"[1]", "unreadable")])
def test_damage_is_a_problem(data: bytes, kind: str) -> None:
    out = read(data)
    assert (out.events, [p.kind for p in out.problems]) == ([], [kind])


def test_other_json_is_left_alone() -> None:
    assert not error_json.claims("config.json", b'{"message": "hello"}')
