-- law: ahead-of-peers
-- stratum: derive
-- needs: aborted, finished
-- claim: When a receiver meets data of another size, somebody called another collective than the rest; the one rank that is a step ahead of all others skipped one. The rank that prints the size error is the innocent receiver. With nobody ahead the mismatch names no one. A few ranks that said they were done, while most others wait for them in a collective and never say so, left the loop early.
-- source: torch.distributed.algorithms.join (every rank needs the same number of steps); gloo pair.cc "op.preamble.length <= op.nbytes": the receiver checks, the sender differs
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
voted AS (SELECT DISTINCT attempt FROM facts WHERE predicate = 'mismatch'),
done AS (
    SELECT attempt, rank, min(event_id) AS event_id, min(ts) AS ts, max(step) AS step FROM ev WHERE kind = 'finished' AND rank IS NOT NULL GROUP BY attempt, rank
),
waiting AS (
    SELECT DISTINCT f.attempt, TRY_CAST(f.subject AS INTEGER) AS rank FROM facts f
    WHERE f.predicate = 'timed_out_waiting' AND f.subject_kind = 'rank' AND f.status = 'active'
),
early AS (SELECT d.* FROM done d WHERE NOT EXISTS (SELECT 1 FROM waiting w WHERE w.attempt = d.attempt AND w.rank = d.rank)),
left_behind AS (SELECT w.attempt, count(*) AS n FROM waiting w WHERE NOT EXISTS (SELECT 1 FROM done d WHERE d.attempt = w.attempt AND d.rank = w.rank) GROUP BY w.attempt)
SELECT s.attempt, 'mismatch' AS predicate, CASE WHEN a.rank IS NULL THEN 'group' ELSE 'rank' END AS subject_kind, coalesce(CAST(a.rank AS VARCHAR), '0') AS subject,
    'group' AS object_kind, 'vote' AS object, CAST(NULL AS TIMESTAMPTZ) AS onset_low, CAST(NULL AS TIMESTAMPTZ) AS onset_high, CAST(NULL AS VARCHAR) AS pg,
    CAST(NULL AS BIGINT) AS seq, a.last_step AS step, CAST(NULL AS VARCHAR) AS coverage, 1 AS events, s.event_id AS first_event_id, s.event_id AS last_event_id,
    json_object('vote', CASE WHEN a.rank IS NULL THEN 'no majority' ELSE 'ahead' END) AS attrs
FROM sizes s LEFT JOIN ahead a ON a.attempt = s.attempt AND a.n = 1 AND a.printing > 2
WHERE NOT EXISTS (SELECT 1 FROM voted v WHERE v.attempt = s.attempt)
UNION ALL
SELECT e.attempt, 'left_early' AS predicate, 'rank' AS subject_kind, CAST(e.rank AS VARCHAR) AS subject, CAST(NULL AS VARCHAR) AS object_kind, CAST(NULL AS VARCHAR) AS object,
    e.ts AS onset_low, e.ts AS onset_high, CAST(NULL AS VARCHAR) AS pg, CAST(NULL AS BIGINT) AS seq, e.step, CAST(NULL AS VARCHAR) AS coverage, 1 AS events,
    e.event_id AS first_event_id, e.event_id AS last_event_id, json_object('why', 'finished while the others waited') AS attrs
FROM early e JOIN left_behind l USING (attempt)
WHERE (SELECT count(*) FROM early x WHERE x.attempt = e.attempt) * 2 <= l.n
    AND NOT EXISTS (SELECT 1 FROM facts f JOIN predicates p USING (predicate) WHERE f.attempt = e.attempt AND f.status = 'active' AND p.can_initiate <> 'no'
        AND p.certainty = 'words' AND coalesce(f.attrs->>'uncaught', 'true') = 'true' AND f.predicate NOT IN ('warned', 'external_signal'))
