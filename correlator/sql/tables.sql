-- The tables of a job file. Names and types are the contract; columns may be added, never renamed.
CREATE TABLE sources (
    source_id INTEGER NOT NULL, path VARCHAR NOT NULL, bytes BIGINT, lines BIGINT, format VARCHAR, launcher VARCHAR,
    first_ts TIMESTAMPTZ, last_ts TIMESTAMPTZ, steps_total BIGINT
);
CREATE TABLE streams (
    stream_id INTEGER NOT NULL, source_id INTEGER NOT NULL, key_kind VARCHAR, key VARCHAR, host VARCHAR, pid BIGINT,
    node_rank INTEGER, rank INTEGER, local_rank INTEGER, attempt INTEGER, evidence VARCHAR, ending VARCHAR,
    last_line BIGINT, last_text VARCHAR, unit VARCHAR
);
-- what the lines say, before identity and clocks: `events` joins it with streams and clocks
CREATE TABLE event_rows (
    event_id BIGINT NOT NULL, source_id INTEGER NOT NULL, stream_id INTEGER NOT NULL, line BIGINT, line_end BIGINT, byte_offset BIGINT,
    ts_raw VARCHAR, ts_utc TIMESTAMPTZ, ts_resolution_us BIGINT, ts_origin VARCHAR, rank_on_line INTEGER, step BIGINT,
    pg VARCHAR, seq BIGINT, op VARCHAR, level VARCHAR, source VARCHAR, kind VARCHAR, peer_rank INTEGER, peer_host VARCHAR,
    duration_ms DOUBLE, attrs JSON, message VARCHAR
);
CREATE TABLE step_rows (
    source_id INTEGER NOT NULL, stream_id INTEGER NOT NULL, line BIGINT, rank_on_line INTEGER, step BIGINT, ts_utc TIMESTAMPTZ,
    ts_resolution_us BIGINT, loss DOUBLE, grad_norm DOUBLE, loss_scale DOUBLE, skipped BOOLEAN, duration_ms DOUBLE, every BIGINT
);
CREATE TABLE ranks (
    attempt INTEGER, rank INTEGER, host VARCHAR, local_rank INTEGER, gpu INTEGER, pci_bus VARCHAR, pid BIGINT,
    first_ts TIMESTAMPTZ, last_ts TIMESTAMPTZ, last_step BIGINT, last_seq BIGINT, exit_code INTEGER, signal VARCHAR,
    state VARCHAR, coverage VARCHAR, files INTEGER
);
-- members of process groups, as far as the logs tell. pg is the group's name, 0 the default group; nccl:ID an NCCL communicator
-- whose calls NCCL itself logged; NAME@RANK one of several groups of a name. complete: every member is known
CREATE TABLE process_groups (
    attempt INTEGER, pg VARCHAR, rank INTEGER, group_rank INTEGER, size INTEGER, description VARCHAR, complete BOOLEAN
);
-- state: enqueued (called), started (its kernel runs), completed, timed_out, never_arrived (a member that is known not to
-- have called it), mismatched (called with other operands than the majority). No row: nothing is known of that member.
-- seq is null where the message has no number (gloo, barriers). awaited: a call that some member waited for in vain.
CREATE TABLE collectives (
    attempt INTEGER, pg VARCHAR, seq BIGINT, rank INTEGER, op VARCHAR, numel_in VARCHAR, numel_out VARCHAR, dtype VARCHAR,
    enqueued_ts TIMESTAMPTZ, started_ts TIMESTAMPTZ, completed_ts TIMESTAMPTZ, state VARCHAR, timeout_ms DOUBLE,
    basis VARCHAR, awaited BOOLEAN
);
CREATE TABLE clocks (
    host VARCHAR, offset_ms DOUBLE, low_ms DOUBLE, high_ms DOUBLE, barriers INTEGER, utc_offset VARCHAR
);
CREATE TABLE facts (
    fact_id INTEGER, attempt INTEGER, predicate VARCHAR, subject_kind VARCHAR, subject VARCHAR, object_kind VARCHAR,
    object VARCHAR, onset_low TIMESTAMPTZ, onset_high TIMESTAMPTZ, pg VARCHAR, seq BIGINT, step BIGINT, status VARCHAR,
    coverage VARCHAR, events INTEGER, first_event_id BIGINT, last_event_id BIGINT, attrs JSON
);
CREATE TABLE edges (
    attempt INTEGER, cause INTEGER, effect INTEGER, law VARCHAR, grade VARCHAR, basis VARCHAR,
    lag_low_ms DOUBLE, lag_high_ms DOUBLE, why VARCHAR
);
CREATE TABLE incidents (
    incident_id VARCHAR, attempt INTEGER, outcome VARCHAR, scope VARCHAR, initiating_ranks INTEGER[],
    initiating_hosts VARCHAR[], failure_class VARCHAR, rule VARCHAR, confidence DOUBLE, class_confidence DOUBLE,
    onset_ts TIMESTAMPTZ, onset_step BIGINT, summary VARCHAR
);
CREATE TABLE findings (
    incident_id VARCHAR, fact_id INTEGER, event_id BIGINT, rank INTEGER, role VARCHAR, explained_by INTEGER, via VARCHAR
);
CREATE TABLE timeline (
    incident_id VARCHAR, attempt INTEGER, t_ms DOUBLE, ts TIMESTAMPTZ, ts_uncertainty_ms DOUBLE, order_basis VARCHAR,
    rank INTEGER, host VARCHAR, step BIGINT, role VARCHAR, kind VARCHAR, failure_class VARCHAR, message VARCHAR,
    path VARCHAR, line BIGINT
);
CREATE TABLE config (source_id INTEGER, rank INTEGER, key VARCHAR, value VARCHAR, origin VARCHAR, line BIGINT);
CREATE TABLE problems (path VARCHAR, line BIGINT, kind VARCHAR, detail VARCHAR);

-- events: parts joined with who wrote them and with the clock of their host
CREATE VIEW events AS
SELECT e.event_id, e.source_id, e.stream_id, e.line, e.line_end, e.byte_offset, coalesce(s.attempt, 0) AS attempt,
    s.host, s.pid, coalesce(e.rank_on_line, s.rank, TRY_CAST((e.attrs->>'assumed_rank') AS INTEGER)) AS rank, e.ts_raw, e.ts_utc,
    e.ts_utc - to_microseconds(CAST(coalesce(c.offset_ms, 0) * 1000 AS BIGINT)) AS ts,
    coalesce(e.ts_resolution_us / 1000.0, 0) + coalesce((c.high_ms - c.low_ms) / 2, 0) AS ts_uncertainty_ms,
    e.ts_origin, e.step, e.pg, e.seq, e.op, e.level, e.source, e.kind, e.peer_rank, e.peer_host, e.duration_ms, e.attrs, e.message
FROM event_rows e
JOIN streams s USING (stream_id)
LEFT JOIN clocks c ON c.host = s.host;

CREATE VIEW steps AS
SELECT coalesce(s.attempt, 0) AS attempt, coalesce(p.rank_on_line, s.rank) AS rank, p.step,
    p.ts_utc - to_microseconds(CAST(coalesce(c.offset_ms, 0) * 1000 AS BIGINT)) AS ts,
    p.loss, p.grad_norm, p.loss_scale, p.skipped, p.duration_ms, p.every, p.source_id, p.stream_id, p.line
FROM step_rows p
JOIN streams s USING (stream_id)
LEFT JOIN clocks c ON c.host = s.host;
