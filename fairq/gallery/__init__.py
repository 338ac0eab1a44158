"""The gallery: one chart per idea, each drawn from a table that is kept beside it as CSV.

``fairq figures`` writes them all. An :class:`~fairq.gallery.core.Idea` computes a table from seeds and draws
it; what a title claims is read off that table, and a table that no longer shows it is an error.
"""

from fairq.gallery.catalogue import IDEAS, idea_named
from fairq.gallery.core import GalleryError, Idea, Made, make, read_table

__all__ = ["IDEAS", "GalleryError", "Idea", "Made", "idea_named", "make", "read_table"]
