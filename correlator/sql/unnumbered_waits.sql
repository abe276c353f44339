-- Question: who waited in a call whose message has no number (gloo, monitored barrier), and whom did a report name as missing?
-- Inputs:   ev (groups settled)
-- Output:   the columns of `collectives`, seq null
WITH waits AS (
    SELECT attempt, coalesce(pg, '0') AS pg, rank, any_value(op) AS op, max(TRY_CAST((attrs->>'timeout_ms') AS DOUBLE)) AS timeout_ms,
        min(CASE WHEN duration_ms IS NOT NULL AND ts_origin = 'own' THEN ts - to_microseconds(CAST(duration_ms * 1000 AS BIGINT)) END) AS enqueued_ts
    FROM ev WHERE kind = 'timed_out_waiting' AND seq IS NULL AND rank IS NOT NULL AND coalesce(pg, '0') NOT LIKE '%?' GROUP BY attempt, coalesce(pg, '0'), rank
),
named AS (
    SELECT DISTINCT attempt, pg, rank FROM (
        SELECT e.attempt, coalesce(e.pg, e.attrs->>'group', '0') AS pg, unnest(coalesce(CAST((e.attrs->'ranks') AS INTEGER[]), [e.peer_rank])) AS rank
        FROM ev e WHERE e.kind = 'accused' AND coalesce(e.attrs->>'reliable', 'true') = 'true' AND (e.attrs->>'at_seq') IS NULL AND e.seq IS NULL
            AND coalesce(e.attrs->>'why', '') NOT IN ('ras_error', 'checkpoint', 'ras_status'))
    WHERE rank IS NOT NULL
)
SELECT attempt, pg, CAST(NULL AS BIGINT), rank, op, CAST(NULL AS VARCHAR), CAST(NULL AS VARCHAR), CAST(NULL AS VARCHAR), enqueued_ts, CAST(NULL AS TIMESTAMPTZ),
    CAST(NULL AS TIMESTAMPTZ), 'timed_out', timeout_ms, 'words', false
FROM waits
UNION ALL
SELECT n.attempt, n.pg, NULL, n.rank, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'never_arrived', NULL, 'accused', true FROM named n
WHERE NOT EXISTS (SELECT 1 FROM collectives c WHERE c.attempt = n.attempt AND c.pg = n.pg AND c.awaited)  -- the number is known there
    AND NOT EXISTS (SELECT 1 FROM waits w WHERE w.attempt = n.attempt AND w.pg = n.pg AND w.rank = n.rank)
ORDER BY ALL
