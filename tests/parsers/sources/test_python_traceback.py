from __future__ import annotations

import pytest

from correlator.parsers.schema import Sink, Tag
from correlator.parsers.sources import python_traceback

from .reading import line, only, read

EXCEPTHOOK = (Tag("ranktag", 3, spaced=True),)
MAIN = '  File "/w/train.py", line 9, in <module>\n    main()\n'


def raised(text: str, tags: tuple[Tag, ...] = ()):
    return only(read(python_traceback, text, tags=tags), "raised")


def test_frames_text_and_end() -> None:
    event = raised(
        f'Traceback (most recent call last):\n{MAIN}  File "/w/data.py", line 70, in load\n    raise ValueError(x)\n    ^^^^^^^\nValueError: bad sample 7741\nstep 4 loss 2.0'
    )
    assert event.attrs == {
        "exception": "ValueError", "text": "bad sample 7741", "frames": ["train.py:<module>", "data.py:load"], "outer": "<module>", "uncaught": True,
        "paths": ["/w/train.py", "/w/data.py"], "quote_line": 7,
    }  # fmt: skip
    assert (event.message, event.line, event.line_end) == ("ValueError: bad sample 7741", 1, 7)


@pytest.mark.parametrize(
    ("outer", "tags", "uncaught"),
    [("<module>", (), True), ("_run_module_as_main", (), True), ("train_loop", (), False), ("train_loop", EXCEPTHOOK, True), ("train_loop", (Tag("ranktag", 3),), False)],
)
def test_uncaught(outer: str, tags: tuple[Tag, ...], uncaught: bool) -> None:
    assert raised(f'Traceback (most recent call last):\n  File "/w/a.py", line 1, in {outer}\n    f()\nKeyError: 3', tags).attrs["uncaught"] is uncaught


def test_a_thread_that_ends_is_not_the_program() -> None:
    text = 'Exception in thread Thread-5 (watch):\nTraceback (most recent call last):\n  File "/usr/lib/python3.11/threading.py", line 1045, in _bootstrap_inner\n    self.run()\nOSError: gone'
    assert raised(text).attrs["uncaught"] is False


def test_a_chain_is_one_event_with_its_last_exception() -> None:
    text = f"""Traceback (most recent call last):
{MAIN}RuntimeError: first

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
{MAIN}KeyError: 'second'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/w/train.py", line 12, in <module>
    main()
ValueError: third"""
    event = raised(text)
    assert (event.attrs["exception"], event.attrs["cause"], event.attrs["frames"], event.line_end) == ("ValueError", "RuntimeError: first", ["train.py:<module>"], 18)


def test_raised_while_handling_a_lost_peer_is_its_consequence() -> None:
    text = f"""Traceback (most recent call last):
{MAIN}RuntimeError: [/x/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.2]:61608. This is

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
{MAIN}RuntimeError: checkpoint on failure could not be written"""
    event = only(read(python_traceback, text), "lost_connection")
    assert (event.peer_host, event.attrs["why"], event.attrs["text"]) == ("10.0.0.2", "raised while handling it", "checkpoint on failure could not be written")


def test_messages_of_several_lines() -> None:
    text = f"""Traceback (most recent call last):
{MAIN}torch.AcceleratorError: CUDA error: device-side assert triggered
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.

cleanup"""
    event = raised(text)
    assert event.message.count("\n") == 3
    assert (event.attrs["exception"], event.attrs["text"]) == ("AcceleratorError", "CUDA error: device-side assert triggered")


def test_the_programs_next_output_is_not_the_message() -> None:
    assert raised(f"Traceback (most recent call last):\n{MAIN}ValueError: bad sample\ncleanup: destroy_process_group()").message == "ValueError: bad sample"


def test_a_log_record_ends_it() -> None:
    event = raised(f"Traceback (most recent call last):\n{MAIN}ValueError: state is:\n2026-11-30 10:00:00,123 INFO trainer: saved")
    assert event.message == "ValueError: state is:"


