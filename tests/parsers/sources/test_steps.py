from __future__ import annotations

import math

import polars as pl
import pytest

from correlator.parsers.schema import Sink, Step, Tag
from correlator.parsers.sources import steps
from correlator.parsers.sources.steps import STEP_PATTERN, split_progress

from .reading import line, read


def found_by_pattern(text: str) -> bool:
    return bool(pl.Series([text]).str.contains(STEP_PATTERN)[0])


def one(text: str) -> Step:
    assert found_by_pattern(text)
    (row,) = read(steps, text).steps
    return row


LAYOUTS = [
    ("2026-11-30 21:09:28,140 [rank 3] INFO    step 2/40 loss=5.71 grad_norm=0.38 lr=1e-3 step_time=0.51s data_time=0.1s", 2, 40, 5.71, 0.38, 510.0, 3),
    ("[2024-05-01 12:34:56,789] [INFO] [train.py:96:log_step] [Rank 2] step 2/40 loss=5.7 grad_norm=0.3 lr=1e-3 step_time=0.2s", 2, 40, 5.7, 0.3, 200.0, 2),
    ("2026-11-30T21:09:28.140Z | INFO | rank=1/4 | step 2/40 loss=5.7 grad_norm=0.25 lr=1.0e-3", 2, 40, 5.7, 0.25, None, 1),
    ("[rank 1] step 2/40 loss 5.71 gnorm 0.38 512ms (data 9ms)", 2, 40, 5.71, 0.38, 512.0, 1),
    (" samples/sec: 12.3 | iteration       10/     500 | elapsed time per iteration (ms): 512.3 | learning rate: 1.5E-04 | lm_loss: 7.1E+00 | loss scale: 65536.0 |", 10, 500, 7.1, None, 512.3, None),
    ("Training epoch 0, iteration 9/99 | lr: 1.5e-07 | global_batch_size: 512 | global_step: 9 | reduced_train_loss: 11.03 | train_step_timing in s: 9.1", 9, None, 11.03, None, 9100.0, None),
    ("Epoch: [31]  [1200/3696]  loss: 19.0254  time: 0.61", 31 * 3696 + 1200, None, 19.0254, None, 610.0, None),
    ("Epoch: [0]  [  10/1210]  eta: 0:12:58  lr: 0.000013  loss: 28.1242", 10, None, 28.1242, None, None, None),
    ("Epoch 1 step 5 loss 0.8297", 5, None, 0.8297, None, None, None),
    ("ep 12 train, step 640, ce 3.011, mem_usage:cuda:1 9.1GB", 640, None, 3.011, None, None, None),
    ("iter 412000 lr 0.0031 loss 1.1868", 412000, None, 1.1868, None, None, None),
    ("it 100, lr 0.1, loss 2.0", 100, None, 2.0, None, None, None),
    ("[2025-01-17 04:02:03,433][root][INFO] - train, rank: 0, epoch: 3/40, data_slice: 7/16, step_in_slice: 120/4410, step_in_epoch: 15120, total step: 78120, (loss_avg_rank: 0.240), (lr: 1.1e-04)", 78120, None, 0.24, None, None, 0),
    ("2023-09-17 12:20:10,022 INFO train.py:280 in record -- tflops=87.87,step=300,loss=6.2587", 300, None, 6.2587, None, None, None),
    ("[rank 1] batch 108 - loss calculated", 108, None, None, None, None, 1),
    ("step 9 ok", 9, None, None, None, None, None),
    ("[titan] 2024-05-01 12:34:56,789 - root - INFO - step: 10  loss:  7.12345  grad_norm:  1.2345  memory: 12.34GiB(15.60%)  tps: 1,234", 10, None, 7.12345, 1.2345, None, None),
    ("iter 10: loss 7.1234, time 512.34ms, mfu 12.34%", 10, None, 7.1234, None, 512.34, None),
    ("step 250: train loss 3.1, val loss 3.2", 250, None, 3.1, None, None, None),
    ('2024-05-01 12:34:56 | INFO | train_inner | {"epoch": 1, "update": 0.1, "loss": "7.1", "gnorm": "1.2", "loss_scale": "16", "num_updates": "10"}', 10, None, 7.1, 1.2, None, None),
    ("step:10 - actor/pg_loss:0.0123 - actor/grad_norm:1.234", 10, None, 0.0123, 1.234, None, None),
    ("steps: 10 loss: 2.3012 iter time (s): 0.512 samples/sec: 31.2", 10, None, 2.3012, None, 512.0, None),
    ("epoch=0/micro_step=40/global_step=10, RunningAvgSamplesPerSec=1.2, CurrSamplesPerSec=3.1, MemAllocated=1.2GB", 10, None, None, None, None, None),
    ("Epoch [1/10], Step [100/600], Loss: 0.5123", 100, 600, 0.5123, None, None, None),
    ("1|245|Loss: 1.012:  98%|███████████████████ | 245/250 [1:02:10<00:00, 0.05it/s]", 245, 250, 1.012, None, 20000.0, None),
    ("164/9120 [20:36<18:46:12,  7.54s/it]", 164, 9120, None, None, 7540.0, None),
    ("steps:    1%|                    | 30/2400 [00:30<41:02, 2.00it/s], avr_loss=0.137", 30, 2400, 0.137, None, 500.0, None),
    ("Epoch 3:  10%|█         | 10/100 [00:05<00:45, 2.00it/s, v_num=0, train_loss=2.340]", 310, None, 2.34, None, 500.0, None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "step", "total", "loss", "norm", "ms", "rank"), LAYOUTS)
