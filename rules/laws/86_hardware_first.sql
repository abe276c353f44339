-- law: hardware-first
-- stratum: explain
-- needs: device_fault, link_down, host_memory, killed_by_kernel, host_gone
-- claim: A fault of the machine explains what its own ranks say about it: device errors, deaths and remote errors on that host.
-- source: Xid and SXid lines precede CUDA errors of the same GPU; port and adapter events precede completion errors
SELECT DISTINCT h.attempt, h.fact_id AS cause, f.fact_id AS effect, 'strong' AS grade, 'process' AS basis, 'it is on the same machine' AS why
FROM facts h JOIN facts f ON f.attempt = h.attempt AND f.fact_id <> h.fact_id
LEFT JOIN ranks r ON r.attempt = f.attempt AND f.subject_kind = 'rank' AND CAST(r.rank AS VARCHAR) = f.subject
LEFT JOIN ranks rh ON rh.attempt = h.attempt AND h.subject_kind = 'rank' AND CAST(rh.rank AS VARCHAR) = h.subject
WHERE h.status = 'active' AND f.status = 'active' AND (
    (h.subject_kind = 'host' AND h.predicate IN ('host_gone', 'link_down', 'killed_by_kernel', 'device_fault') AND r.host = h.subject
        AND f.predicate NOT IN ('device_fault', 'link_down', 'host_gone') )
    OR (h.predicate = 'link_down' AND h.subject_kind = 'rank' AND f.predicate IN ('remote_error', 'raised', 'net_unreachable') AND rh.host IS NOT DISTINCT FROM r.host)
    OR (h.predicate = 'device_fault' AND h.subject_kind = 'rank' AND f.subject_kind = 'rank' AND h.subject = f.subject AND f.predicate IN ('illegal_access', 'raised', 'died', 'stalled', 'busy', 'vanished'))
)
