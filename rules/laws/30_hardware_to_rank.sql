-- law: hardware-to-rank
-- stratum: derive
-- needs: device_fault, killed_by_kernel, crashed, illegal_access, out_of_memory
-- claim: A kernel line that names a PCI bus or a pid speaks of the rank that used that GPU or was that process, or whose data loading worker it was. Where the line names no host and several ranks fit, the pid decides or nobody is meant. A kill or crash whose pid no log knows is that of the one rank that a launcher saw end so, a device fault that of the one rank whose own words are of one.
-- source: NVRM Xid lines name the PCI bus; NCCL Init lines name busId; the OOM killer names the pid (host namespace); launchers print the signal (-9, -11); DataLoader worker (pid N) is killed by signal (torch/utils/data/_utils/signal_handling.py)
WITH told AS (
    SELECT f.*, (f.attrs->>'pci_bus') AS bus, (f.attrs->>'pid') AS pid, f.subject LIKE 'host%' AND NOT EXISTS (SELECT 1 FROM ranks h WHERE h.host = f.subject) AS nowhere
    FROM facts f
    WHERE f.subject_kind IN ('host', 'process') AND f.status = 'active' AND f.predicate IN ('device_fault', 'killed_by_kernel', 'crashed', 'illegal_access', 'out_of_memory')
),
fits AS (
    SELECT f.fact_id, r.rank, coalesce(CAST(r.pid AS VARCHAR) = f.pid, false) AS same_pid, 'pci bus or pid' AS how
    FROM told f JOIN ranks r ON r.attempt = f.attempt AND (r.host IS NULL OR f.nowhere OR f.subject_kind = 'process' OR r.host = f.subject) AND (
        (r.pci_bus IS NOT NULL AND f.bus IS NOT NULL AND lower(r.pci_bus) = lower(f.bus)) OR (f.bus IS NULL AND r.pid IS NOT NULL AND CAST(r.pid AS VARCHAR) = f.pid))
    UNION ALL
    SELECT f.fact_id, r.rank, true, 'pid of its data loading worker'
    FROM told f JOIN facts w ON w.attempt = f.attempt AND w.predicate = 'worker_died' AND w.subject_kind = 'rank' AND (w.attrs->>'worker_pid') = f.pid
    JOIN ranks r ON r.attempt = f.attempt AND CAST(r.rank AS VARCHAR) = w.subject AND (r.host IS NULL OR f.nowhere OR r.host = f.subject)
    WHERE f.predicate = 'killed_by_kernel'
),
ended_so AS (  -- a launcher saw exactly one rank of that host end by this signal, and did not send it itself
    SELECT f.fact_id, min(d.subject) AS rank
    FROM told f JOIN facts d ON d.attempt = f.attempt AND d.predicate = 'died' AND d.subject_kind = 'rank' AND d.status = 'active'
        AND (d.attrs->>'signal') = CASE f.predicate WHEN 'killed_by_kernel' THEN 'SIGKILL' WHEN 'crashed' THEN f.attrs->>'signal' END
    JOIN ranks r ON r.attempt = d.attempt AND CAST(r.rank AS VARCHAR) = d.subject AND (f.nowhere OR r.host IS NULL OR r.host = f.subject)
    WHERE f.subject_kind = 'host' AND f.predicate IN ('killed_by_kernel', 'crashed') AND NOT EXISTS (SELECT 1 FROM fits x WHERE x.fact_id = f.fact_id)
    GROUP BY f.fact_id HAVING count(*) = 1
    UNION ALL
    SELECT f.fact_id, min(d.subject) AS rank
    FROM told f JOIN facts d ON d.attempt = f.attempt AND d.predicate = 'device_fault' AND d.subject_kind = 'rank' AND d.status = 'active'
    JOIN ranks r ON r.attempt = d.attempt AND CAST(r.rank AS VARCHAR) = d.subject AND (f.nowhere OR r.host IS NULL OR r.host = f.subject)
    WHERE f.subject_kind = 'host' AND f.predicate = 'device_fault' AND NOT EXISTS (SELECT 1 FROM fits x WHERE x.fact_id = f.fact_id)
    GROUP BY f.fact_id HAVING count(DISTINCT d.subject) = 1
),
owners AS (
    SELECT fact_id, CAST(rank AS VARCHAR) AS rank, how FROM fits
    -- one bus address stands in every host, and so may a pid: without a host's name the line is one rank's only if the rest decides
    QUALIFY count(*) OVER (PARTITION BY fact_id) = 1 OR (same_pid AND count(*) FILTER (WHERE same_pid) OVER (PARTITION BY fact_id) = 1)
    UNION ALL SELECT fact_id, rank, 'the one exit of this kind' FROM ended_so
)
SELECT f.attempt, f.predicate, 'rank' AS subject_kind, o.rank AS subject, f.subject_kind AS object_kind, f.subject AS object,
    f.onset_low, f.onset_high, f.pg, f.seq, f.step, f.coverage, f.events, f.first_event_id, f.last_event_id,
    json_merge_patch(f.attrs, json_object('owner', o.how, 'part', CASE WHEN o.how LIKE '%worker' THEN 'its data loading worker' END)) AS attrs
FROM told f JOIN owners o USING (fact_id)
