-- law: not-counted
-- stratum: exclude
-- claim: One line is one fact: words that a later law gave to a rank, a GPU's owner or a vote no longer count for the anonymous process, the host or the bare statement. A kernel kill of a process that is neither Python nor a launcher, and whose pid no rank has although all pids are known, is none of the job's. A plain CANCELLED of a Slurm step is no stop from outside where srun itself ended the step: a task had left badly before, in the order of one file, or srun says that it terminates the step. An exception whose text is torn off at the end of a damaged file says that its process raised, not what: the types that wrap a lost peer or a timeout are no fault of their own then.
-- source: oom_kill.c prints pid and comm of the victim; PyTorch names its threads and workers pt_*; srun --kill-on-bad-exit (src/srun/libsrun/launch.c): the exit line comes first, then "Terminating StepId", then slurmstepd's CANCELLED; scancel and limits come without; c10d and gloo raise their peers' ends as RuntimeError and DistBackendError, DistNetworkError, DistStoreError: only the text tells
WITH cancelled AS (
    SELECT f.fact_id, f.attempt, e.source_id, e.line FROM facts f JOIN ev e ON e.event_id = f.first_event_id
    WHERE f.predicate = 'external_signal' AND f.status = 'active' AND e.source = 'slurm' AND (e.attrs->>'reason') = 'cancelled'
),
bad AS (
    SELECT attempt, source_id, min(line) AS line FROM ev
    WHERE kind = 'exit_record' AND (attrs->>'by') = 'slurm' AND coalesce(attrs->>'signal', '') NOT IN ('SIGTERM', 'SIGINT', 'SIGHUP') AND coalesce(TRY_CAST((attrs->>'exitcode') AS INTEGER), 1) NOT IN (0, 130, 143)
    GROUP BY attempt, source_id
),
terminating AS (SELECT attempt, source_id, min(line) AS line FROM ev WHERE kind = 'teardown_noise' AND (attrs->>'why') = 'srun ends the step' GROUP BY attempt, source_id)
SELECT f.fact_id, 'duplicate' AS status, 'counted under its owner' AS why
FROM facts f
WHERE f.status = 'active' AND (
    (f.subject_kind IN ('process', 'host') AND EXISTS (
        SELECT 1 FROM facts o WHERE o.attempt = f.attempt AND o.predicate = f.predicate AND o.subject_kind = 'rank' AND o.first_event_id = f.first_event_id))
    OR (f.predicate = 'killed_by_kernel' AND f.subject_kind = 'host' AND regexp_full_match(f.subject, 'host[0-9]+') AND (f.attrs->>'step_id') IS NOT NULL AND EXISTS (
        -- slurmstepd counts the kills of a step, srun says which task it was
        SELECT 1 FROM facts o WHERE o.attempt = f.attempt AND o.predicate = f.predicate AND o.status = 'active' AND o.fact_id <> f.fact_id
            AND NOT regexp_full_match(o.subject, 'host[0-9]+')))
    OR (f.predicate = 'mismatch' AND f.object IS DISTINCT FROM 'vote' AND EXISTS (
        SELECT 1 FROM facts o WHERE o.attempt = f.attempt AND o.predicate = 'mismatch' AND o.object = 'vote'))
    OR (f.predicate = 'nan_global' AND f.subject_kind = 'job' AND EXISTS (
        SELECT 1 FROM facts o WHERE o.attempt = f.attempt AND o.predicate = 'nan_global' AND o.subject_kind = 'rank'))
)
UNION ALL
SELECT f.fact_id, 'unrelated' AS status, 'the process that was killed is none of the job''s' AS why
FROM facts f
WHERE f.status = 'active' AND f.predicate = 'killed_by_kernel' AND f.subject_kind = 'host' AND (f.attrs->>'comm') IS NOT NULL
    AND NOT regexp_matches(f.attrs->>'comm', '(?i)^(python|pt_|ray|torch|deepspeed|accelerate|train|mpi|orted|prted|srun|slurm)')
    AND (SELECT count(*) = count(pid) AND count(*) > 0 FROM ranks r WHERE r.attempt = f.attempt)
UNION ALL
SELECT c.fact_id, 'consequence' AS status, 'srun ended the step after a task had failed' AS why
FROM cancelled c
WHERE EXISTS (SELECT 1 FROM bad b WHERE b.attempt = c.attempt AND b.source_id = c.source_id AND b.line < c.line)
    OR EXISTS (SELECT 1 FROM terminating t JOIN bad b ON b.attempt = t.attempt AND b.source_id = t.source_id AND b.line < t.line WHERE t.attempt = c.attempt AND t.source_id <> c.source_id)
UNION ALL
SELECT f.fact_id, 'cut_short' AS status, 'the end of its text is missing' AS why
FROM facts f JOIN ev e ON e.event_id = f.first_event_id JOIN streams s ON s.stream_id = e.stream_id
WHERE f.status = 'active' AND f.predicate = 'raised' AND s.ending = 'torn' AND e.line_end >= s.last_line
    AND (coalesce(e.attrs->>'text', '') = '' OR regexp_matches(coalesce(f.object, ''), '^(torch\.distributed\.)?(RuntimeError|OSError|ConnectionError|Dist\w*|Exception)$'))
