"""The lab: sliders around run, metrics and plots, for a notebook.

>>> from fairq.lab import Lab
>>> Lab("noisy_burst")  # doctest: +SKIP

and a step-through: one decision of a policy at a time, with the reason for it.

>>> from fairq.lab import StepLab
>>> StepLab(policy, requests)  # doctest: +SKIP

Parts: ``settings`` (what may be turned), ``runs`` (simulate only what is new), ``session`` (the numbers to
draw), ``charts`` (one row per chart), ``knobs`` and ``controls`` (widgets), ``dispatch`` (redraw safely),
``find`` (the setting that keeps a promise), ``export``, ``code``; ``steps``, ``step_tables`` and ``steplab``
for the step-through. A new control is a provider in ``settings.PROVIDERS``, a new chart a row in
``charts.CHARTS``.
"""

from fairq.lab.lab import Lab
from fairq.lab.steplab import StepLab
from fairq.lab.summary import summary

__all__ = ["Lab", "StepLab", "summary"]
