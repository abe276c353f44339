-- law: finished-early
-- stratum: derive
-- needs: finished, exit_record
-- claim: A rank that was done, or left with code 0, at an earlier step than its peers left the loop while they went on: their waits and lost connections come from that.
-- source: a synchronous job has one number of steps; gloo and NCCL peers of a process that exits see a closed connection or wait
WITH done AS (
    SELECT attempt, coalesce(peer_rank, rank) AS rank, min(event_id) AS event_id, max(event_id) AS last_event_id, min(ts) AS ts, count(*) AS events,
        bool_or(kind = 'exit_record') AS left_
    FROM ev WHERE kind = 'finished' AND rank IS NOT NULL OR kind = 'exit_record' AND peer_rank IS NOT NULL AND (attrs->>'exitcode') = '0' GROUP BY ALL
),
top AS (SELECT attempt, max(last_step) AS step, count(*) AS world FROM ranks GROUP BY attempt),
hit AS (  -- who still worked, and says that it lost the others
    SELECT DISTINCT f.attempt, f.subject FROM facts f
    WHERE f.subject_kind = 'rank' AND f.status = 'active' AND f.predicate IN ('timed_out_waiting', 'lost_connection', 'lost_store', 'remote_error', 'watchdog_stuck')
),
early AS (
    SELECT d.*, r.last_step, r.coverage, t.world, count(*) OVER (PARTITION BY d.attempt) AS n
    FROM done d JOIN ranks r USING (attempt, rank) JOIN top t USING (attempt)
    WHERE r.last_step < t.step AND NOT EXISTS (SELECT 1 FROM hit h WHERE h.attempt = d.attempt AND h.subject = CAST(d.rank AS VARCHAR))
)
SELECT e.attempt, 'left_early' AS predicate, 'rank' AS subject_kind, CAST(e.rank AS VARCHAR) AS subject, CAST(NULL AS VARCHAR) AS object_kind, CAST(NULL AS VARCHAR) AS object,
    e.ts AS onset_low, e.ts AS onset_high, CAST(NULL AS VARCHAR) AS pg, CAST(NULL AS BIGINT) AS seq, e.last_step AS step, e.coverage, e.events,
    e.event_id AS first_event_id, e.last_event_id, json_object('how', CASE WHEN e.left_ THEN 'exit code 0' ELSE 'said that it was done' END) AS attrs
FROM early e
WHERE e.n * 2 < e.world AND EXISTS (SELECT 1 FROM hit h WHERE h.attempt = e.attempt)
    AND NOT EXISTS (SELECT 1 FROM facts f WHERE f.attempt = e.attempt AND f.predicate = 'left_early')
