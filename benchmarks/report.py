"""Write a report as Markdown for people and as JSON for programs."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.outcomes import RATIO, Judgement, Samples, Section

FINDINGS = Path(__file__).with_name("findings.toml")
"""What people found out about the numbers, by number of the benchmark."""


def write(directory: Path, machine: Mapping[str, str], sections: Sequence[Section]) -> None:
    """Write the report under its date and as the latest one."""
    directory.mkdir(parents=True, exist_ok=True)
    date = machine["date"].partition(" ")[0]
    markdown = to_markdown(machine, sections)
    data = to_json(machine, sections)
    for name in (date, "latest"):
        (directory / f"{name}.md").write_text(markdown, encoding="utf-8")
        (directory / f"{name}.json").write_text(data, encoding="utf-8")


def to_markdown(machine: Mapping[str, str], sections: Sequence[Section]) -> str:
    """Return the report as text."""
    findings = tomllib.loads(FINDINGS.read_text(encoding="utf-8"))
    lines = [
        "# Benchmarks",
        "",
        "All numbers of a ratio were measured in the same run, in turn.",
        "",
        *(f"- {name}: {value}" for name, value in machine.items()),
        "",
        "| # | what | aim | measured | met |",
        "| --- | --- | --- | --- | --- |",
    ]
    for section in sections:
        lines += [_summary(section, judgement) for judgement in section.outcome.judgements]
        if section.error:
            lines.append(f"| {section.number} | {section.title} | | failed | no |")
    for section in sections:
        lines += ["", f"## {section.number}. {section.title}", "", *_details(section)]
        limits = findings.get(str(section.number), {}).get("limits")
        if limits:
            lines += ["", f"What limits it: {limits.strip()}"]
    return "\n".join(lines) + "\n"


def to_json(machine: Mapping[str, str], sections: Sequence[Section]) -> str:
    """Return the report as JSON."""
    items = []
    for section in sections:
        item = asdict(section)
        for data, judgement in zip(
            item["outcome"]["judgements"], section.outcome.judgements, strict=True
        ):
            data["met"] = judgement.met
        for data, samples in zip(item["outcome"]["samples"], section.outcome.samples, strict=True):
            data["median"] = samples.median
            data["values"] = [round(value, 4) for value in samples.values]
        items.append(item)
    return json.dumps({"machine": dict(machine), "benchmarks": items}, indent=1) + "\n"


def _summary(section: Section, judgement: Judgement) -> str:
    measured = f"{judgement.value:.2f}" if judgement.unit == RATIO else f"{judgement.value:.0f}"
    met = "yes" if judgement.met else "no"
    return (
        f"| {section.number} | {judgement.name} | {judgement.aim} "
        f"| {measured} {judgement.unit} | {met} |"
    )


def _details(section: Section) -> list[str]:
    if section.error:
        return ["Failed:", "", "```", section.error.strip(), "```"]
    lines = ["| | median | p10 | p90 | samples |", "| --- | --- | --- | --- | --- |"]
    lines += [_row(samples) for samples in section.outcome.samples]
    lines.append("")
    lines += [f"- {fact}" for fact in section.outcome.facts]
    before, after = section.load_average
    lines.append(f"- Load average {before:.1f} before, {after:.1f} after.")
    return lines


def _row(samples: Samples) -> str:
    numbers = (samples.median, samples.percentile(0.1), samples.percentile(0.9))
    shown = " | ".join(f"{number:.2f} {samples.unit}" for number in numbers)
    return f"| {samples.label} | {shown} | {len(samples.values)} |"
