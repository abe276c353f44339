-- law: uneven-ends
-- stratum: explain
-- needs: left_early, mismatch
-- claim: A rank that left the loop while the others went on calls other collectives than they do: the mismatch and every wait come from that.
-- source: DDP needs the same number of batches on every rank (torch.distributed.algorithms.join)
SELECT a.attempt, a.fact_id AS cause, b.fact_id AS effect, 'strong' AS grade, 'step' AS basis, 'it had left the loop' AS why
FROM facts a JOIN facts b ON a.attempt = b.attempt AND a.fact_id <> b.fact_id
WHERE a.status = 'active' AND b.status = 'active' AND a.predicate = 'left_early' AND b.predicate IN ('mismatch', 'stalled', 'vanished', 'busy', 'aborted', 'died', 'raised', 'crashed')
