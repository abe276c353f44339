-- Question: who enqueued, completed or timed out at which collective of which group?
-- Inputs:   ev. Sequence numbers are compared only inside one group (pg); a rank without a global number is left out.
-- Output:   the columns of `collectives`
WITH statements AS (
    SELECT attempt, coalesce(pg, '0') AS pg, seq, rank, op, (attrs->>'numel_in') AS numel_in, (attrs->>'numel_out') AS numel_out,
        (attrs->>'dtype') AS dtype,
        CASE WHEN kind = 'timed_out_waiting' AND duration_ms IS NOT NULL AND ts_origin = 'own'
            THEN ts - to_microseconds(CAST(duration_ms * 1000 AS BIGINT)) WHEN kind = 'enqueued' THEN ts END AS enqueued_ts,
        CASE WHEN kind = 'completed' THEN ts END AS completed_ts,
        CASE kind WHEN 'timed_out_waiting' THEN 'timed_out' WHEN 'completed' THEN 'completed' ELSE 'enqueued' END AS state,
        TRY_CAST((attrs->>'timeout_ms') AS DOUBLE) AS timeout_ms
    FROM ev WHERE kind IN ('timed_out_waiting', 'enqueued', 'completed') AND seq IS NOT NULL AND rank IS NOT NULL
)
SELECT attempt, pg, seq, rank, any_value(op) AS op, any_value(numel_in) AS numel_in, any_value(numel_out) AS numel_out,
    any_value(dtype) AS dtype, min(enqueued_ts) AS enqueued_ts, CAST(NULL AS TIMESTAMPTZ) AS started_ts, max(completed_ts) AS completed_ts,
    max_by(state, CASE state WHEN 'timed_out' THEN 3 WHEN 'completed' THEN 2 ELSE 1 END) AS state, max(timeout_ms) AS timeout_ms
FROM statements GROUP BY attempt, pg, seq, rank ORDER BY attempt, pg, seq, rank
