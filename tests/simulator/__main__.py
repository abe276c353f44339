"""``python -m tests.simulator OUT --count N --size R --seed S [--kind K]``: writes labelled incidents for ``correlator score OUT``."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.simulator.faults import FAULTS
from tests.simulator.scenario import scenario


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description="Writes labelled simulated incidents.")
    parser.add_argument("out", type=Path, help="folder to write to")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--size", type=int, default=8, help="ranks")
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--kind", choices=sorted(FAULTS), help="one kind of fault")
    parser.add_argument("--loss", help="one kind of loss, empty for none")
    args = parser.parse_args()
    for seed in range(args.seed, args.seed + args.count):
        made = scenario(seed, args.size, args.kind, loss=args.loss)
        made.write(args.out / made.label["id"])
        print(made.describe())


if __name__ == "__main__":
    main()
