from __future__ import annotations

from correlator.parsers.sources import deepspeed
from correlator.parsers.sources.deepspeed import disagreement

from .reading import only, read

HEAD = "[2024-05-01 12:34:56,789] [INFO] [config.py:1000:print] "


def rows(text: str) -> dict[tuple[str, str], tuple[int, str]]:
    return {(origin, key): (no, value) for no, _, key, value, origin in read(deepspeed, text).configs}


def test_dump_gives_documented_keys_and_plain_numbers() -> None:
    found = rows(
        HEAD + "  zero_config .................. stage=3 contiguous_gradients=True reduce_bucket_size=500,000,000 overlap_comm=True "
        "offload_optimizer=DeepSpeedZeroOffloadOptimizerConfig(device='cpu', nvme_path=None, buffer_count=4) prefetch_bucket_size=50,000,000 "
        "stage3_gather_fp16_weights_on_model_save=False\n" + HEAD + "  gradient_clipping ............ 1.0\n" + HEAD + "  fp16_enabled ................. True\n"
        + HEAD + "  bfloat16_config .............. enabled=False check_grad_overflow=True"
    )  # fmt: skip
    values = {key: value for (_, key), (_, value) in found.items()}
    assert values == {
        "zero_optimization.stage": "3", "zero_optimization.contiguous_gradients": "True", "zero_optimization.reduce_bucket_size": "500000000",
        "zero_optimization.overlap_comm": "True", "zero_optimization.offload_optimizer.device": "cpu", "zero_optimization.offload_optimizer.nvme_path": "None",
        "zero_optimization.offload_optimizer.buffer_count": "4", "zero_optimization.stage3_prefetch_bucket_size": "50000000",
        "zero_optimization.stage3_gather_fp16_weights_on_model_save": "False", "gradient_clipping": "1.0", "fp16.enabled": "True",
        "bf16.enabled": "False", "bf16.check_grad_overflow": "True",
    }  # fmt: skip
    assert {origin for origin, _ in found} == {"deepspeed-dump"}


def test_user_block_keeps_the_line_of_each_key() -> None:
    text = (
        "[2024-05-01 12:34:56,789] [INFO] [config.py:986:print_user_config]   json = {\n"
        '    "train_micro_batch_size_per_gpu": 4, \n    "fp16": {\n        "enabled": true\n    }, \n    "zero_optimization": {\n'
        '        "stage": 3, \n        "reduce_bucket_size": 5.000000e+08\n    }\n}\nepoch 1'
    )
    assert rows(text) == {
        ("deepspeed-user", "train_micro_batch_size_per_gpu"): (2, "4"), ("deepspeed-user", "fp16.enabled"): (4, "True"),
        ("deepspeed-user", "zero_optimization.stage"): (7, "3"), ("deepspeed-user", "zero_optimization.reduce_bucket_size"): (8, "500000000"),
    }  # fmt: skip


def test_cut_user_block_is_a_problem() -> None:
    out = read(deepspeed, '[2024-05-01 12:34:56,789] [INFO] [config.py:986:print_user_config]   json = {\n    "fp16": {')
    assert out.configs == [] and [(p.line, p.kind) for p in out.problems] == [(1, "config-cut")]


def test_version_and_stage() -> None:
    out = read(deepspeed, "[2024-05-01 12:34:56,789] [INFO] [logging.py:107:log_dist] [Rank 0] DeepSpeed info: version=0.16.9, git-hash=unknown, git-branch=unknown\n"
               "[2024-05-01 12:34:56,789] [INFO] [logging.py:107:log_dist] [Rank 0] Creating torch.bfloat16 ZeRO stage 3 optimizer")  # fmt: skip
    assert [c[2:] for c in out.configs] == [
        ("deepspeed.version", "0.16.9", "log"),
        ("zero_optimization.stage", "3", "log"),
        ("optimizer_dtype", "bfloat16", "log"),
    ]


def test_overflow_is_benign_and_names_its_printer_only() -> None:
    event = only(read(deepspeed, "[2023-05-22 14:08:10,300] [INFO] [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. "
                      "Attempted loss scale: 65536, but hysteresis is 2. Reducing hysteresis to 1"), "warned")  # fmt: skip
    assert event.attrs == {"signature": "overflow", "scale_from": 65536.0, "scale_to": 65536.0, "printer": 0}
    assert event.rank is None and event.peer_rank is None


def test_minimum_scale_exception_is_not_taken() -> None:
    assert read(deepspeed, "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.").events == []


def test_disagreement_of_both_generations() -> None:
    old = disagreement("disagreement between rank0 and rank1: rank0: [np.int64(3), np.int64(4)], rank1: [3, 5]")
    assert old == {"statement": "list", "self_rank": 1, "other_rank": 0, "other": "[3, 4]", "self": "[3, 5]"}
    new = disagreement("Detected a disagreement on list length between rank0 and rank2: \nrank0: 3\nrank2: 4")
    assert new == {"statement": "list length", "self_rank": 2, "other_rank": 0, "other": "3", "self": "4"}
    assert disagreement("agreement") is None
