"""Tables in, matplotlib Figures out. Nothing here simulates, opens a file or touches pyplot.

One chart family per file; :mod:`fairq.plots.style` holds the look that they share. A chart is a
:class:`~fairq.plots.style.Chart`: a private Figure that carries its alt text and the numbers it drew.
"""

from fairq.plots.bars import MEASURES, latency_bars
from fairq.plots.before_after import before_after
from fairq.plots.depth import queue_depth
from fairq.plots.ecdf import latency_ecdf
from fairq.plots.fold import fold_tenants, rest_name, top_tenants
from fairq.plots.gantt import slot_gantt
from fairq.plots.style import OKABE_ITO, OTHERS, Chart, TenantStyle, number, tenant_styles

__all__ = [
    "MEASURES",
    "OKABE_ITO",
    "OTHERS",
    "Chart",
    "TenantStyle",
    "before_after",
    "fold_tenants",
    "latency_bars",
    "latency_ecdf",
    "number",
    "queue_depth",
    "rest_name",
    "slot_gantt",
    "tenant_styles",
    "top_tenants",
]