def test_layouts(text: str, step: int, total: int | None, loss: float | None, norm: float | None, ms: float | None, rank: int | None) -> None:
    row = one(text)
    assert (row.step, row.total, row.loss, row.grad_norm, row.duration_ms, row.rank) == (
        step,
        total,
        loss,
        norm,
        ms,
        rank,
    )


@pytest.mark.parametrize(
    "text",
    [
        "step 3/9 loss=nan grad_norm=1.0",
        "{'loss': nan, 'grad_norm': 1.0, 'epoch': 0.17}",
        "{'loss': 'nan', 'grad_norm': '1.0', 'epoch': '0.17'}",
        " iteration       10/     500 | lm_loss: NAN | loss scale: 65536.0 |",
        "Epoch 0:  10%|█         | 10/100 [00:05<00:45, 2.00it/s, v_num=0, train_loss=nan.0]",
        '{"current_steps": 10, "total_steps": 300, "loss": NaN, "lr": 5e-05, "epoch": 0.17}',
        "epoch: 0|step: 40|ppo_ep: 1|act_loss: 0.5|cri_loss: nan|unsuper_loss: 0.0",
    ],
)
def test_not_a_number_in_all_spellings(text: str) -> None:
    loss = one(text).loss
    assert loss is not None and math.isnan(loss)


@pytest.mark.parametrize("value", ["inf", "Infinity", "INF", "'inf'", "-inf"])
def test_infinite_norm(value: str) -> None:
    norm = one(f"step 3 loss=1.5 grad_norm={value}").grad_norm
    assert norm is not None and math.isinf(norm)


def test_loss_that_megatron_omits_is_absent_not_the_loss_scale() -> None:
    row = one(" iteration  10/ 500 | global batch size:    64 | loss scale: 1.0 | grad norm: nan | params norm: 7.5 | number of skipped iterations:   1 |")
    assert row.loss is None and row.loss_scale == 1.0 and row.skipped is True
    assert row.grad_norm is not None and math.isnan(row.grad_norm)


@pytest.mark.parametrize(
    "text",
    [
        "2026-06-05 10:41:09 - INFO - Saving checkpoint at step 500",
        "saved checkpoint step9 to /scratch/job/ckpt",
        "model has 9 parameters; dataset has 9 samples; starting training at step 9",
        "resumed from checkpoint step9 at step 9",
        "2026-11-30 20:56:55,101 ERROR train: training failed at step 9",
        "RuntimeError: non-finite gradient norm nan at step 9, aborting",
        "dataset exhausted after 8 steps",
        "rank 3 step 10: non-finite grad",
        "[2024-05-01 12:34:56,789] [WARNING] [train.py:9:train] [Rank 0] step 9: overflow: gradient norm is nan, skipping update",
        "failed to push metrics for step 9 to tracking server, will retry later",
    ],
)
def test_pattern_leaves_sentences_alone(text: str) -> None:
    assert not found_by_pattern(text)


