-- law: nan-spreads
-- stratum: explain
-- needs: nan_global, nan_local, scale_exhausted
-- claim: One rank's non-finite value becomes everybody's through the reduction; an exhausted loss scale is the end of the same story.
-- source: all_reduce SUM over the partition group (DeepSpeed get_grad_norm_direct), DDP gradient averaging
SELECT a.attempt, a.fact_id AS cause, b.fact_id AS effect, 'strong' AS grade, 'step' AS basis, 'the reduction spreads it' AS why
FROM facts a JOIN facts b ON a.attempt = b.attempt
WHERE a.status = 'active' AND b.status = 'active' AND (
    (a.predicate = 'nan_local' AND b.predicate IN ('nan_global', 'scale_exhausted')) OR (a.predicate = 'nan_global' AND a.subject_kind = 'job' AND b.predicate = 'scale_exhausted'))
