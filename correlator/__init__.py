"""correlator: which rank of a distributed training job failed first, why, and what is only its collateral.

import correlator
job = correlator.open_job("path/to/logs")
job.incidents; job.sql("SELECT * FROM ranks"); job.timeline(); job.export("timeline.parquet")
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from correlator.api import Job, open_job

__all__ = ["Job", "__version__", "open_job"]
__version__ = "0.1.0"

if not (Path(__file__).parent / "parsers" / "__init__.py").is_file():
    # a checkout whose links were lost (some archives and file systems): the folders lie beside the package
    __path__.append(str(Path(__file__).resolve().parent.parent))


def __getattr__(name: str) -> Any:
    if name in ("Job", "open_job"):
        from correlator import api

        return getattr(api, name)
    raise AttributeError(f"module 'correlator' has no attribute {name!r}")
