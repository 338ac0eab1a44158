"""Controls by setting ``.value``: box and slider agree, limits hold, each has a label and a tooltip."""

from __future__ import annotations

import pytest

from fairq.lab.knobs import Choice, Knob, Ticks


def knob(value=5, **more):
    return Knob("size", "Size", "How large", value, low=1, high=100, **{"slide": (1, 20), **more})


def test_the_slider_moves_the_box_and_one_change_is_heard() -> None:
    k, heard = knob(), []
    k.on_change(lambda: heard.append(k.value))
    k.slider.value = 7
    assert (k.box.value, k.value, heard) == (7, 7, [7])


def test_the_box_moves_the_slider_as_far_as_it_goes() -> None:
    k, heard = knob(), []
    k.on_change(lambda: heard.append(k.value))
    k.box.value = 50
    assert (k.value, k.slider.value) == (50, 20)
    k.box.value = 12
    assert (k.value, k.slider.value, heard) == (12, 12, [50, 12])


def test_a_slider_over_chosen_values_shows_the_nearest_and_keeps_the_box() -> None:
    k = Knob("quantum", "Quantum", "Tokens", 500, low=1, high=10**6, choices=(1, 100, 500, 1000))
    k.box.value = 120
    assert (k.value, k.slider.value) == (120, 100)
    k.slider.value = 1000
    assert k.value == 1000


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "size must be from 1 to 100, got 0"),
        (101, "size must be from 1 to 100, got 101"),
        (2.5, "size must be a whole number, got 2.5"),
        ("9", "size must be a number, got '9'"),
        (True, "size must be a number, got True"),
        (float("nan"), "size must be a number, got nan"),
    ],
)
def test_a_bad_value_is_refused_by_name(value, words: str) -> None:
    k = knob()
    with pytest.raises(ValueError, match=words):
        k.value = value
    assert k.value == 5


def test_a_whole_number_stays_one_and_a_float_a_float() -> None:
    whole, real = knob(), knob(1.5, step=0.5)
    whole.value = 7.0
    real.value = 3
    assert repr(whole.value) == "7"
    assert repr(real.value) == "3.0"


def test_the_last_tick_cannot_be_taken_away() -> None:
    ticks = Ticks("policies", ["a", "b"], ["a", "b"], {})
    heard = []
    ticks.on_change(lambda: heard.append(ticks.value))
    ticks.boxes["a"].value = False
    ticks.boxes["b"].value = False
    assert ticks.value == ("b",)
    assert heard == [("b",)]


def test_setting_several_ticks_is_one_change() -> None:
    ticks = Ticks("policies", ["a", "b", "c"], ["a"], {})
    heard = []
    ticks.on_change(lambda: heard.append(ticks.value))
    ticks.value = ["b", "c"]
    assert heard == [("b", "c")]
    with pytest.raises(ValueError, match="policies: no 'd'; choose from a, b, c"):
        ticks.value = ["d"]
    with pytest.raises(ValueError, match="at least one"):
        ticks.value = []


def test_a_choice_refuses_what_it_does_not_offer() -> None:
    choice = Choice("by", "By", "How", [("tenant", "t"), ("group", "g")], "t")
    choice.value = "g"
    with pytest.raises(ValueError, match="by must be one of t, g, got 'x'"):
        choice.value = "x"
    assert choice.value == "g"


def test_every_control_has_a_label_and_a_tooltip() -> None:
    k = knob()
    assert k.box.description == "Size"
    assert k.box.tooltip
    assert k.slider.tooltip
    assert not k.slider.continuous_update