def test_syntax_error_repeats_and_marks() -> None:
    event = raised(
        'Traceback (most recent call last):\n  File "/w/a.py", line 1, in <module>\n    import b\n  File "/w/b.py", line 3\n    x ==\n        ^\nSyntaxError: invalid syntax'
    )
    assert (event.attrs["exception"], event.attrs["frames"]) == ("SyntaxError", ["a.py:<module>", "b.py:<module>"])
    deep = raised(f"Traceback (most recent call last):\n{MAIN}  [Previous line repeated 996 more times]\nRecursionError: maximum recursion depth exceeded")
    assert deep.attrs["exception"] == "RecursionError"


def test_lines_that_a_terminal_wrapped() -> None:
    text = 'Traceback (most recent call last):\n  File "/w/very/long/pa\nth/train.py", line 9, in <module>\n    main()\nValueError: x'
    assert raised(text).attrs["exception"] == "ValueError"


def test_a_cut_traceback_does_not_swallow_the_log() -> None:
    steps = "\n".join(f"step: {n}" for n in range(30))
    out = read(python_traceback, f"Traceback (most recent call last):\n{MAIN}{steps}")
    event = only(out, "warned")
    assert (event.attrs["why"], event.line_end) == ("traceback without its exception", 9)


def test_a_second_traceback_after_a_cut_one_counts() -> None:
    event = raised(f'Traceback (most recent call last):\n  File "/w/x.py", line 1, in f\nTraceback (most recent call last):\n{MAIN}ValueError: y')
    assert event.attrs["frames"] == ["train.py:<module>"]


def test_indented_tracebacks() -> None:
    text = '    Traceback (most recent call last):\n      File "/w/a.py", line 1, in <module>\n        f()\n    ValueError: deep'
    assert raised(text).attrs["text"] == "deep"


def test_exception_group_shows_its_first_leaf() -> None:
    text = """  + Exception Group Traceback (most recent call last):
  |   File "/w/a.py", line 3, in <module>
  |     raise ExceptionGroup("eg", [ValueError(1)])
  | ExceptionGroup: eg (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/w/b.py", line 3, in load
    |     f()
    | ValueError: bad shard
    +---------------- 2 ----------------
    | TypeError: two
    +------------------------------------
step 3"""
    event = raised(text)
    assert (event.attrs["exception"], event.attrs["text"], event.attrs["group"]) == ("ValueError", "bad shard", "ExceptionGroup: eg (2 sub-exceptions)")
    assert (event.attrs["frames"], event.attrs["uncaught"], event.line_end) == (["a.py:<module>"], True, 12)


def test_an_exception_of_a_loader_worker_is_the_workers() -> None:
    text = f"""Traceback (most recent call last):
{MAIN}RuntimeError: Caught UnpicklingError in DataLoader worker process 2.
Original Traceback (most recent call last):
  File "/v/torch/utils/data/_utils/worker.py", line 309, in _worker_loop
    data = fetcher.fetch(index)
  File "/w/data.py", line 5, in __getitem__
    return pickle.loads(x)
_pickle.UnpicklingError: invalid load key

[rank0]: step"""
    event = raised(text)
    assert (event.attrs["exception"], event.attrs["text"], event.attrs["worker"], event.line_end) == ("UnpicklingError", "invalid load key", 2, 10)


def test_a_spawned_process_that_raised() -> None:
    text = f"""Traceback (most recent call last):
{MAIN}torch.multiprocessing.spawn.ProcessRaisedException: {""}

-- Process 1 terminated with the following error:
Traceback (most recent call last):
  File "/v/torch/multiprocessing/spawn.py", line 90, in _wrap
    fn(i, *args)
ValueError: bad shape"""
    event = raised(text)
    assert (event.attrs["exception"], event.attrs["local_rank"], event.attrs["uncaught"]) == ("ValueError", 1, True)
    assert "cause" not in event.attrs


@pytest.mark.parametrize(("words", "signal", "code"), [("signal SIGKILL", "SIGKILL", None), ("exit code 3", None, 3)])
def test_a_spawned_process_that_left(words: str, signal: str | None, code: int | None) -> None:
    event = only(read(python_traceback, f"torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with {words}"), "exit_record")
    assert (event.attrs["local_rank"], event.attrs.get("signal"), event.attrs.get("exitcode")) == (1, signal, code)


def test_a_quoted_traceback_of_another_rank() -> None:
    text = 'Traceback (most recent call last): (RANK 3)\n  File "/v/torch/distributed/checkpoint/utils.py", line 1, in reduce_scatter\n    f()\nOSError: [Errno 28] No space left on device'
    event = raised(text)
    assert (event.attrs["subject_rank"], event.attrs["second_hand"]) == (3, True)


