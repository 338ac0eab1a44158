"""``fairq watch`` and ``fairq serve-metrics`` as people run them, and the rules' limits."""

import io
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairq import saturation
from fairq.cli import app
from fairq.commands import watch as watch_module
from fairq.live.scrape import parse

from .prometheus import DATA, free_port, until
from .test_scrape import page_server

PAGE = """\
vllm:num_requests_running {running}
vllm:num_requests_waiting {waiting}
vllm:kv_cache_usage_perc 0.5
vllm:generation_tokens_total {made}
vllm:request_success_total {done}
vllm:prompt_tokens_total {made}
"""


def run(*args):
    return CliRunner().invoke(app, list(args), catch_exceptions=False)


def test_watch_says_what_is_wrong_keeps_trying_and_ends_with_the_card():
    asked = []

    def answer(path):
        asked.append(path)
        n = len(asked)
        if n == 2:
            return 200, "<html>starting</html>"
        if n == 3:
            return 503, "loading"
        if n == 4:
            return 200, "vllm:num_requests_running 1\n"
        return 200, PAGE.format(running=4, waiting=2, made=100 * n, done=n)

    with page_server(answer) as address:
        result = run("watch", address, "--interval", "0.02", "--for", "0.6")
    assert result.exit_code == 0
    said = " ".join(result.stdout.split())
    for word in ("wrong page: HTML", "answered 503", "missing series", "answers again", "trying again"):
        assert word in said
    assert "running 4 waiting 2" in said
    assert "slot-bound" in said
    assert "tokens/s in all" in said
    assert set(asked) == {"/metrics"}


def test_watch_of_nobody_says_so_once_and_ends_with_one_line():
    result = run("watch", f"127.0.0.1:{free_port()}", "--interval", "0.02", "--for", "0.1")
    assert result.exit_code == 2
    assert result.stdout.count("endpoint down") == 1
    assert "fewer than two pages" in result.stderr


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["watch", "box", "--interval", "0"], "--interval"),
        (["watch", "box", "--for", "-1"], "--for"),
        (["watch", "box", "--slots", "0"], "--slots"),
        (["watch", "ftp://box"], "address"),
        (["serve-metrics", "nowhere"], "nowhere"),
        (["serve-metrics", "noisy_burst", "--speed", "0"], "--speed"),
        (["serve-metrics", "noisy_burst", "--engine", "ollama"], "--engine"),
        (["serve-metrics", "noisy_burst", "--policy", "nice"], "nice"),
        (["serve-metrics", "noisy_burst", "--port", "99999"], "99999"),
    ],
)
def test_bad_input_is_one_line(args, word):
    result = run(*args)
    assert result.exit_code == 2
    assert word in result.stderr


def test_the_screen_draws_the_queue():
    shots = [
        parse(PAGE.format(running=4, waiting=w, made=100 * i, done=i), "page", float(i))
        for i, w in enumerate((0, 2, 4, 8))
    ]
    from rich.console import Console

    console = Console(width=100, record=True, file=io.StringIO())
    console.print(watch_module._screen("http://box/metrics", shots, "", 4, 100))
    text = console.export_text()
    assert " ▂▄█ 8 (most 8)" in text
    assert "100 tokens/s in all, 25.0 each" in text


def test_limits_of_the_rules_are_those_of_the_table():
    rules = (DATA / "prometheus" / "fairq.rules.yml").read_text()
    text = re.sub(r"\s+", " ", rules)
    assert f"queued:share10m < {saturation.SOME:.2f}" in text
    assert f"ratio:avg10m < {saturation.FEW:.2f}" in text
    assert f"left:share10m >= {saturation.DRAINED:g}" in text
    assert f"demand:ratio10m >= {saturation.RELIEF:g}" in text
    assert f"queued:share10m >= {saturation.NEARLY_ALWAYS:g}" in text
    assert f"kv >= bool {saturation.FULL:g}" in text
    assert f"kv_full:share10m >= {saturation.MOSTLY:g}" in text
    assert f"slots_full:share10m >= {saturation.MOSTLY:g}" in text


@pytest.mark.slow
def test_a_simulation_is_served_watched_and_stopped_by_ctrl_c(tmp_path):
    fairq = str(Path(sys.executable).with_name("fairq"))
    serve = subprocess.Popen(
        [fairq, "serve-metrics", "noisy_burst", "--speed", "50", "--start", "100", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        url = re.search(r"http://\S+", serve.stdout.readline())[0]
        first = parse(urllib.request.urlopen(url).read().decode(), url, 0.0)
        assert first.waiting > 50  # the nightly job came at 60 s
        out = tmp_path / "watched"
        with out.open("w") as file:
            watch = subprocess.Popen([fairq, "watch", url, "--interval", "0.2"], stdout=file)
        until(lambda: out.read_text().count("running") >= 4)
        watch.send_signal(signal.SIGINT)
        assert watch.wait(20) == 0
        assert "tokens/s" in out.read_text().splitlines()[-1] or "what binds" in out.read_text()
        later = parse(urllib.request.urlopen(url).read().decode(), url, 0.0)
        assert later.at > first.at
        assert later.generated > first.generated
    finally:
        # Twice, as from a terminal and from whatever started it: the second must not get in the first's way.
        serve.send_signal(signal.SIGINT)
        serve.send_signal(signal.SIGTERM)
        assert serve.wait(20) == 0
