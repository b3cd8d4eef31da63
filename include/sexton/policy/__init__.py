"""Retention as code: which offsets expire earlier than at the broker, and which must not be deleted.

A policy is a YAML file with holds, rules and limits (model.py). reading.py reports errors with their lines. `decide`
returns the decision about one offset and `explain` the reasons (decision.py); CompiledPolicy decides about many offsets
(compiled_rules.py). A policy can shorten what the broker keeps, never lengthen it: it cannot stop the broker's sweep.

This package reads no clock and no cluster; inputs and `now_ms` are arguments. Kafka's rules of expiry are in
sexton.coordinator.
"""

from sexton.policy.compiled_rules import CompiledPolicy, GroupRules
from sexton.policy.decision import decide, decide_bare, explain
from sexton.policy.diagnostics import PolicyError
from sexton.policy.inputs import Decision, GroupInput, OffsetInput, RuleTrace
from sexton.policy.limits import Counts, DefaultLimits, Limits, OwnerCount
from sexton.policy.model import Hold, Match, Policy, Rule
from sexton.policy.reading import parse_policy, read_policy

__all__ = [
    "CompiledPolicy",
    "Counts",
    "Decision",
    "DefaultLimits",
    "GroupInput",
    "GroupRules",
    "Hold",
    "Limits",
    "Match",
    "OffsetInput",
    "OwnerCount",
    "Policy",
    "PolicyError",
    "Rule",
    "RuleTrace",
    "decide",
    "decide_bare",
    "explain",
    "parse_policy",
    "read_policy",
]
