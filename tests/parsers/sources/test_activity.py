from __future__ import annotations

import pytest

from correlator.parsers.sources import activity

from .reading import only, read

CASES = [
    ("training complete", "finished", {}),
    ("Training completed. Do not forget to share your model on huggingface.co/models =)", "finished", {}),
    ("`Trainer.fit` stopped: `max_epochs=3` reached.", "finished", {}),
    ("{'train_runtime': 12.3, 'train_loss': 0.5, 'epoch': 3.0}", "finished", {}),
    ("ran out of data", "left_early", {}),
    ("dataset exhausted after 8 steps", "left_early", {"step": 8}),
    ("Successfully saved checkpoint at step 40 to /ckpt/iter_40", "checkpoint_saved", {"step": 40, "path": "/ckpt/iter_40"}),
    ("  successfully saved checkpoint from iteration     500 to /ckpt [ t 1/1, p 1/1 ]", "checkpoint_saved", {"step": 500, "path": "/ckpt"}),
    ("resumed from checkpoint step20 at step 20", "resumed", {"step": 20}),
    ("model has 9 parameters; starting training at step 12", "started", {"step": 12}),
    ("***** Running training *****", "started", {}),
    ("***** Running Evaluation *****", "activity", {"activity": "evaluation"}),
    ("Saving model checkpoint to /out/checkpoint-500", "activity", {"activity": "saving a checkpoint", "step": 500}),
    ("Building extension module fused_adam...", "activity", {"activity": "building an extension"}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "fields"), CASES)
def test_milestones(text: str, kind: str, fields: dict[str, object]) -> None:
    event = only(read(activity, text), kind)
    assert {k: event.step if k == "step" else event.attrs[k] for k in fields} == fields
    assert any(t in text for t in activity.TOKENS)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-30 20:56:55,101 ERROR train: training failed at step 9",
        "RuntimeError: could not load checkpoint",
        "rank 5 received SIGTERM, writing restart checkpoint",
        "    save_checkpoint(args, step, model, opt)",
        "Extension modules: numpy._core._multiarray_umath, torch._C",
        "Running tokenizer on dataset:   9%|▉ | 262000/2801344 [29:57<5:01:33, 131.22 examples/s]",
        "This is typically caused by a remote worker crashing. Check the logs of the others",
    ],
)
def test_other_lines(text: str) -> None:
    assert read(activity, text).events == []
