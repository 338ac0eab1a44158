"""A live engine's own metrics: read them, judge them, and serve a simulation's state under the same names."""
