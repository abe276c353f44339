-- law: hardware-to-rank
-- stratum: derive
-- needs: device_fault, killed_by_kernel, crashed, illegal_access, out_of_memory
-- claim: A kernel line that names a PCI bus or a pid speaks of the rank that used that GPU or was that process, or whose data loading worker it was. Where no host is known, only if one rank of the whole job fits: every node has a GPU on the same bus.
-- source: NVRM Xid lines name the PCI bus; NCCL Init lines name busId; the OOM killer names the pid (host namespace); DataLoader worker (pid N) is killed by signal (torch/utils/data/_utils/signal_handling.py)
WITH spoken AS (
    SELECT *, lower(attrs->>'pci_bus') AS bus, attrs->>'pid' AS pid, subject_kind = 'host' AND NOT regexp_full_match(subject, 'host[0-9]+') AS placed
    FROM facts
    WHERE subject_kind IN ('host', 'process') AND status = 'active' AND predicate IN ('device_fault', 'killed_by_kernel', 'crashed', 'illegal_access', 'out_of_memory')
),
owners AS (
    SELECT f.fact_id, r.rank, r.host, 'pci bus' AS owner FROM spoken f JOIN ranks r ON r.attempt = f.attempt AND lower(r.pci_bus) = f.bus
    UNION ALL
    SELECT f.fact_id, r.rank, r.host, 'pid' FROM spoken f JOIN ranks r ON r.attempt = f.attempt AND CAST(r.pid AS VARCHAR) = f.pid WHERE f.bus IS NULL
    UNION ALL
    SELECT f.fact_id, r.rank, r.host, 'pid of its data loading worker'
    FROM spoken f JOIN facts w ON w.attempt = f.attempt AND w.predicate = 'worker_died' AND w.subject_kind = 'rank' AND (w.attrs->>'worker_pid') = f.pid
    JOIN ranks r ON r.attempt = f.attempt AND CAST(r.rank AS VARCHAR) = w.subject
    WHERE f.predicate = 'killed_by_kernel'
),
fitting AS (
    SELECT DISTINCT ON (f.fact_id, o.rank) f.*, o.rank AS owner_rank, o.owner
    FROM spoken f JOIN owners o USING (fact_id) WHERE NOT f.placed OR o.host IS NULL OR o.host = f.subject
)
SELECT attempt, predicate, 'rank' AS subject_kind, CAST(owner_rank AS VARCHAR) AS subject, subject_kind AS object_kind, subject AS object,
    onset_low, onset_high, pg, seq, step, coverage, events, first_event_id, last_event_id, json_merge_patch(attrs, json_object('owner', owner, 'part', CASE WHEN owner LIKE '%worker' THEN 'its data loading worker' END)) AS attrs
FROM fitting
QUALIFY placed OR count(*) OVER (PARTITION BY fact_id) = 1
