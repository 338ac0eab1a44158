"""Commands: one file per group, with ``register(app)``. Light to import; heavy things come when run."""
