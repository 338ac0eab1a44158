"""The shipped data, from a clone and from an installed wheel alike."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from fairq.data import data_names, data_path
from fairq.scenario import Scenario

ROOT = Path(__file__).parents[1]

ASK_THE_WHEEL = """
import json, sys
sys.path.insert(0, sys.argv[1])
import fairq.data
from fairq.scenario import Scenario
print(json.dumps({
    "from": fairq.data.__file__,
    "path": str(fairq.data.data_path("scenarios/noisy_burst.yaml")),
    "scenarios": fairq.data.data_names("scenarios", ".yaml"),
    "log": fairq.data.data_path("logs/synthetic_27_tenants.csv").read_text(),
    "data": Scenario.load("noisy_burst").data(),
}))
"""


def test_the_clones_own_folder_is_found() -> None:
    assert data_path("scenarios/noisy_burst.yaml") == ROOT / "data/scenarios/noisy_burst.yaml"
    assert {"noisy_burst", "published_burst"} <= set(data_names("scenarios", ".yaml"))


def test_a_wrong_name_lists_what_there_is() -> None:
    with pytest.raises(FileNotFoundError, match=r"no shipped file 'scenarios/nope.yaml'; .*noisy_burst.yaml"):
        data_path("scenarios/nope.yaml")


def test_every_row_of_a_table_is_in_a_table() -> None:
    # The repository's own pages: a walk of the folder would read every package's beside it.
    listed = subprocess.run(
        ["git", "ls-files", "-z", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    pages = [page for page in listed.stdout.split("\0") if page]
    assert {"README.md", "data/README.md", "fairq/policies/README.md"} <= set(pages)
    for page in pages:
        tokens = MarkdownIt("commonmark").enable("table").parse((ROOT / page).read_text(encoding="utf-8"))
        prose = [tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "paragraph_open"]
        assert [text for text in prose if text.startswith("|")] == [], page


def test_the_dictionary_has_a_row_for_every_shipped_scenario() -> None:
    tokens = (
        MarkdownIt("commonmark").enable("table").parse((ROOT / "data/README.md").read_text(encoding="utf-8"))
    )
    cells = [tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "td_open"]
    assert {f"`{name}.yaml`" for name in data_names("scenarios", ".yaml")} <= set(cells)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel of this clone: what pip would put into site-packages."""
    if shutil.which("uv") is None:
        pytest.skip("uv is needed to build the wheel")
    folder = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        ["uv", "build", "--wheel", "--out-dir", str(folder), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode and "Failed to resolve requirements from `build-system.requires`" in built.stderr:
        pytest.skip("the build backend cannot be fetched")
    assert built.returncode == 0, built.stderr
    (found,) = folder.glob("fairq-*.whl")
    with zipfile.ZipFile(found) as archive:
        archive.extractall(folder / "site-packages")
    return folder / "site-packages"


def test_an_installed_wheel_finds_the_same_data(wheel: Path, tmp_path: Path) -> None:
    asked = subprocess.run(
        [sys.executable, "-c", ASK_THE_WHEEL, str(wheel)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(asked.stdout)
    assert Path(answer["from"]).is_relative_to(wheel)
    assert Path(answer["path"]) == wheel / "fairq/_data/scenarios/noisy_burst.yaml"
    assert answer["scenarios"] == data_names("scenarios", ".yaml")
    assert answer["log"] == data_path("logs/synthetic_27_tenants.csv").read_text()
    assert answer["data"] == Scenario.load("noisy_burst").data()


def test_the_wheel_carries_every_data_file(wheel: Path) -> None:
    def files(folder: Path) -> dict[str, bytes]:
        return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    assert files(wheel / "fairq/_data") == files(ROOT / "data")
