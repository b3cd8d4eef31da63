"""Retention as code: which offsets an owner wants to expire earlier than the broker would, and which nobody may touch.

A policy is a YAML file: holds, rules and limits (model.py), read with the line of every error (reading.py). `decide`
says what it does with one offset and `explain` why (decision.py); CompiledPolicy says it for many (compiled.py). A
policy can shorten what the broker keeps, never lengthen it: nothing here stops a broker's own sweep.

No clock and no cluster is in here; facts and `now_ms` are given. Kafka's rules of expiry are `sexton.coordinator`'s.
"""

from sexton.policy.compiled_rules import BEGINNING_MS, Candidate, CompiledPolicy, GroupRules, HoldOn, Span
from sexton.policy.decision import decide, decide_bare, explain
from sexton.policy.diagnostics import Diagnostic, PolicyError
from sexton.policy.inputs import Decision, GroupInput, OffsetInput, Orphan, RuleTrace
from sexton.policy.limits import Counts, DefaultLimits, Limits, OwnerCount
from sexton.policy.model import Hold, Match, Policy, Rule
from sexton.policy.reading import parse_policy, read_policy

__all__ = [
    "BEGINNING_MS",
    "Candidate",
    "CompiledPolicy",
    "Counts",
    "Decision",
    "DefaultLimits",
    "Diagnostic",
    "GroupInput",
    "GroupRules",
    "Hold",
    "HoldOn",
    "Limits",
    "Match",
    "OffsetInput",
    "Orphan",
    "OwnerCount",
    "Policy",
    "PolicyError",
    "Rule",
    "RuleTrace",
    "Span",
    "decide",
    "decide_bare",
    "explain",
    "parse_policy",
    "read_policy",
]
