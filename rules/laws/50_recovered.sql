-- law: recovered
-- stratum: exclude
-- claim: A fault after which its own process went on working, or after which the whole synchronous job made two more steps, was handled and did not end anything.
-- source: a logged traceback is not an exit; in a synchronous job no rank can be missing two steps later
WITH faults AS (
    SELECT f.fact_id, f.attempt, f.subject_kind, f.subject, (f.attrs->>'uncaught') AS uncaught, e.source_id, e.line_end, e.ts, e.ts_origin, e.stream_id, e.line, f.predicate
    FROM facts f JOIN predicates p USING (predicate) JOIN ev e ON e.event_id = f.last_event_id
    WHERE p.ends_subject AND p.certainty = 'words' AND f.status = 'active'
        AND f.predicate NOT IN ('external_signal', 'preempted', 'rendezvous_expired', 'timed_out_waiting')
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
)
SELECT f.fact_id, 'recovered' AS status, 'the process went on working after it' AS why
FROM faults f LEFT JOIN own_steps o USING (fact_id) LEFT JOIN job_steps j USING (fact_id) LEFT JOIN done d ON d.fact_id = f.fact_id LEFT JOIN ended_well w ON w.fact_id = f.fact_id LEFT JOIN lived a ON a.fact_id = f.fact_id
-- an exception that left the program, or a crash, is the end of its process: step lines printed behind it in a merged
-- console only waited in another pipe
WHERE (f.uncaught IS DISTINCT FROM 'true' AND f.predicate <> 'crashed' AND (coalesce(o.n, 0) >= 1 OR coalesce(j.n, 0) >= 2)) OR d.fact_id IS NOT NULL OR w.fact_id IS NOT NULL OR a.fact_id IS NOT NULL
