"""The tables and their columns are the contract: this golden list changes only on purpose."""

from __future__ import annotations

import duckdb

from correlator import store

CONTRACT = {
    "sources": "source_id path bytes lines format launcher first_ts last_ts steps_total",
    "streams": "stream_id source_id key_kind key host pid node_rank rank local_rank attempt evidence ending",
    "events": "event_id source_id stream_id line line_end byte_offset attempt host pid rank ts_raw ts_utc ts ts_uncertainty_ms ts_origin step pg seq op level source kind"
    " peer_rank peer_host duration_ms attrs message",
    "ranks": "attempt rank host local_rank gpu pci_bus pid first_ts last_ts last_step last_seq exit_code signal state coverage files",
    "steps": "attempt rank step ts loss grad_norm loss_scale skipped duration_ms every",
    "collectives": "attempt pg seq rank op numel_in numel_out dtype enqueued_ts started_ts completed_ts state timeout_ms",
    "clocks": "host offset_ms low_ms high_ms barriers utc_offset",
    "facts": "fact_id attempt predicate subject_kind subject object_kind object onset_low onset_high pg seq step status coverage events first_event_id last_event_id attrs",
    "edges": "attempt cause effect law grade basis lag_low_ms lag_high_ms why",
    "incidents": "incident_id attempt outcome scope initiating_ranks initiating_hosts failure_class rule confidence class_confidence onset_ts onset_step summary",
    "findings": "incident_id fact_id event_id rank role explained_by via",
    "timeline": "incident_id attempt t_ms ts ts_uncertainty_ms order_basis rank host step role kind failure_class message path line",
    "config": "source_id rank key value origin",
    "problems": "path line kind detail",
}


def test_tables_hold_the_contract() -> None:
    con = duckdb.connect()
    con.execute(store.sql_text("tables"))
    for table, columns in CONTRACT.items():
        have = [row[0] for row in con.execute(f"DESCRIBE {table}").fetchall()]
        missing = [c for c in columns.split() if c not in have]
        assert not missing, f"{table} lacks {missing}"
