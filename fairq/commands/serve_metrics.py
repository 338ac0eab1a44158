"""``fairq serve-metrics``: a simulated box as a Prometheus target, so that dashboards need no GPU."""

from __future__ import annotations

import math
import signal
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairq.commands._columns import takes_columns, tell_lost
from fairq.files import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fairq.live.playback import Film
    from fairq.scenario import Scenario


SERVED = ("start", "first_token", "finish")
"""Columns of a log that say when it was served: here it is served anew, and --start is a second of that."""


def register(app: typer.Typer) -> None:
    app.command("serve-metrics")(serve_metrics)


@takes_columns(*SERVED)
def serve_metrics(
    scenario: Annotated[str, typer.Argument(help="A scenario file, a shipped scenario, or a log.")],
    policy: Annotated[str | None, typer.Option(help="Which of its policies (default: the first).")] = None,
    speed: Annotated[float, typer.Option(help="Simulated seconds per second.")] = 1.0,
    port: Annotated[int, typer.Option(help="0: any free one, which is printed.")] = 8000,
    address: Annotated[str, typer.Option(help="Interface to listen on.")] = "127.0.0.1",
    engine: Annotated[
        str, typer.Option(help="Whose names: vllm, sglang, llamacpp, trtllm or triton.")
    ] = "vllm",
    seed: Annotated[int | None, typer.Option(help="Instead of the scenario's.")] = None,
    start: Annotated[float, typer.Option(help="Begin at this simulated second.")] = 0.0,
    once: Annotated[
        bool, typer.Option("--once", help="Stay at the end instead of going on with another replication.")
    ] = False,
    *,
    columns: dict[str, Any],
) -> None:
    """Serves a simulation's state on /metrics, in real or accelerated time, until Ctrl-C."""
    from fairq.commands.run import open_scenario
    from fairq.live.exporter import SimulationCollector, registry_of
    from fairq.live.names import ENGINES
    from fairq.live.playback import Playback
    from fairq.live.server import serving

    if engine not in ENGINES:
        raise InputError(f"--engine must be one of {', '.join(ENGINES)}, got {engine!r}")
    for name, value, least in (("--speed", speed, 0.0), ("--start", start, -1.0)):
        if not (math.isfinite(value) and value > least):
            raise InputError(
                f"{name} must be a finite number {'> 0' if least == 0 else '>= 0'}, got {value!r}"
            )
    played = open_scenario(scenario, columns)
    tell_lost(played, without=SERVED)
    if seed is not None:
        played = played.with_(seed=seed)
    name = policy or next(iter(played.policies))
    slots = _slots(played)
    film = film_of(played, name)
    began = time.monotonic()
    playback = Playback(film, lambda: start + speed * (time.monotonic() - began), once=once)
    collector = SimulationCollector(
        playback.now,
        ENGINES[engine],
        slots=slots,
        speed=speed,
        labels={"model_name": "simulated"},
        weights=dict(played.workload().weights),
        info={"scenario": played.name, "policy": name},
    )
    try:
        with serving(registry_of(collector), port, address) as where:
            typer.echo(
                f"{played.name} under {name} at {speed:g} simulated seconds per second: {where} (Ctrl-C ends)"
            )
            _until_told()
    except (OSError, OverflowError) as error:
        raise InputError(f"cannot listen on {address}:{port}: {error}") from None


def film_of(scenario: Scenario, policy: str) -> Callable[[int], Film]:
    """Makes the film of a replication. Raises InputError for a policy that the scenario has not."""
    from fairq.live.playback import Film
    from fairq.sim import simulate

    workload = scenario.workload()
    scenario.policy(policy)  # a name that does not exist is said before anything runs

    def film(replication: int) -> Film:
        try:
            return Film(
                simulate(
                    workload,
                    scenario.policy(policy),
                    scenario.engine(),
                    seed=scenario.seed,
                    replication=replication if scenario.random else 0,
                )
            )
        except ValueError as error:
            raise InputError(f"{scenario.source}: {policy}: {error}") from error

    return film


def _slots(scenario: Scenario) -> int | None:
    engine: Any = scenario.engine()
    limits = getattr(engine, "limits", None)
    slots: int | None = engine.slots if limits is None else limits.max_num_seqs
    return slots


def _until_told() -> None:
    """Sleeps until Ctrl-C or a polite kill."""
    told: list[int] = []
    # A second signal may come while the first is handled, so a handler must take no lock (as an Event would).
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: told.append(number))
    while not told:
        time.sleep(0.2)
