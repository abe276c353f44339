"""``python -m tests.calibration CORPUS... [--write]``: prints the reliability table, writes rules/confidence.toml."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from correlator.judge.confidence import coefficients
from tests.calibration import model
from tests.calibration.samples import rows

TARGET = Path(__file__).parents[2] / "rules" / "confidence.toml"


def main(arguments: list[str]) -> None:
    """Cross-validates, fits on everything and, when asked, replaces the coefficients in place (their comments stay)."""
    corpora = [a for a in arguments if not a.startswith("--")]
    found = rows(corpora)
    now = coefficients()
    pairs = model.held_out(found, now)
    wrong = [r.case for r in found if not r.right]
    print(f"{len(found)} incidents with a cause, {len(wrong)} where the strongest cause is not the label's, {len({r.group for r in found})} groups")
    table(model.reliability([(model.predict(r.features, now), r.right) for r in found]), "coefficients in use")
    table(model.reliability(pairs), f"held out (groups in 5 folds), Brier {model.brier(pairs):.4f}")
    sure = [ok for p, ok in pairs if p >= 0.9]
    print(f"at 0.9 and above: {sum(not ok for ok in sure)} wrong of {len(sure)}")
    fitted = model.fit(found, now)
    for name, value in fitted.items():
        print(f"  {name:<14} {now[name]:6.2f} -> {value:6.2f}")
    if "--write" in arguments:
        text = TARGET.read_text(encoding="utf-8")
        for name, value in fitted.items():
            text = re.sub(rf"(?m)^{name} = [\d.]+", f"{name} = {value:.2f}", text)
        TARGET.write_text(text, encoding="utf-8")


def table(bins: list[model.Bin], title: str) -> None:
    print(title)
    for b in bins:
        print(f"  {b.low:.2f}-{b.high:.2f}  {b.cases:>5} cases  mean {b.mean:.3f}  right {b.right:.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])
