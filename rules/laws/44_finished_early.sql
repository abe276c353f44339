-- law: finished-early
-- stratum: derive
-- needs: finished, exit_record, left_early
-- claim: A rank that was done, or left with code 0, at an earlier step than its peers left the loop while they went on: their waits and lost connections come from that. So did a few ranks that said they were done while most others wait for them in a collective and never say so, where no one's own words tell of another cause. Words of leaving that no prefix attributes are those of the only rank that does not wait.
-- source: torch.distributed.algorithms.join (a synchronous job has one number of steps); gloo and NCCL peers of a process that exits see a closed connection or wait
WITH done AS (
    SELECT attempt, coalesce(peer_rank, rank) AS rank, min(event_id) AS event_id, max(event_id) AS last_event_id, min(ts) AS ts, max(step) AS step, count(*) AS events,
        bool_or(kind = 'exit_record') AS left_, bool_or(kind = 'finished') AS said
    FROM ev WHERE kind = 'finished' AND rank IS NOT NULL OR kind = 'exit_record' AND peer_rank IS NOT NULL AND (attrs->>'exitcode') = '0' GROUP BY ALL
),
top AS (SELECT attempt, max(last_step) AS step, count(*) AS world FROM ranks GROUP BY attempt),
hit AS (  -- who still worked, and says that it waits for or lost the others
    SELECT DISTINCT f.attempt, TRY_CAST(f.subject AS INTEGER) AS rank, f.predicate = 'timed_out_waiting' AS waits FROM facts f
    WHERE f.subject_kind = 'rank' AND f.status = 'active' AND f.predicate IN ('timed_out_waiting', 'lost_connection', 'lost_store', 'remote_error', 'watchdog_stuck')
),
left_behind AS (SELECT h.attempt, count(DISTINCT h.rank) AS n FROM hit h WHERE h.waits AND NOT EXISTS (SELECT 1 FROM done d WHERE d.attempt = h.attempt AND d.rank = h.rank) GROUP BY h.attempt),
explained AS (
    SELECT DISTINCT f.attempt FROM facts f JOIN predicates p USING (predicate) WHERE f.status = 'active' AND p.can_initiate <> 'no' AND p.certainty = 'words'
        AND coalesce(f.attrs->>'uncaught', 'true') = 'true' AND f.predicate NOT IN ('warned', 'external_signal')
),
early AS (
    SELECT d.*, r.last_step, r.coverage, t.world, coalesce(r.last_step < t.step, false) AS sooner,
        count(*) FILTER (WHERE r.last_step < t.step) OVER (PARTITION BY d.attempt) AS n_sooner, count(*) FILTER (WHERE d.said) OVER (PARTITION BY d.attempt) AS n_said
    FROM done d JOIN ranks r USING (attempt, rank) JOIN top t USING (attempt)
    WHERE NOT EXISTS (SELECT 1 FROM hit h WHERE h.attempt = d.attempt AND h.rank = d.rank)
)
SELECT e.attempt, 'left_early' AS predicate, 'rank' AS subject_kind, CAST(e.rank AS VARCHAR) AS subject, CAST(NULL AS VARCHAR) AS object_kind, CAST(NULL AS VARCHAR) AS object,
    e.ts AS onset_low, e.ts AS onset_high, CAST(NULL AS VARCHAR) AS pg, CAST(NULL AS BIGINT) AS seq, coalesce(e.last_step, e.step) AS step, e.coverage, e.events,
    e.event_id AS first_event_id, e.last_event_id, json_object('how', CASE WHEN e.left_ THEN 'exit code 0' ELSE 'said that it was done' END) AS attrs
FROM early e LEFT JOIN left_behind l USING (attempt)
WHERE EXISTS (SELECT 1 FROM hit h WHERE h.attempt = e.attempt) AND NOT EXISTS (SELECT 1 FROM facts f WHERE f.attempt = e.attempt AND f.predicate = 'left_early')
    AND (e.sooner AND e.n_sooner * 2 < e.world OR e.said AND e.n_said * 2 <= l.n AND NOT EXISTS (SELECT 1 FROM explained x WHERE x.attempt = e.attempt))
UNION ALL
SELECT f.attempt, f.predicate, 'rank', CAST(o.rank AS VARCHAR), f.object_kind, f.object, f.onset_low, f.onset_high, f.pg, f.seq, f.step, f.coverage, f.events, f.first_event_id, f.last_event_id,
    json_merge_patch(f.attrs, '{"owner": "the only rank that does not wait"}')
FROM facts f JOIN (
    SELECT r.attempt, min(r.rank) AS rank FROM ranks r JOIN top t USING (attempt)
    WHERE t.world > 2 AND NOT EXISTS (SELECT 1 FROM hit h WHERE h.attempt = r.attempt AND h.rank = r.rank) GROUP BY r.attempt HAVING count(*) = 1
) o USING (attempt)
WHERE f.predicate = 'left_early' AND f.subject_kind = 'process' AND f.status = 'active'
