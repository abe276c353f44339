"""Command line. Heavy imports happen inside the commands, so that ``--help`` is instant."""

from __future__ import annotations

import os
import sys

import typer

from correlator.cli import diagnose, query, rulebook

app = typer.Typer(
    name="correlator", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
    help="Which rank of a distributed training job failed first, why, and which failures are only its collateral.",
)  # fmt: skip
app.command("diagnose")(diagnose.diagnose)
app.command("ingest")(diagnose.ingest)
app.command("sql")(query.sql)
app.command("export")(query.export)
app.add_typer(rulebook.app, name="rules")
app.command("score")(rulebook.score)


@app.command()
def version() -> None:
    """Print the version."""
    from correlator import __version__

    typer.echo(f"correlator {__version__}")


def main() -> None:
    """Entry point: errors become what, where, why and what to do; exit code 2."""
    from correlator.errors import CorrelatorError

    try:
        app()
    except CorrelatorError as exc:
        if os.environ.get("CORRELATOR_DEBUG"):
            raise
        typer.echo(str(exc), err=True)
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as exc:
        if os.environ.get("CORRELATOR_DEBUG"):
            raise
        typer.echo(f"error: internal error: {type(exc).__name__}: {exc}\n  help: run again with CORRELATOR_DEBUG=1 and report the traceback", err=True)
        sys.exit(2)
