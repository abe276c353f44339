-- law: recovered
-- stratum: exclude
-- claim: A fault after which its own process went on working, or after which the whole synchronous job made two more steps, was handled and did not end anything. So was one whose process later waited in the same collective, or failed in the same call, as peers that had no such fault.
-- source: a logged traceback is not an exit; in a synchronous job no rank can be missing two steps later; a rank that enqueued what its peers wait in was not the one they wait for (ProcessGroupNCCL.cpp)
WITH faults AS (
    SELECT f.fact_id, f.attempt, f.subject_kind, f.subject, (f.attrs->>'uncaught') AS uncaught, e.source_id, e.line_end, e.ts, e.ts_origin, e.stream_id, e.line, f.predicate
    FROM facts f JOIN predicates p USING (predicate) JOIN ev e ON e.event_id = f.last_event_id
    WHERE p.ends_subject AND p.certainty = 'words' AND f.status = 'active'
        AND f.predicate NOT IN ('external_signal', 'preempted', 'rendezvous_expired', 'timed_out_waiting')
        -- to be done is how a rank leaves early; that the others still wait for it makes it a fault
        AND NOT (f.predicate = 'left_early' AND EXISTS (SELECT 1 FROM facts w WHERE w.attempt = f.attempt AND w.predicate IN ('timed_out_waiting', 'lost_connection')))
),
own_steps AS (  -- later progress of the same rank, by line in one file, by time otherwise
    SELECT f.fact_id, count(DISTINCT s.step) AS n FROM faults f JOIN steps s
        ON s.attempt = f.attempt AND f.subject_kind = 'rank' AND CAST(s.rank AS VARCHAR) = f.subject
        AND (CASE WHEN s.source_id = f.source_id THEN s.line > f.line_end ELSE f.ts_origin IN ('own', 'derived') AND s.ts > f.ts END)
    GROUP BY f.fact_id
),
job_steps AS (  -- later progress of the job: two further step numbers that nobody had printed before
    SELECT f.fact_id, count(DISTINCT s.step) AS n FROM faults f JOIN steps s ON s.attempt = f.attempt
        AND (CASE WHEN s.source_id = f.source_id THEN s.line > f.line_end ELSE f.ts_origin IN ('own', 'derived') AND s.ts > f.ts END)
    GROUP BY f.fact_id
),
done AS (  -- the same process said that it had finished
    SELECT f.fact_id FROM faults f JOIN ev d ON d.attempt = f.attempt AND d.kind = 'finished'
        AND (CASE WHEN d.source_id = f.source_id THEN d.line > f.line_end ELSE d.ts > f.ts END)
        AND (f.subject_kind <> 'rank' OR d.rank IS NULL OR CAST(d.rank AS VARCHAR) = f.subject)
    GROUP BY f.fact_id
),
lived AS (  -- words that look like the end of the program, then steps, then its own complaint of a peer or its launcher's stop: a
    -- child process or a thread died into its log. (Steps alone prove nothing: standard output may have waited in a buffer.)
    SELECT f.fact_id FROM faults f JOIN steps s ON f.uncaught = 'true' AND f.subject_kind = 'rank' AND s.attempt = f.attempt AND s.source_id = f.source_id
        AND CAST(s.rank AS VARCHAR) = f.subject AND s.line > f.line_end
    LEFT JOIN ev x ON x.attempt = f.attempt AND x.source_id = f.source_id AND x.line > s.line AND CAST(x.rank AS VARCHAR) = f.subject
        AND x.kind IN ('timed_out_waiting', 'lost_connection', 'lost_store', 'remote_error', 'watchdog_stuck')
    LEFT JOIN ev t ON t.attempt = f.attempt AND t.kind = 'exit_record' AND CAST(t.peer_rank AS VARCHAR) = f.subject AND (t.attrs->>'signal') = 'SIGTERM'
    WHERE x.event_id IS NOT NULL OR t.event_id IS NOT NULL
    GROUP BY f.fact_id HAVING count(DISTINCT s.step) >= 2
),
ended_well AS (  -- every rank with a log finished and nobody recorded a bad exit
    SELECT f.fact_id FROM faults f
    WHERE EXISTS (SELECT 1 FROM ev d WHERE d.attempt = f.attempt AND d.kind = 'finished')
        AND f.uncaught IS DISTINCT FROM 'true'
        AND NOT EXISTS (SELECT 1 FROM ev x WHERE x.attempt = f.attempt AND x.kind = 'exit_record' AND coalesce(x.attrs->>'exitcode', '0') <> '0')
),
clean AS (  -- ranks that logged no handled fault
    SELECT r.attempt, r.rank FROM ranks r WHERE NOT EXISTS (SELECT 1 FROM faults g
        WHERE g.attempt = r.attempt AND g.subject_kind = 'rank' AND g.subject = CAST(r.rank AS VARCHAR) AND g.uncaught = 'false')
),
places AS (  -- where ranks were when the group broke: the collective, or the frames of the call
    SELECT e.attempt, e.rank, e.source_id, e.line, e.ts, e.ts_origin, e.kind,
        CASE WHEN e.seq IS NOT NULL THEN concat_ws(' ', e.seq, e.op, e.attrs->>'numel_in', e.attrs->>'numel_out') ELSE CAST(e.attrs->'frames' AS VARCHAR) END AS place
    FROM ev e WHERE e.rank IS NOT NULL AND ((e.kind IN ('timed_out_waiting', 'lost_connection', 'remote_error') AND e.seq IS NOT NULL) OR ((e.attrs->'frames') IS NOT NULL AND (e.attrs->>'uncaught') = 'true'))
),
shared_places AS (SELECT DISTINCT p.attempt, p.kind, p.place FROM places p JOIN clean c USING (attempt, rank)),
with_peers AS (
    SELECT DISTINCT f.fact_id FROM faults f JOIN places o ON o.attempt = f.attempt AND f.subject_kind = 'rank' AND f.subject = CAST(o.rank AS VARCHAR)
        AND (CASE WHEN o.source_id = f.source_id THEN o.line > f.line ELSE f.ts_origin = 'own' AND o.ts_origin = 'own' AND o.ts > f.ts END)
    JOIN shared_places s ON s.attempt = o.attempt AND s.kind = o.kind AND s.place = o.place
    WHERE f.uncaught = 'false'
)
SELECT f.fact_id, 'recovered' AS status, 'the process went on working after it' AS why
FROM faults f LEFT JOIN own_steps o USING (fact_id) LEFT JOIN job_steps j USING (fact_id) LEFT JOIN done d ON d.fact_id = f.fact_id LEFT JOIN ended_well w ON w.fact_id = f.fact_id LEFT JOIN with_peers q ON q.fact_id = f.fact_id
    LEFT JOIN lived a ON a.fact_id = f.fact_id
-- who left the loop is not back because the others go on; an exception that left the program, or a crash, is the end of its process: step lines printed behind it in a merged
-- console only waited in another pipe
WHERE (f.uncaught IS DISTINCT FROM 'true' AND f.predicate <> 'crashed' AND (coalesce(o.n, 0) >= 1 OR coalesce(j.n, 0) >= 2 AND f.predicate <> 'left_early'))
    OR f.predicate <> 'left_early' AND (d.fact_id IS NOT NULL OR w.fact_id IS NOT NULL) OR q.fact_id IS NOT NULL OR a.fact_id IS NOT NULL
