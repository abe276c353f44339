"""A simulated training job that fails in a known way and leaves the logs that real software would leave.

``cluster`` says what the job is, ``faults`` what goes wrong, ``program`` how far every rank can get then, ``reaction`` who notices and
who is stopped, ``texts`` what each piece of software prints about it, ``layouts`` into which files, ``losses`` what
of that is lost. ``scenario`` draws one of each from a seed; the label comes from what was simulated and what survived.
"""

from tests.simulator.scenario import Scenario, scenario

__all__ = ["Scenario", "scenario"]
