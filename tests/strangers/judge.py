"""Compares the runs of a suite test by test, and prints what came of it."""

import fnmatch
from dataclasses import dataclass, field

from runs import WAYS, Run


@dataclass
class Verdict:
    """One suite's result."""

    name: str
    tests: int = 0
    flaky: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)
    # What is wrong, a line each.
    differences: list[str] = field(default_factory=list)
    rings: str = ""
    seconds: float = 0
    missing: str = ""

    def line(self) -> str:
        if self.missing:
            return f"{self.name}: NOT RUN: {self.missing}"
        word = "DIFFERS" if self.differences else "same as on the kernel"
        return "\n".join([f"{self.name}: {word}", *(f"    {line}" for line in self.differences)])


def reason(test: str, patterns: dict[str, str]) -> str | None:
    """Why this test may differ. A pattern's brackets are those of the test's name."""
    for pattern, why in patterns.items():
        if fnmatch.fnmatchcase(test, pattern.replace("[", "[[]")):
            return why
    return None


def compare(name: str, found: dict[str, list[Run]], suite: dict, patterns: dict[str, str]) -> Verdict:
    verdict = Verdict(name)
    kernel = found["kernel"]
    names = set().union(*(run.outcomes for run in kernel))
    always = {test for test in names if all(run.outcomes.get(test) == "pass" for run in kernel)}
    sometimes = {test for test in names if any(run.outcomes.get(test) == "pass" for run in kernel)}
    verdict.tests = len(always)
    verdict.flaky = sorted(sometimes - always)
    if not always:
        verdict.differences.append("no test passes on the kernel: see its output with --keep FOLDER")
        return verdict
    for way in WAYS:
        for run in found[way]:
            judge(verdict, run, always, patterns)
    best = max((run for way in WAYS for run in found[way]), key=lambda run: run.on_rings)
    verdict.rings = f"{best.on_rings}/{best.connections}"
    for run in found["at once"]:
        if run.on_rings < suite.get("rings", 0) * run.connections:
            few = f"{run.on_rings} of {run.connections} connections had rings, {suite['rings']:.0%} are wanted"
            verdict.differences.append(f"{run.way}: {few}: {run.reasons}")
    for run in found["default"]:
        # Without any byte there is none on rings, either.
        if run.ring_bytes < suite.get("ring_bytes", 0) * max(run.bytes, 1):
            few = f"{run.ring_bytes} of {run.bytes} bytes went through rings, {suite['ring_bytes']:.0%} are wanted"
            verdict.differences.append(f"{run.way}: {few}: {run.reasons}")
    return verdict


def judge(verdict: Verdict, run: Run, always: set[str], patterns: dict[str, str]) -> None:
    not_reached = []
    for test in sorted(always):
        kind = run.outcomes.get(test)
        if kind == "pass":
            continue
        if reason(test, patterns):
            verdict.expected.append(f"{run.way}: {test}")
        elif kind is None:
            not_reached.append(test)
        else:
            what = {"fail": "fails", "skip": "is skipped", "start": "never ends"}[kind]
            verdict.differences.append(f"{run.way}: {what}: {test}")
    if not_reached:
        verdict.differences.append(f"{run.way}: {len(not_reached)} tests not reached, the first: {not_reached[0]}")


def table(verdicts: list[Verdict]) -> str:
    lines = ["", f"{'suite':12}{'tests':>7}{'flaky':>7}{'expected':>10}{'rings':>15}{'seconds':>9}  result"]
    for verdict in verdicts:
        result = "differs" if verdict.differences else "same"
        if verdict.missing:
            result = f"not run: {verdict.missing}"
        lines.append(
            f"{verdict.name:12}{verdict.tests:7}{len(verdict.flaky):7}{len(verdict.expected):10}"
            f"{verdict.rings:>15}{verdict.seconds:9.0f}  {result}"
        )
    for verdict in verdicts:
        lines += [f"{verdict.name}: {line}" for line in verdict.differences]
        lines += [f"{verdict.name}: flaky on the kernel, not judged: {test}" for test in verdict.flaky]
    return "\n".join(lines)
