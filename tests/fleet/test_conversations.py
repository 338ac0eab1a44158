"""Conversations: what a prompt holds, when they end, and that they are the same whatever serves them."""

import pickle
from itertools import pairwise

import pytest

from fairq.workload import ClosedLoop, Exponential, Fixed, Lognormal, Tenant, Workload
from fairq.workload.conversations import Conversation, Conversations, ConversationSource
from fairq.workload.sizes import Estimate


def source(
    loop: Conversations, message: object = 10, answer: object = 5, **settings: object
) -> ConversationSource:
    tenant = Tenant("ann", "ann", loop, message, answer, **settings)  # type: ignore[arg-type]
    (made,) = Workload([tenant], 100).closed_loops(seed=1)
    assert isinstance(made, ConversationSource)
    return made


def test_history_grows_by_message_and_answer() -> None:
    said = source(Conversations(1, 2, turns=3, history_tokens=6000, system_tokens=100))
    prompts = [said.draw(0, n).prompt_tokens for n in range(4)]
    assert prompts == [6110, 6125, 6140, 6110]  # 100 + 6,000 + 10, then 15 more each; the fourth begins anew
    names = [said.request(0, n, 0).conversation for n in range(4)]
    assert names == ["ann/0/0", "ann/0/0", "ann/0/0", "ann/0/1"]
    assert (names[0].shared, names[0].shared_tokens) == ("ann/system", 100)
    assert said.draw(0, 1).think_s == 2
    assert said.draw(0, 1).cost == 6130


def test_a_random_conversation_adds_up() -> None:
    loop = Conversations(3, Exponential(5), Lognormal(5, 0.5), Lognormal(6000, 0.3))
    said = source(loop, Lognormal(100, 0.5), Lognormal(200, 0.5))
    lengths = []
    for worker in range(3):
        asks = [said.request(worker, n, float(n)) for n in range(40)]
        for before, after in pairwise(asks):
            if before.conversation == after.conversation:
                assert after.prompt_tokens > before.prompt_tokens + before.output_tokens
        lengths += [len({a.conversation for a in asks})]
    assert all(4 <= n <= 20 for n in lengths)
    assert len({said.request(k, n, 0).id for k in range(3) for n in range(40)}) == 120


def test_a_context_limit_ends_a_conversation_early_and_cuts_a_long_beginning() -> None:
    said = source(Conversations(1, 2, turns=50, history_tokens=90, max_context=130))
    asks = [said.draw(0, n) for n in range(6)]
    # 90 + 10 + 5, then 15 more: 120 + … 5 would be 135 > 130 on the third turn, so the third begins anew.
    assert [a.prompt_tokens for a in asks] == [100, 115, 100, 115, 100, 115]
    assert max(a.prompt_tokens + a.output_tokens for a in asks) <= 130
    long = source(Conversations(1, 2, turns=3, history_tokens=500, max_context=130))
    assert [long.draw(0, n).prompt_tokens for n in range(2)] == [125, 125]  # only one turn fits
    longer = source(Conversations(1, 2, turns=3, history_tokens=0, max_context=12), 10, 50)
    draw = longer.draw(0, 0)
    assert (draw.prompt_tokens, draw.output_tokens) == (10, 2)


def test_turns_are_the_same_in_any_order_and_undisturbed_by_other_users() -> None:
    loop = Conversations(3, Exponential(5), Lognormal(5, 0.5), Lognormal(6000, 0.3))
    one, other = source(loop, Lognormal(100, 0.5)), source(loop, Lognormal(100, 0.5))
    late = other.draw(2, 30)
    assert [one.draw(2, n) for n in range(31)][-1] == late
    fewer = source(
        Conversations(1, Exponential(5), Lognormal(5, 0.5), Lognormal(6000, 0.3)), Lognormal(100, 0.5)
    )
    assert [fewer.draw(0, n) for n in range(20)] == [one.draw(0, n) for n in range(20)]


def test_the_messages_are_those_of_a_plain_closed_loop() -> None:
    """The history comes on top; what is drawn for a message, an answer and a pause stays as it was."""
    plain = Tenant("ann", "ann", ClosedLoop(2, Exponential(5)), Lognormal(100, 0.5), Lognormal(50, 0.4))
    (loop,) = Workload([plain], 100).closed_loops(seed=1)
    said = source(Conversations(2, Exponential(5), 4, 1000), Lognormal(100, 0.5), Lognormal(50, 0.4))
    history = 1000
    for n in range(12):
        if n % 4 == 0:
            history = 1000
        a, b = loop.draw(1, n), said.draw(1, n)
        assert (b.think_s, b.output_tokens) == (a.think_s, a.output_tokens)
        assert b.prompt_tokens == history + a.prompt_tokens
        history += a.prompt_tokens + a.output_tokens


def test_the_gateway_knows_the_prompt_and_guesses_the_rest() -> None:
    said = source(Conversations(1, 2, 4, 1000), estimate=Estimate(factor=2))
    assert said.draw(0, 0).cost == 1000 + 2 * 15


def test_a_conversation_survives_pickling() -> None:
    again = pickle.loads(pickle.dumps(Conversation("a/0", "sys", 7)))
    assert (again, again.shared, again.shared_tokens) == ("a/0", "sys", 7)
    assert hash(again) == hash("a/0")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"turns": 0}, "turns must be >= 1, got 0"),
        ({"system_tokens": -1}, "system_tokens must be a whole number >= 0, got -1"),
        ({"max_context": 1}, "max_context must be a whole number >= 2, got 1"),
        ({"system_tokens": 100, "max_context": 100}, "max_context must be > system_tokens"),
        ({"workers": 0}, "workers must be a whole number >= 1, got 0"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Conversations(**({"workers": 1, "think_s": 1} | settings))  # type: ignore[arg-type]


def test_fixed_sizes_stay_fixed() -> None:
    loop = Conversations(1, Fixed(1))
    assert (loop.turns, loop.history_tokens) == (Fixed(8), Fixed(0))
