"""Programs under the trainers that people use: Hugging Face, Lightning, Accelerate, DeepSpeed (see `programs.py`)."""

from __future__ import annotations

import logging
import sys
from typing import Any

import torch
from torch import nn


class Samples(torch.utils.data.Dataset):
    """Random pairs."""

    def __len__(self) -> int:
        return 128

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        g = torch.Generator().manual_seed(i)
        x = torch.randn(16, generator=g)
        return {"x": x, "labels": x.sum(0, keepdim=True)}


class Net(nn.Module):
    """A model that returns its loss, as Hugging Face models do."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Loss and prediction."""
        y = self.body(x)
        return {"loss": (y - labels).pow(2).mean(), "logits": y}


def hugging_face() -> None:
    """transformers.Trainer with evaluation, checkpoints and its progress bar."""
    from transformers import Trainer, TrainingArguments

    args = TrainingArguments(output_dir="hf", use_cpu=True, ddp_backend="gloo", per_device_train_batch_size=4, num_train_epochs=2, logging_steps=4, eval_strategy="epoch",
                             save_strategy="epoch", report_to=[], dataloader_num_workers=1)  # fmt: skip
    trainer = Trainer(model=Net(), args=args, train_dataset=Samples(), eval_dataset=Samples())
    trainer.train()
    print(trainer.evaluate(), flush=True)


def lightning_fit() -> None:
    """Lightning: DDP over two processes, validation, the bar of rank 0."""
    import lightning

    class Task(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            loss = self.net(**batch)["loss"]
            self.log("train_loss", loss, prog_bar=True)
            return loss

        def validation_step(self, batch: Any, _: int) -> None:
            self.log("val_loss", self.net(**batch)["loss"], prog_bar=True, sync_dist=True)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    loader = torch.utils.data.DataLoader(Samples(), batch_size=8)
    trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=3, log_every_n_steps=4, logger=False)
    trainer.fit(Task(), loader, loader)


def accelerated() -> None:
    """Accelerate with the batch size that is halved until it fits."""
    from accelerate import Accelerator
    from accelerate.logging import get_logger
    from accelerate.utils import find_executable_batch_size

    logging.basicConfig(level=logging.INFO, format="%(asctime)s - %(levelname)s - %(name)s - %(message)s")
    accelerator = Accelerator(cpu=True)
    logger = get_logger(__name__)
    logger.info(accelerator.state, main_process_only=False)

    @find_executable_batch_size(starting_batch_size=32)
    def fit(batch_size: int) -> None:
        logger.info("trying a batch of %d samples a process", batch_size, main_process_only=False)
        if batch_size > 8:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 4.12 GiB is free.")
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(Samples(), batch_size=batch_size))
        for step, batch in enumerate(loader, 1):
            loss = model(**batch)["loss"]
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            logger.info("step %d loss: %.4f", step, loss.item(), main_process_only=False)

    fit()
    accelerator.end_training()
    logger.info("Training complete", main_process_only=False)


def deepspeed_zero() -> None:
    """DeepSpeed ZeRO-2 in bf16 on CPU."""
    import deepspeed

    deepspeed.ops.__compatible_ops__.update({k: False for k in list(deepspeed.ops.__compatible_ops__) if "shm" in k})  # plain gloo, nothing to compile
    deepspeed.init_distributed("gloo")
    config = {"train_micro_batch_size_per_gpu": 4, "steps_per_print": 2, "wall_clock_breakdown": False, "gradient_clipping": 1.0, "bf16": {"enabled": True},
              "zero_optimization": {"stage": 2}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}}}  # fmt: skip
    net = Net()
    engine, _, loader, _ = deepspeed.initialize(model=net, model_parameters=net.parameters(), config=config, training_data=Samples())
    for epoch in range(2):
        for batch in loader:
            loss = engine(batch["x"].bfloat16(), batch["labels"].bfloat16())["loss"]
            engine.backward(loss)
            engine.step()
            if engine.global_steps % 4 == 0:
                print(f"rank {engine.global_rank} epoch {epoch} step {engine.global_steps} loss {loss.item():.4f}", flush=True)
        engine.save_checkpoint("ds", tag=f"epoch{epoch}")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
