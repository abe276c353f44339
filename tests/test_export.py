"""Exports carry their documentation and their rows, in every format."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from correlator import export
from correlator.api import Job, open_job
from correlator.errors import CorrelatorError

SAMPLE = Path(__file__).parents[1] / "sample_logs" / "torchrun-sigkill" / "logs"


@pytest.fixture(scope="module")
def job() -> Iterator[Job]:
    with open_job(SAMPLE) as opened:
        yield opened


def test_parquet_has_docs_version_and_roles(job: Job, tmp_path: Path) -> None:
    file = tmp_path / "timeline.parquet"
    job.export(file)
    schema, table = pq.read_schema(file), pq.read_table(file)

    assert schema.metadata[b"schema_version"] == b"1"
    assert [f.name for f in schema if b"doc" not in (f.metadata or {})] == []
    assert schema.field("t_ms").metadata[b"doc"].startswith(b"milliseconds")
    assert pq.ParquetFile(file).metadata.row_group(0).column(0).compression == "ZSTD"
    assert table.num_rows == job.timeline().num_rows > 0
    assert {"initiating", "propagated"} <= set(table.column("role").to_pylist())
    assert schema.field("ts").type == pa.timestamp("us", tz="UTC")


def test_arrow(job: Job, tmp_path: Path) -> None:
    file = tmp_path / "ranks.arrow"
    job.export(file, table="ranks")
    with pa.ipc.open_file(file) as reader:
        table = reader.read_all()
    assert table.column("state").to_pylist() == ["terminated", "waiting", "killed", "waiting"]
    assert table.schema.metadata[b"schema_version"] == b"1"


def test_csv_and_jsonl_hold_lists_and_utc_times(job: Job, tmp_path: Path) -> None:
    job.export(tmp_path / "i.csv", table="incidents")
    job.export(tmp_path / "i.jsonl", table="incidents")
    with (tmp_path / "i.csv").open(encoding="utf-8", newline="") as f:
        (row,) = csv.DictReader(f)
    (line,) = (tmp_path / "i.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(row["initiating_ranks"]) == json.loads(line)["initiating_ranks"] == [2]
    assert row["onset_ts"] == json.loads(line)["onset_ts"]
    assert row["onset_ts"].endswith("Z")


@pytest.mark.parametrize(
    "table", ["sources", "streams", "events", "ranks", "steps", "collectives", "clocks", "facts", "edges", "incidents", "findings", "config", "problems"]
)
@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl", "arrow"])
def test_every_table_in_every_format(job: Job, tmp_path: Path, table: str, kind: str) -> None:
    job.export(tmp_path / "out", table=table, format=kind)
    assert (tmp_path / "out").is_file()


def test_what_json_and_csv_cannot_say() -> None:
    data = pa.table({"loss": [float("nan"), 1.5], "name": ['a "b",\nc', None]})
    assert [json.loads(line) for line in export.jsonl_text(data).splitlines()] == [{"loss": None, "name": 'a "b",\nc'}, {"loss": 1.5, "name": None}]
    assert list(csv.reader(export.csv_text(data).splitlines(keepends=True))) == [["loss", "name"], ["nan", 'a "b",\nc'], ["1.5", ""]]


def test_two_columns_of_one_name(job: Job) -> None:
    assert export.csv_text(job.sql("SELECT 1 AS a, 2 AS a")) == "a,a\n1,2\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"path": "x.docx"}, "unknown export format"),
        ({"path": "x.csv", "format": "xls"}, "unknown export format"),
        ({"path": "x.csv", "table": "ranks; DROP"}, "not a table name"),
        ({"path": "x.csv", "table": "nothing"}, "query failed"),
        ({"path": "x.csv", "incident": "attempt7"}, "no incident attempt7"),
        ({"path": "x.csv", "table": "ranks", "incident": "attempt0"}, "timeline only"),
        ({"path": "no/such/folder/x.parquet"}, "cannot write"),
        ({"path": "no/such/folder/x.csv"}, "cannot write"),
    ],
)
def test_errors(job: Job, tmp_path: Path, arguments: dict[str, str], says: str) -> None:
    with pytest.raises(CorrelatorError, match=says):
        job.export(**{**arguments, "path": str(tmp_path / arguments["path"])})
    assert not list(tmp_path.iterdir())
