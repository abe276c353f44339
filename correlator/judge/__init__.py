"""Facts, laws, roots and verdicts: who is guilty is decided here and nowhere else."""
