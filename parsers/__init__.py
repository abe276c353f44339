"""Ground layer: turns one log source into Arrow rows. Imported as ``correlator.parsers``."""
