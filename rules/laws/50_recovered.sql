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
ended_well AS (  -- every rank with a log finished and nobody recorded a bad exit
    SELECT f.fact_id FROM faults f
    WHERE EXISTS (SELECT 1 FROM ev d WHERE d.attempt = f.attempt AND d.kind = 'finished')
        AND f.uncaught IS DISTINCT FROM 'true'
        AND NOT EXISTS (SELECT 1 FROM ev x WHERE x.attempt = f.attempt AND x.kind = 'exit_record' AND coalesce(x.attrs->>'exitcode', '0') <> '0')
)
SELECT f.fact_id, 'recovered' AS status, 'the process went on working after it' AS why
FROM faults f LEFT JOIN own_steps o USING (fact_id) LEFT JOIN job_steps j USING (fact_id) LEFT JOIN done d ON d.fact_id = f.fact_id LEFT JOIN ended_well w ON w.fact_id = f.fact_id
-- who left the loop is not back because the others go on; an exception that left the program, or a crash, is the end of its process: step lines printed behind it in a merged
-- console only waited in another pipe
WHERE (f.uncaught IS DISTINCT FROM 'true' AND f.predicate <> 'crashed' AND (coalesce(o.n, 0) >= 1 OR coalesce(j.n, 0) >= 2 AND f.predicate <> 'left_early')) OR f.predicate <> 'left_early' AND (d.fact_id IS NOT NULL OR w.fact_id IS NOT NULL)
