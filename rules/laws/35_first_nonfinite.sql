-- law: first-nonfinite
-- stratum: derive
-- needs: non-finite step
-- claim: A loss printed by a rank before the others see it is the only pre-reduction evidence; the first step at which some ranks print a non-finite loss while others print a finite one names them. The same step on all, or one printer, is a global symptom. Half a line at the damaged end of a file does not count: what would say that the step was skipped is missing.
-- source: an all-reduce spreads one NaN to every rank within the step; local loss is the only per-rank number before the reduction
WITH values_ AS (
    SELECT attempt, rank, step, bool_or(NOT isfinite(loss)) AS bad_loss, bool_or(NOT isfinite(grad_norm)) AS bad_norm, bool_or(coalesce(skipped, false) AND coalesce(loss_scale, 1) > 1) AS rescaled,
        min(line) AS line, min(source_id) AS source_id, min(ts) AS ts
    FROM steps s WHERE (loss IS NOT NULL OR grad_norm IS NOT NULL)
        AND NOT EXISTS (SELECT 1 FROM streams t WHERE t.source_id = s.source_id AND t.ending = 'torn' AND s.line >= t.last_line)
    GROUP BY attempt, rank, step
),
last_ AS (SELECT attempt, max(step) AS last_step FROM values_ GROUP BY attempt),
persistent AS (  -- a skipped step that recovers is healthy, and one that the loss scaler still has room to answer
    SELECT v.attempt, max(v.step) AS worst FROM values_ v JOIN last_ l USING (attempt)
    WHERE (bad_loss OR (bad_norm AND NOT rescaled)) AND v.step >= l.last_step - 1 GROUP BY v.attempt
),
first_bad AS (
    SELECT v.attempt, min(v.step) FILTER (WHERE bad_loss) AS loss_step, min(v.step) FILTER (WHERE bad_loss OR bad_norm) AS any_step
    FROM values_ v JOIN persistent USING (attempt) GROUP BY v.attempt
),
at_first AS (
    SELECT v.attempt, v.step, count(DISTINCT v.rank) FILTER (WHERE v.bad_loss) AS bad, count(DISTINCT v.rank) FILTER (WHERE NOT v.bad_loss) AS fine
    FROM values_ v JOIN first_bad f ON f.attempt = v.attempt AND f.loss_step = v.step GROUP BY ALL
),
local_ AS (
    SELECT v.attempt, 'nan_local' AS predicate, 'rank' AS subject_kind, CAST(v.rank AS VARCHAR) AS subject, v.step, v.ts, v.source_id, v.line, 'step' AS level_
    FROM values_ v JOIN at_first a ON a.attempt = v.attempt AND a.step = v.step
    WHERE v.bad_loss AND a.fine > 0 AND a.bad <= a.fine AND v.rank IS NOT NULL
),
global_ AS (
    SELECT f.attempt, 'nan_global' AS predicate, 'job' AS subject_kind, 'job' AS subject, f.any_step AS step, min(v.ts) AS ts, min(v.source_id) AS source_id,
        min(v.line) AS line, 'step' AS level_
    FROM first_bad f JOIN values_ v ON v.attempt = f.attempt AND v.step = f.any_step AND (v.bad_loss OR v.bad_norm)
    WHERE f.any_step IS NOT NULL GROUP BY f.attempt, f.any_step
)
SELECT attempt, predicate, subject_kind, subject, CAST(NULL AS VARCHAR) AS object_kind, CAST(NULL AS VARCHAR) AS object, ts AS onset_low, ts AS onset_high,
    CAST(NULL AS VARCHAR) AS pg, CAST(NULL AS BIGINT) AS seq, step, CAST(NULL AS VARCHAR) AS coverage, 1 AS events, CAST(NULL AS BIGINT) AS first_event_id,
    CAST(NULL AS BIGINT) AS last_event_id, json_object('from', 'step values', 'source_id', source_id, 'line', line) AS attrs
FROM (SELECT * FROM local_ UNION ALL SELECT * FROM global_)
