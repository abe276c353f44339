from __future__ import annotations

from correlator.parsers.documents import ds_config
from correlator.parsers.schema import Sink

JSON = b"""{
  "train_micro_batch_size_per_gpu": "auto",
  "bf16": {"enabled": true},
  "zero_optimization": {
    "stage": 2,
    "overlap_comm": true,
    "offload_optimizer": {
      "device": "cpu"
    },
    "reduce_bucket_size": 5e8
  },
  "optimizer": {"type": "AdamW", "params": {"betas": [0.9, 0.95]}}
}
"""


def rows(path: str, data: bytes) -> dict[str, tuple[int, str]]:
    out = Sink(path)
    assert ds_config.claims(path, data[:4096])
    ds_config.parse(path, data, out)
    assert {origin for *_, origin in out.configs} == {path.rsplit("/", 1)[-1]}
    return {key: (no, value) for no, _, key, value, _ in out.configs}


def test_json_rows_carry_their_lines() -> None:
    assert rows("run/ds_config.json", JSON) == {
        "train_micro_batch_size_per_gpu": (2, "auto"), "bf16.enabled": (3, "True"), "zero_optimization.stage": (5, "2"), "zero_optimization.overlap_comm": (6, "True"),
        "zero_optimization.offload_optimizer.device": (8, "cpu"), "zero_optimization.reduce_bucket_size": (10, "500000000"),
        "optimizer.type": (12, "AdamW"), "optimizer.params.betas": (12, "[0.9, 0.95]"),
    }  # fmt: skip


def test_yaml_like_text() -> None:
    data = b"compute_environment: LOCAL_MACHINE\ndeepspeed_config:\n  zero_optimization:\n    stage: 3  # full\n  gradient_clipping: 1.0\nnum_processes: 8\n"
    found = rows("acc.yaml", data)
    assert found["deepspeed_config.zero_optimization.stage"] == (4, "3") and found["num_processes"] == (6, "8")


def test_broken_json_is_a_problem() -> None:
    out = Sink("ds_config.json")
    ds_config.parse("ds_config.json", b'{"zero_optimization": {', out)
    assert out.configs == [] and [p.kind for p in out.problems] == ["bad-json"]


def test_logs_are_not_claimed() -> None:
    assert not ds_config.claims("train.log", b'[2024-05-01 12:34:56,789] [INFO] json = {\n "zero_optimization": {"stage": 3}}')
    assert not ds_config.claims("metrics.jsonl", b'{"step": 1, "note": "zero_optimization"}\n{"step": 2}\n')
    assert not ds_config.claims("config.json", b'{"model_type": "llama"}')
