"""Exports carry their documentation and their rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from correlator.api import open_job

SAMPLE = Path(__file__).parents[1] / "sample_logs" / "torchrun-sigkill" / "logs"


def test_parquet_has_docs_version_and_roles(tmp_path: Path) -> None:
    file = tmp_path / "timeline.parquet"
    with open_job(str(SAMPLE)) as job:
        job.export(str(file))
        expected = job.timeline()
    schema = pq.read_schema(file)
    table = pq.read_table(file)

    assert schema.metadata[b"schema_version"] == b"1"
    assert schema.field("t_ms").metadata[b"doc"].startswith(b"milliseconds")
    assert table.num_rows == expected.num_rows > 0
    roles = set(table.column("role").to_pylist())
    assert {"initiating", "propagated"} <= roles
    assert pa.types.is_timestamp(schema.field("ts").type)


def test_other_tables_and_arrow(tmp_path: Path) -> None:
    file = tmp_path / "ranks.arrow"
    with open_job(str(SAMPLE)) as job:
        job.export(str(file), table="ranks")
    with pa.ipc.open_file(file) as reader:
        rows = reader.read_all().to_pylist()
    assert [r["state"] for r in rows] == ["terminated", "waiting", "killed", "waiting"]
