"""The lab: sliders around run, metrics and plots, for a notebook.

>>> from fairq.lab import Lab
>>> Lab("noisy_burst")  # doctest: +SKIP

Parts: ``settings`` (what may be turned), ``runs`` (simulate only what is new), ``session`` (the numbers to
draw), ``charts`` (one row per chart), ``knobs`` and ``controls`` (widgets), ``dispatch`` (redraw safely),
``export``, ``code``. A new control is a provider in ``settings.PROVIDERS``, a new chart a row in
``charts.CHARTS``.
"""

from fairq.lab.lab import Lab
from fairq.lab.summary import summary

__all__ = ["Lab", "summary"]
