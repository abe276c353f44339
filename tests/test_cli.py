"""The command line as a user meets it: outputs, exit codes, errors without tracebacks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SAMPLE = str(ROOT / "sample_logs" / "tee-decoy-data-error" / "logs")
HEALTHY = str(ROOT / "sample_logs" / "healthy-warnings" / "logs")


def run(*args: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "correlator", *args], capture_output=True, text=True, input=stdin, cwd=ROOT, check=False)


def test_text_fits_a_terminal() -> None:
    done = run("diagnose", SAMPLE)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Rank 1")
    assert max(len(line) for line in lines) <= 80
    assert "\x1b" not in done.stdout
    assert len(lines) <= 60
    assert "job.log:148" in done.stdout


def test_json_and_exit_code() -> None:
    done = run("diagnose", SAMPLE, "--format", "json", "--exit-code")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["schema_version"] == 1
    assert document["incidents"][document["primary"]]["initiating_ranks"] == [1]
    assert run("diagnose", HEALTHY, "--exit-code").returncode == 0


def test_markdown_to_a_file(tmp_path: Path) -> None:
    out = tmp_path / "ticket.md"
    assert run("diagnose", SAMPLE, "--format", "markdown", "-o", str(out)).returncode == 0
    assert out.read_text().startswith("## Rank 1")


def test_stdin() -> None:
    log = (Path(SAMPLE) / "job.log").read_text()
    done = run("diagnose", "-", stdin=log)
    assert done.stdout.startswith("Rank 1")


def test_why_and_why_not() -> None:
    done = run("diagnose", SAMPLE, "--why", "--why-not", "3")
    assert "CAUSES AND EFFECTS" in done.stdout
    assert "RANK 3 IS NOT THE INITIATOR" in done.stdout
    assert "RANK 1 IS THE INITIATOR" in run("diagnose", SAMPLE, "--why-not", "1").stdout


def test_keep_ask_export(tmp_path: Path) -> None:
    job = tmp_path / "job.duckdb"
    assert run("ingest", SAMPLE, "-o", str(job)).returncode == 0
    done = run("sql", str(job), "SELECT rank, state FROM ranks ORDER BY rank", "--format", "csv")
    assert done.stdout.splitlines()[:2] == ["rank,state", "0,waiting"]
    assert run("diagnose", str(job)).stdout.startswith("Rank 1")
    for name in ("t.parquet", "t.csv", "t.jsonl", "t.arrow"):
        assert run("export", str(job), "-o", str(tmp_path / name)).returncode == 0
        assert (tmp_path / name).stat().st_size > 100
    piped = run("sql", str(job), stdin="SELECT count(*) AS n FROM incidents")
    assert "(1 row)" in piped.stdout


def test_queries_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "q.sql"
    file.write_text("SELECT 1 AS a; SELECT 2 AS b;")
    done = run("sql", SAMPLE, "-f", str(file), "--format", "json")
    assert done.returncode == 0
    assert '"a": 1' in done.stdout
    assert '"b": 2' in done.stdout


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("diagnose", "/nowhere/at/all"), "no such file"),
        (("sql", SAMPLE, "DROP TABLE facts"), "only queries"),
        (("export", SAMPLE, "-o", "x.docx"), "unknown export format"),
        (("rules", "show", "no-such-rule"), "no rule"),
        (("score", "docs"), "no labelled incidents"),
        (("diagnose", SAMPLE, "--tz", "nonsense"), "--tz"),
        (("diagnose", SAMPLE, "--rank-map", "/nowhere.csv"), "rank map"),
        (("diagnose", SAMPLE, "-o", "/nowhere/x.txt"), "cannot write"),
        (("sql", SAMPLE, "SELECT 1", "--format", "parquet"), "parquet needs a file"),
        (("sql", SAMPLE, "-f", "/nowhere.sql"), "cannot read the queries"),
        (("ingest", SAMPLE, "-o", "README.md"), "will not overwrite"),
    ],
)
def test_errors_say_what_where_why_and_what_to_do(args: tuple[str, ...], says: str) -> None:
    done = run(*args)
    assert done.returncode == 2
    assert says in done.stderr
    assert "help:" in done.stderr
    assert "Traceback" not in done.stderr


def test_usage_errors_exit_with_2() -> None:
    assert run("diagnose", "--no-such-option").returncode == 2
    assert run("diagnose").returncode == 2


def test_traceback_only_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORRELATOR_DEBUG", "1")
    done = run("diagnose", "/nowhere/at/all")
    assert done.returncode != 0
    assert "Traceback" in done.stderr


def test_why_not_of_a_suspect_says_what_is_not_proved(tmp_path: Path) -> None:
    waited = "[rank{r}]: Traceback (most recent call last):\n[rank{r}]: RuntimeError: [/b/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 9000ms for recv operation to complete\n"
    for r in range(4):
        (tmp_path / f"rank_{r}.log").write_text(f"rank={r} world_size=4\nstep 1 loss=2\n" + (waited.format(r=r) if r in (0, 3) else ""))
    done = run("diagnose", str(tmp_path), "--why-not", "1")
    assert "RANK 1 IS A SUSPECT, NOT PROVED" in done.stdout and "because rank 2 did as well" in " ".join(done.stdout.split())


def test_why_not_of_a_rank_that_does_not_exist() -> None:
    assert run("diagnose", SAMPLE, "--why-not", "99").stdout.endswith("Rank 99 is not a rank of this job.\n")


def test_rank_map_and_attempt_are_accepted_by_all_that_read_logs(tmp_path: Path) -> None:
    ranks = tmp_path / "ranks.csv"
    ranks.write_text("rank_0.log,0\n")
    hints = ("--rank-map", str(ranks), "--attempt", "0", "--world-size", "4", "--tz", "node*=+00:00")
    assert run("diagnose", SAMPLE, *hints).returncode == 0
    assert run("ingest", SAMPLE, "-o", str(tmp_path / "j.duckdb"), *hints).returncode == 0
    assert run("export", SAMPLE, "-o", str(tmp_path / "t.csv"), *hints).returncode == 0
    assert run("sql", SAMPLE, "SELECT 1 AS a", *hints).stdout.splitlines() == ["a", "-", "1", "(1 row)"]
    assert "cannot change a kept job file" in run("sql", str(tmp_path / "j.duckdb"), "SELECT 1", *hints).stderr


def test_rules_check_names_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text('id = "x"\nbroken = [\n')
    done = run("rules", "check", str(tmp_path))
    assert done.returncode == 2
    assert "bad.toml:2" in done.stderr
    assert "help:" in done.stderr


def test_rules_list_and_show() -> None:
    done = run("rules", "list")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) >= 40
    shown = run("rules", "show", "zero3-stale-sync-clipping").stdout
    assert "MECHANISM" in shown
    assert "VERIFY" in shown


def test_score_prints_its_table() -> None:
    done = run("score", "sample_logs", "--only", "torchrun")
    assert "answerable ranks right" in done.stdout
    assert "torchelastic root cause" in done.stdout


def test_help_is_light() -> None:
    code = (
        "import sys; sys.argv = ['correlator', '--help']\n"
        "from correlator.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sorted(m for m in ('polars', 'duckdb', 'pyarrow') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
