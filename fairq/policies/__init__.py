"""Who goes next: one policy, one paper, one file. The contract is in ``base``."""
