-- law: same-statement
-- stratum: exclude
-- claim: One line is one fact: words that a later law gave to a rank, a GPU's owner or a vote no longer count for the anonymous process, the host or the bare statement.
SELECT f.fact_id, 'duplicate' AS status, 'counted under its owner' AS why
FROM facts f
WHERE f.status = 'active' AND (
    (f.subject_kind IN ('process', 'host') AND EXISTS (
        SELECT 1 FROM facts o WHERE o.attempt = f.attempt AND o.predicate = f.predicate AND o.subject_kind = 'rank' AND o.first_event_id = f.first_event_id))
    OR (f.predicate = 'mismatch' AND f.object IS DISTINCT FROM 'vote' AND EXISTS (
        SELECT 1 FROM facts o WHERE o.attempt = f.attempt AND o.predicate = 'mismatch' AND o.object = 'vote'))
    OR (f.predicate = 'nan_global' AND f.subject_kind = 'job' AND EXISTS (
        SELECT 1 FROM facts o WHERE o.attempt = f.attempt AND o.predicate = 'nan_global' AND o.subject_kind = 'rank'))
)