AGENT = '  File "/v/torch/distributed/run.py", line 901, in main\n    run(args)\n'


def test_exceptions_of_the_agent() -> None:
    stop = only(
        read(python_traceback, f"Traceback (most recent call last):\n{AGENT}torch.distributed.elastic.multiprocessing.api.SignalException: Process 12 got signal: 15"),
        "external_signal",
    )
    assert stop.attrs == {"signal": "SIGTERM", "agent": True, "quote_line": 4}
    for name, kind in (("RendezvousTimeoutError", "rendezvous_expired"), ("RendezvousConnectionError", "lost_store"), ("RendezvousClosedError", "teardown_noise")):
        event = only(read(python_traceback, f"Traceback (most recent call last):\n{AGENT}torch.distributed.elastic.rendezvous.api.{name}: x"), kind)
        assert event.attrs["agent"] is True
    report = read(python_traceback, f"Traceback (most recent call last):\n{AGENT}torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ")
    assert report.events == []


def test_interrupts_and_exits() -> None:
    event = only(read(python_traceback, f"Traceback (most recent call last):\n{MAIN}KeyboardInterrupt", tags=EXCEPTHOOK), "external_signal")
    assert (event.rank, event.attrs) == (3, {"signal": "SIGINT", "agent": False, "quote_line": 4})
    assert read(python_traceback, f"Traceback (most recent call last):\n{MAIN}SystemExit: 1").events == []


def test_what_the_interpreter_ignored_is_noise() -> None:
    text = f"Exception ignored in: <function Pool.__del__ at 0x7f>\nTraceback (most recent call last):\n{MAIN}TypeError: 'NoneType' object is not callable"
    event = only(read(python_traceback, text), "teardown_noise")
    assert event.attrs["exception"] == "TypeError"


@pytest.mark.parametrize(
    ("text", "exception"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "OutOfMemoryError"),
        ("RuntimeError: shapes differ", "RuntimeError"),
        ("my.pkg.LoadFailure: shard 3", "LoadFailure"),
    ],
)
def test_lines_without_a_traceback(text: str, exception: str) -> None:
    event = raised(text)
    assert (event.attrs["exception"], event.attrs["loose"], event.attrs.get("uncaught")) == (exception, True, None)


@pytest.mark.parametrize(
    "text", ["UserWarning: deprecated", "Loss: 2.1", "Epoch: 3", "Errors were found in the run of yesterday and the day", "  ValueError: indented", "see ValueError: x"]
)
def test_lines_that_only_look_like_one(text: str) -> None:
    assert read(python_traceback, text).events == []


def test_dotted_lower_case_names_after_a_frame() -> None:
    assert raised(f"Traceback (most recent call last):\n{MAIN}socket.timeout: timed out").attrs["exception"] == "timeout"


def test_the_rulebook_sees_type_and_text() -> None:
    seen: list[tuple[str, str]] = []

    def refine(source: str, text: str):
        seen.append((source, text))
        return "out_of_memory", {"rule": "r", "signature": "s"}

    out = Sink("x.log", refine)
    python_traceback.parse(line("torch.OutOfMemoryError: CUDA out of memory."), out)
    assert seen == [("python", "torch.OutOfMemoryError: CUDA out of memory.")]
    assert (out.events[0].kind, out.events[0].attrs["rule"], out.events[0].attrs["exception"]) == ("out_of_memory", "r", "OutOfMemoryError")


@pytest.mark.parametrize(("last", "lines"), [("OSError: [Errno 5] Input/output error", 3), ("RuntimeError: NCCL communicator was aborted", 5)])
def test_cpp_frames_follow_only_what_cpp_raised(last: str, lines: int) -> None:
    """Behind a handled OSError they are the watchdog's, whose prefixed lines run in another stream."""
    text = f'Traceback (most recent call last):\n  File "data.py", line 9, in read\n{last}\nException raised from checkTimeout at ProcessGroupNCCL.cpp:691 (most recent call first):\nframe #0: c10::Error::Error() + 0x98\n'
    event = next(e for e in read(python_traceback, text).events if e.attrs.get("exception"))
    assert event.line_end == lines
