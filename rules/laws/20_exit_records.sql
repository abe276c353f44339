-- law: exit-records
-- stratum: derive
-- needs: exit_record
-- claim: How a process ended, from launchers, at the earliest one poll before they noticed it. A signal that the launcher sent itself is teardown; a positive code with no words of its own is an exit.
-- source: torch/distributed/elastic/multiprocessing/api.py, deepspeed/launcher/launch.py, slurm srun; polls: torchelastic 5 s up to 2.3 and 0.1 s from 2.4, DeepSpeed 1 s
WITH records AS (
    SELECT e.attempt, e.peer_rank AS rank, arg_min(e.attrs, e.event_id) AS attrs, min(e.event_id) AS event_id, max(e.event_id) AS last_id,
        max(TRY_CAST((e.attrs->>'exitcode') AS INTEGER)) AS exitcode, max(e.attrs->>'signal') AS signal, min(e.ts) AS ts,
        max(TRY_CAST((e.attrs->>'pid') AS BIGINT)) AS pid, bool_or(coalesce(e.attrs->>'root_cause', 'false') = 'true') AS root_cause
    FROM ev e WHERE e.kind = 'exit_record' AND e.peer_rank IS NOT NULL GROUP BY ALL
),
stopped AS (
    SELECT attempt, TRY_CAST((attrs->>'pid') AS BIGINT) AS pid, bool_or(coalesce(attrs->>'signal', 'SIGTERM') = 'SIGKILL') AS hard
    FROM ev WHERE kind = 'signalled' AND (attrs->>'pid') IS NOT NULL GROUP BY ALL
),
judged AS (
    SELECT r.*, k.state, k.coverage, k.files,
        CASE
            WHEN r.signal IN ('SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2') THEN 'terminated'
            WHEN r.signal = 'SIGKILL' AND s.pid IS NOT NULL THEN 'terminated'
            WHEN r.signal IS NOT NULL THEN 'died'
            WHEN r.exitcode > 0 AND s.pid IS NULL THEN 'exited'
        END AS predicate
    FROM records r
    LEFT JOIN stopped s USING (attempt, pid)
    LEFT JOIN ranks k USING (attempt, rank)
)
SELECT j.attempt, j.predicate, 'rank' AS subject_kind, CAST(j.rank AS VARCHAR) AS subject, CAST(NULL AS VARCHAR) AS object_kind, CAST(NULL AS VARCHAR) AS object,
    j.ts - to_milliseconds(CASE j.attrs->>'by' WHEN 'elastic' THEN 5000 ELSE 1000 END) AS onset_low, j.ts AS onset_high, CAST(NULL AS VARCHAR) AS pg, CAST(NULL AS BIGINT) AS seq, CAST(NULL AS BIGINT) AS step,
    j.coverage, 1 AS events, j.event_id AS first_event_id, j.last_id AS last_event_id,
    json_object('signal', j.signal, 'exitcode', j.exitcode, 'log', CASE WHEN coalesce(j.files, 0) = 0 THEN 'missing' ELSE 'present' END, 'by', j.attrs->>'by') AS attrs
FROM judged j
WHERE j.predicate IS NOT NULL
    -- an exit code adds nothing to a process that said why it left
    AND NOT (j.predicate = 'exited' AND EXISTS (
        SELECT 1 FROM facts f JOIN predicates p USING (predicate)
        WHERE f.attempt = j.attempt AND f.subject_kind = 'rank' AND f.subject = CAST(j.rank AS VARCHAR) AND (p.ends_subject OR p.predicate IN ('nan_global', 'nan_local', 'mismatch', 'accused'))))
    AND NOT (j.predicate = 'exited' AND EXISTS (
        SELECT 1 FROM facts f JOIN predicates p USING (predicate)
        WHERE f.attempt = j.attempt AND f.subject_kind = 'process' AND p.ends_subject AND p.certainty = 'words' AND p.can_initiate <> 'no'
            AND coalesce(f.attrs->>'uncaught', 'true') = 'true'))
UNION ALL
-- a hard signal whose process no evidence ties to a rank; where steps go on behind it, it was some other child of a shell
SELECT e.attempt, 'died', 'process', 's' || e.stream_id, NULL, NULL, min(e.ts) - INTERVAL 5 SECONDS, min(e.ts), NULL, NULL, NULL, NULL, count(*), min(e.event_id), max(e.event_id),
    json_object('signal', any_value(e.attrs->>'signal'), 'exitcode', min(TRY_CAST((e.attrs->>'exitcode') AS INTEGER)), 'by', any_value(e.attrs->>'by'))
FROM ev e
WHERE e.kind = 'exit_record' AND e.peer_rank IS NULL AND (e.attrs->>'signal') IN ('SIGKILL', 'SIGSEGV', 'SIGABRT', 'SIGBUS', 'SIGILL', 'SIGFPE')
    AND NOT EXISTS (SELECT 1 FROM ev o WHERE o.attempt = e.attempt AND o.kind = 'exit_record' AND o.peer_rank IS NOT NULL)
    AND (SELECT count(DISTINCT s.step) FROM steps s WHERE s.attempt = e.attempt AND s.source_id = e.source_id AND s.line > e.line) < 2
GROUP BY e.attempt, e.stream_id
UNION ALL
-- a bad exit code is all that is left of the failure
SELECT e.attempt, 'exited', 'process', 's' || e.stream_id, NULL, NULL, min(e.ts) - INTERVAL 5 SECONDS, min(e.ts), NULL, NULL, NULL, NULL, count(*), min(e.event_id), max(e.event_id),
    json_object('exitcode', min(TRY_CAST((e.attrs->>'exitcode') AS INTEGER)), 'by', any_value(e.attrs->>'by'))
FROM ev e
WHERE e.kind = 'exit_record' AND e.peer_rank IS NULL AND (e.attrs->>'signal') IS NULL AND TRY_CAST((e.attrs->>'exitcode') AS INTEGER) > 0
    AND NOT EXISTS (SELECT 1 FROM ev o WHERE o.attempt = e.attempt AND (o.kind = 'exit_record' AND o.peer_rank IS NOT NULL OR o.kind = 'restart'))
    AND NOT EXISTS (SELECT 1 FROM facts f JOIN predicates p USING (predicate) WHERE f.attempt = e.attempt AND p.ends_subject)
GROUP BY e.attempt, e.stream_id