def test_coloured_line_is_found() -> None:
    assert found_by_pattern("[titan] 2024-05-01 12:34:56,789 - root - INFO - \x1b[31mstep: 10  \x1b[32mloss:  7.12345")


def test_dicts_without_step_are_counted_and_a_new_attempt_starts_over() -> None:
    text = "\n".join(f"{{'loss': {9 - i}.0, 'grad_norm': 1.0, 'epoch': {e}}}" for i, e in enumerate((0.1, 0.2, 0.3, 0.1)))
    assert [s.step for s in read(steps, text).steps] == [1, 2, 3, 1]


def test_dict_takes_the_step_of_the_bar_before_it() -> None:
    out = read(steps, "  3%|▎ | 10/300 [00:10<05:00,  1.03s/it]\n{'loss': 2.5, 'epoch': 0.17}")
    assert [(s.step, s.loss) for s in out.steps] == [(10, None), (10, 2.5)]


def test_evaluation_dict_is_no_step() -> None:
    assert read(steps, "{'eval_loss': 2.3, 'eval_runtime': 3.0, 'epoch': 1.0}").steps == []


def test_position_inside_an_epoch_goes_on_over_epochs() -> None:
    out = read(steps, "Epoch 1 step 1 loss 3.0\nEpoch 1 step 2 loss 2.0\nEpoch 2 step 1 loss 1.0")
    assert [s.step for s in out.steps] == [1, 2, 4]
    out = read(steps, "Epoch [1/10], Step [500/600], Loss: 0.5\nEpoch [2/10], Step [100/600], Loss: 0.4")
    assert [s.step for s in out.steps] == [500, 700]


def test_skipped_of_deepspeed_is_cumulative() -> None:
    head = "[2024-05-01 12:34:56,789] [INFO] [logging.py:96:log_dist] [Rank 0] "
    out = read(steps, "\n".join(head + f"step={n}, skipped={k}, lr=[0.001]" for n, k in ((1, 0), (2, 1), (3, 1))))
    assert [s.skipped for s in out.steps] == [False, True, False]


def test_printed_tag_of_c10d_is_kept() -> None:
    out = Sink("x")
    steps.parse(line("step 4/9 loss=1.0", tags=(Tag("ranktag", 3),)), out)
    assert out.steps[0].rank == 3


def test_split_progress_cuts_what_is_glued_behind_a_bar() -> None:
    bar = "  2%|▏         | 164/9120 [20:36<18:46:12, 10.48s/it]"
    assert split_progress(bar + "Traceback (most recent call last):") == (bar, "Traceback (most recent call last):")
    assert split_progress("step 3 loss=1") == ("", "step 3 loss=1")
    post = "steps:    1%|   | 30/2400 [00:30<41:02, 1.06it/s], avr_loss=0.137"
    assert split_progress(post) == (post, "")
    values = bar + "{'loss': nan, 'epoch': 0.17}"
    assert split_progress(values) == (values, "")
    assert [(s.step, s.loss is not None) for s in read(steps, values).steps] == [(164, True)]


def test_work_bars_are_activity_with_elapsed_time() -> None:
    out = read(
        steps,
        "\n".join(f"Running tokenizer on dataset:  {n}%|▉         | {n}0000/1000000 [{n}:30<50:00, 131.22 examples/s]" for n in (1, 2, 3, 9)),
    )
    assert out.steps == []
    assert [(e.kind, e.line, e.attrs["elapsed_s"]) for e in out.events] == [
        ("activity", 1, 90.0),
        ("activity", 4, 570.0),
    ]
    assert out.events[1].attrs["activity"] == "preparing data"


def test_small_bar_beside_the_training_bar_is_no_step() -> None:
    out = read(steps, " 10%|█ | 30/300 [00:30<04:30, 1.00it/s]\n 50%|█ | 1/2 [00:30<00:30, 30.0s/it]")
    assert [s.step for s in out.steps] == [30]


def test_composer_values_follow_their_position() -> None:
    out = read(steps, "[epoch=1][batch=10/100]:\n\t Train loss/train/total: 2.3412")
    assert [(s.step, s.loss) for s in out.steps] == [(10, None), (10, 2.3412)]
