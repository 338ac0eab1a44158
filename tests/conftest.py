"""Shared by all tests: how long hypothesis looks. Nothing heavy is imported here."""

import os

from hypothesis import HealthCheck, settings

# No deadlines: they would test the machine. The fast set says the same every time.
settings.register_profile("fast", max_examples=60, deadline=None, derandomize=True)
settings.register_profile(
    "long", max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))
