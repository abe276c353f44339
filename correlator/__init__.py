"""correlator: which rank of a distributed training job failed first, why, and what is only its collateral."""
