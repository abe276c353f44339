-- law: not-counted
-- stratum: exclude
-- claim: One line is one fact: words that a later law gave to a rank, a GPU's owner or a vote no longer count for the anonymous process, the host or the bare statement. A kernel kill of a process that is neither Python nor a launcher, and whose pid no rank has although all pids are known, is none of the job's.
-- source: oom_kill.c prints pid and comm of the victim; PyTorch names its threads and workers pt_*
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
