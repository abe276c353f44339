-- law: hardware-to-rank
-- stratum: derive
-- needs: device_fault, killed_by_kernel, crashed, illegal_access, out_of_memory
-- claim: A kernel line that names a PCI bus or a pid speaks of the rank that used that GPU or was that process.
-- source: NVRM Xid lines name the PCI bus; NCCL Init lines name busId; the OOM killer names the pid (host namespace)
SELECT f.attempt, f.predicate, 'rank' AS subject_kind, CAST(r.rank AS VARCHAR) AS subject, f.subject_kind AS object_kind, f.subject AS object,
    f.onset_low, f.onset_high, f.pg, f.seq, f.step, f.coverage, f.events, f.first_event_id, f.last_event_id,
    json_merge_patch(f.attrs, '{"owner": "pci bus or pid"}') AS attrs
FROM facts f
JOIN ranks r ON r.attempt = f.attempt AND (
    (r.pci_bus IS NOT NULL AND (f.attrs->>'pci_bus') IS NOT NULL AND lower(r.pci_bus) = lower(f.attrs->>'pci_bus') AND (r.host IS NULL OR f.subject LIKE 'host%' OR r.host = f.subject))
    OR ((f.attrs->>'pci_bus') IS NULL AND r.pid IS NOT NULL AND CAST(r.pid AS VARCHAR) = (f.attrs->>'pid') AND (r.host IS NULL OR f.subject LIKE 'host%' OR r.host = f.subject)))
WHERE f.subject_kind IN ('host', 'process') AND f.status = 'active' AND f.predicate IN ('device_fault', 'killed_by_kernel', 'crashed', 'illegal_access', 'out_of_memory')
