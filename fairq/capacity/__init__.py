"""The number to tell people: tokens/s in all, per stream and per user, how many fit, and what binds.

A *stream* is a request in service; a *user* is somebody with one request in flight, served or waiting. Every
rate counts generated tokens. Per stream × streams = total, in every row.
"""

from fairq.capacity.card import Card, Limits, Point, StreamRow, Target, UserRow, make_card
from fairq.capacity.measured import from_levels, from_served, levels_of
from fairq.capacity.modelled import from_profile, from_scenario, from_slots, relief, relief_of
from fairq.capacity.shape import Shape

__all__ = [
    "Card",
    "Limits",
    "Point",
    "Shape",
    "StreamRow",
    "Target",
    "UserRow",
    "from_levels",
    "from_profile",
    "from_scenario",
    "from_served",
    "from_slots",
    "levels_of",
    "make_card",
    "relief",
    "relief_of",
]
