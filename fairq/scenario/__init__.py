"""A whole experiment as plain data (YAML ⇄ objects), validated; errors name file, field and value."""

from fairq.scenario.scenario import Scenario, ScenarioSpec, load_policy, policy_from_data
from fairq.scenario.spec import ScenarioError

__all__ = ["Scenario", "ScenarioError", "ScenarioSpec", "load_policy", "policy_from_data"]
