"""The rulebook: what lines mean, and what people need to know about each failure."""

from correlator.rulebook.load import load
from correlator.rulebook.model import Condition, Predicate, Rule, Rulebook
from correlator.rulebook.parse import parse_rule

__all__ = ["Condition", "Predicate", "Rule", "Rulebook", "load", "parse_rule"]
