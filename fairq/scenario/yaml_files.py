"""YAML in and out, strictly: a key given twice is an error, and every error names file and line."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from fairq.files import no_text, write_whole
from fairq.scenario.spec import ScenarioError


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which would silently take the last of two equal keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: dict[Any, int] = {}
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue  # `<<: *other` gives defaults; the keys written here win
            key = self.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if not isinstance(key, (str, int, float, bool, type(None))):
                quote = f", got {key_node.value}: quote it" if isinstance(key_node, yaml.ScalarNode) else ""
                raise yaml.constructor.ConstructorError(
                    None, None, f"a key must be a name{quote}", key_node.start_mark
                )
            if key in seen:
                problem = f"key {key!r} is given twice (first on line {seen[key]})"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            seen[key] = line
        return super().construct_mapping(node, deep)


def read_yaml(path: str | PathLike[str]) -> Any:
    """The plain data of a YAML (or JSON) file.

    Raises
    ------
    ScenarioError : not UTF-8, not YAML, a key twice, or nothing in it; names file and line.
    OSError : the file cannot be read.
    """
    source = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line, words = no_text(path, error)
        raise ScenarioError(f"{source}:{line}", [words]) from None
    data = parse_yaml(text, source)
    if data is None:
        raise ScenarioError(source, ["the file is empty"])
    return data


def parse_yaml(text: str, source: str) -> Any:
    """The plain data of YAML text; ``source`` names it in errors. Raises ScenarioError."""
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        problem = str(error.problem or error.context)
        if problem.endswith("but found ':'"):
            problem += " (is the name before it missing?)"
        raise ScenarioError(source + line, [f"bad YAML: {problem}"]) from None
    except yaml.YAMLError as error:
        raise ScenarioError(source, [f"bad YAML: {' '.join(str(error).split())}"]) from None
    except RecursionError:
        raise ScenarioError(source, ["bad YAML: nested too deeply"]) from None


def to_yaml(data: Any) -> str:
    """Plain data as YAML: the innermost mappings and lists on one line each, in the order given."""
    return yaml.safe_dump(data, sort_keys=False, default_flow_style=None, allow_unicode=True, width=110)


def write_yaml(path: str | PathLike[str], data: Any, comment: str = "") -> Path:
    """Writes plain data as YAML (below a line of comment), whole or not at all. Raises OSError."""
    return write_whole(path, (f"# {comment}\n" if comment else "") + to_yaml(data))
