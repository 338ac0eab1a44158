"""All ideas of the gallery, in the order of the course. A new chart is one row."""

from __future__ import annotations

from fairq.files import nearest
from fairq.gallery import boxes, bursts, turns, waits
from fairq.gallery.core import Idea

IDEAS: tuple[Idea, ...] = (
    Idea(
        "fifo_or_fair",
        "It was fine last week: what happened, and what does a fair queue do about it?",
        "00",
        bursts.fifo_or_fair,
        bursts.draw_fifo_or_fair,
        "Scenario `noisy_burst`, ten runs; p50 and p99 within each run, t-interval over the runs.",
    ),
    Idea(
        "slots_over_time",
        "What does that look like on the card?",
        "00",
        bursts.slots_over_time,
        bursts.draw_slots_over_time,
        "Scenario `noisy_burst`, the first run.",
    ),
    Idea(
        "hockey_stick",
        "How busy is too busy?",
        "01",
        waits.hockey_stick,
        waits.draw_hockey_stick,
        "M/M/c: A. K. Erlang 1917. The simulation leaves out the first fifth of each run.",
    ),
    Idea(
        "bursty_or_poisson",
        "Does it matter how evenly requests come?",
        "01",
        waits.bursty_or_poisson,
        waits.draw_bursty_or_poisson,
        "GI/M/1 with Gamma gaps: D. G. Kendall 1953.",
    ),
    Idea(
        "one_run",
        "How much does the p99 of one run say?",
        "02",
        waits.one_run,
        waits.draw_one_run,
        "M/M/8 at 80 %: P(W > t) = C·exp(−8·0.2·t). Below 368 independent values a p99 has no upper limit.",
    ),
    Idea(
        "caps_idle_slots",
        "What does a cap cost?",
        "03",
        bursts.caps_idle_slots,
        bursts.draw_caps_idle_slots,
        "Scenario `noisy_burst`, the first run.",
    ),
    Idea(
        "fifty_keys",
        "What if somebody has fifty API keys?",
        "03",
        bursts.fifty_keys,
        bursts.draw_fifty_keys,
        "Scenario `fifty_keys`, ten runs.",
    ),
    Idea(
        "starvation",
        "What if chat always wins?",
        "04",
        waits.starvation,
        waits.draw_starvation,
        "Four slots, exponential service of mean 10 s, one run.",
    ),
    Idea(
        "ageing_price",
        "How much ageing, and at whose price?",
        "04",
        waits.ageing_price,
        waits.draw_ageing_price,
        "Scenario `noisy_burst` under `priority`, ten runs.",
    ),
    Idea(
        "deficits",
        "How does deficit round robin keep its accounts?",
        "05",
        turns.deficits,
        turns.draw_deficits,
        "The burst of `python -m fairq.demo`; M. Shreedhar and G. Varghese 1996.",
    ),
    Idea(
        "weights_to_shares",
        "What does a weight buy?",
        "05",
        turns.weights_to_shares,
        turns.draw_weights_to_shares,
        "Generalised processor sharing: A. K. Parekh and R. G. Gallager 1993.",
    ),
    Idea(
        "quantum_lag",
        "How large a quantum?",
        "05",
        turns.quantum_lag,
        turns.draw_quantum_lag,
        "Bound: M. Shreedhar and G. Varghese 1996, theorem 1.",
    ),
    Idea(
        "wrong_estimates",
        "What if the estimated cost is wrong?",
        "05",
        turns.wrong_estimates,
        turns.draw_wrong_estimates,
        "Virtual token counter, both tenants backlogged.",
    ),
    Idea(
        "vtc_lift",
        "Why is idle time no credit?",
        "05",
        turns.vtc_lift,
        turns.draw_vtc_lift,
        "Y. Sheng et al., OSDI 2024, algorithm 2; the counter-example is `fairq.counterexamples.NoLift`.",
    ),
    Idea(
        "who_pays",
        "Who pays for fairness?",
        "05",
        bursts.who_pays,
        bursts.draw_who_pays,
        "Scenario `published_burst`; the law of conservation: L. Kleinrock 1965.",
    ),
    Idea(
        "partition_memory",
        "Should we cut the card in two?",
        "06",
        boxes.partition_memory,
        boxes.draw_partition_memory,
        "`fairq.memory`: card / parts · 0.9 − weights − engine.",
    ),
    Idea(
        "replica_routers",
        "Where does my conversation live?",
        "07",
        boxes.replica_routers,
        boxes.draw_replica_routers,
        "Scenario `replicas` without its outage, one run; modelled, not measured.",
    ),
    Idea(
        "capacity_by_users",
        "How many users does a box serve?",
        "08",
        boxes.capacity_by_users,
        boxes.draw_capacity_by_users,
        "Profile `rtx4090-llama31-8b` (fitted to per-operator profiles); modelled, not measured.",
    ),
    Idea(
        "saturation_verdicts",
        "When will no scheduling fix it?",
        "08",
        boxes.saturation_verdicts,
        boxes.draw_saturation_verdicts,
        "`fairq.saturation.judge` on what a scrape would have seen.",
    ),
    Idea(
        "hidden_queue",
        "Why does the policy change nothing?",
        "08",
        boxes.hidden_queue,
        boxes.draw_hidden_queue,
        "Scenario `hidden_queue`, ten runs.",
    ),
)


def idea_named(name: str) -> Idea:
    """Raises KeyError with the names there are."""
    for idea in IDEAS:
        if idea.name == name:
            return idea
    names = [idea.name for idea in IDEAS]
    raise KeyError(f"no figure {name!r}; there are: {', '.join(names)}{nearest(name, names)}")
