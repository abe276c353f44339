-- law: foreign-process
-- stratum: exclude
-- needs: killed_by_kernel
-- claim: The kernel also kills what is none of the job's: a process that is neither Python nor a launcher, and whose pid no rank has, where the pids of the ranks are known.
-- source: oom_kill.c prints pid and comm of the victim; PyTorch names its threads and workers pt_*
SELECT f.fact_id, 'unrelated' AS status, 'the process that was killed is none of the job''s' AS why
FROM facts f
WHERE f.status = 'active' AND f.predicate = 'killed_by_kernel' AND f.subject_kind = 'host' AND (f.attrs->>'comm') IS NOT NULL
    AND NOT regexp_matches(f.attrs->>'comm', '(?i)^(python|pt_|ray|torch|deepspeed|accelerate|train|mpi|orted|prted|srun|slurm)')
    AND (SELECT count(*) = count(pid) AND count(*) > 0 FROM ranks r WHERE r.attempt = f.attempt)
