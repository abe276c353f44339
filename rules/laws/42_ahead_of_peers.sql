-- law: ahead-of-peers
-- stratum: derive
-- needs: aborted
-- claim: When a receiver meets data of another size, somebody called another collective than the rest; the one rank that is a step ahead of all others skipped one. The rank that prints the size error is the innocent receiver. With nobody ahead the mismatch names no one.
-- source: gloo pair.cc "op.preamble.length <= op.nbytes": the receiver checks, the sender differs
WITH sizes AS (
    SELECT e.attempt, min(e.event_id) AS event_id FROM ev e WHERE e.kind = 'aborted' AND (e.attrs->>'why') = 'size' GROUP BY e.attempt
),
top AS (
    SELECT r.attempt, max(r.last_step) AS step, count(*) FILTER (WHERE r.last_step IS NOT NULL) AS printing FROM ranks r GROUP BY r.attempt
),
ahead AS (
    SELECT r.attempt, r.rank, r.last_step, count(*) OVER (PARTITION BY r.attempt) AS n, t.printing
    FROM ranks r JOIN top t ON t.attempt = r.attempt AND r.last_step = t.step
),
voted AS (SELECT DISTINCT attempt FROM facts WHERE predicate = 'mismatch')
SELECT s.attempt, 'mismatch' AS predicate, CASE WHEN a.rank IS NULL THEN 'group' ELSE 'rank' END AS subject_kind, coalesce(CAST(a.rank AS VARCHAR), '0') AS subject,
    'group' AS object_kind, 'vote' AS object, CAST(NULL AS TIMESTAMPTZ) AS onset_low, CAST(NULL AS TIMESTAMPTZ) AS onset_high, CAST(NULL AS VARCHAR) AS pg,
    CAST(NULL AS BIGINT) AS seq, a.last_step AS step, CAST(NULL AS VARCHAR) AS coverage, 1 AS events, s.event_id AS first_event_id, s.event_id AS last_event_id,
    json_object('vote', CASE WHEN a.rank IS NULL THEN 'no majority' ELSE 'ahead' END) AS attrs
FROM sizes s LEFT JOIN ahead a ON a.attempt = s.attempt AND a.n = 1 AND a.printing > 2
WHERE NOT EXISTS (SELECT 1 FROM voted v WHERE v.attempt = s.attempt)
