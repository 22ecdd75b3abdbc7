"""Metrics on every kind of network, and the dashboard and alert rules in deploy/, which name only what is exposed."""

import asyncio
import json
import re
import shutil
import subprocess
from collections import defaultdict
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from support.broker_parts import here
from support.service.scripted_network import scripted_network
from support.service.with_lake import collecting
from support.waiting import run

DEPLOY = Path(__file__).parents[3] / "deploy"
DOCS = DEPLOY.parent / "docs"
KINDS = ("embedded", "broker", "openflow")
ADDED_BY_PROMETHEUS = {"instance", "job"}
PROMTOOL = shutil.which("promtool")


class Exposed(NamedTuple):
    """What a service of one kind exposes: its answer, and by name of a sample the values of each label."""

    answer: httpx.Response
    labels: dict[str, dict[str, set[str]]]


@asynccontextmanager
async def embedded(folder):
    async with collecting(folder) as (api, _, _):
        yield api.app.state.service, api.client


@asynccontextmanager
async def broker(folder):
    async with (
        here(folder / "above") as above,
        here(folder / "below", await above.principal("below")) as below,
        httpx.AsyncClient(base_url=below.udp.replace("udp", "http")) as client,
    ):
        yield below.running.service, client


@asynccontextmanager
async def openflow(folder):
    async with scripted_network(folder) as network:
        await network.connect("R1", "R2")
        for switch in network.switches.values():
            switch.sent = {2: (7, 700)}
        async with asyncio.timeout(20):
            while (await network.api.health())[0] != "ok" or len(network.plane.network.sent()) < 2:
                await asyncio.sleep(0.01)
        yield network.service, network.api.client


async def scraped(kind, folder):
    async with kind(folder) as (service, client):
        await client.get("/metrics")  # so that the metrics of requests have values
        answer = await client.get("/metrics")
        labels = defaultdict(lambda: defaultdict(set))
        for family in service.metrics.registry.collect():
            for sample in family.samples:
                for label, value in ({"": ""} | sample.labels).items():
                    labels[sample.name][label].add(value)
            if not family.samples:
                name = f"{family.name}_total" if family.type == "counter" else family.name
                for label in ("", *family._labelnames):
                    labels[name][label] |= set()
        return Exposed(answer, labels)


@pytest.fixture(scope="module")
def exposed(tmp_path_factory):
    async def main():
        made = {"embedded": embedded, "broker": broker, "openflow": openflow}
        return {name: await scraped(kind, tmp_path_factory.mktemp(name)) for name, kind in made.items()}

    return run(main, 60)


@pytest.fixture(scope="module")
def everywhere(exposed):
    """By name of a sample, the values of each label, on all kinds of networks."""
    found = defaultdict(lambda: defaultdict(set))
    for each in exposed.values():
        for name, labels in each.labels.items():
            for label, values in labels.items():
                found[name][label] |= values
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_network_can_be_scraped(exposed, kind):
    answer, labels = exposed[kind]
    assert answer.status_code == 200
    there = {family.name for family in text_string_to_metric_families(answer.text)}
    assert there > {"pleroma_health", "pleroma_switch_ready", "pleroma_disk_free_bytes", "process_cpu_seconds"}
    assert ("pleroma_link_bytes_total" in labels) == (kind != "broker")
    assert "pleroma_packets_total" in labels or kind == "openflow"


def test_a_link_is_counted_in_both_directions_by_what_its_ends_have_sent(exposed):
    for kind, packets in (("embedded", 0.0), ("openflow", 7.0)):
        found = [
            (sample.labels["source"], sample.value)
            for family in text_string_to_metric_families(exposed[kind].answer.text)
            for sample in family.samples
            if sample.name == "pleroma_link_packets_total" and sample.labels["link"] == "R1 2 - R2 2"
        ]
        assert found == [("R1", packets), ("R2", packets)]


@pytest.mark.parametrize("kind", KINDS)
def test_names_have_a_prefix_and_their_unit_and_no_label_mixes_units(exposed, kind):
    text = exposed[kind].answer.text
    for family in text_string_to_metric_families(text):
        assert re.fullmatch(r"(pleroma|process)(_[a-z]+)+", family.name)
        assert family.documentation
        for sample in family.samples:
            assert (family.type == "counter") == sample.name.endswith("_total"), sample.name
            assert not any("bytes" in value or "seconds" in value for value in sample.labels.values()), sample
    if PROMTOOL is not None:
        checked = subprocess.run(
            [PROMTOOL, "check", "metrics"], input=text, text=True, capture_output=True, check=False
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr


class Expression:
    """A PromQL expression, as far as its names go: (metric, {label: value it must equal, or None}), and groupings."""

    KEYWORDS = frozenset({"or", "and", "unless", "on", "ignoring", "bool"})

    def __init__(self, text):
        grouping = r"\bby\s*\(([^)]*)\)"
        self.groups = [{label.strip() for label in each.split(",")} for each in re.findall(grouping, text)]
        bare = re.sub(r"\[[^\]]*\]", " ", re.sub(grouping, " ", text))
        self.selectors = [
            (name, {label: value if sign == "=" else None for label, sign, value in matchers(inside)})
            for name, inside in re.findall(r"\b([a-zA-Z_]\w*)\b(?!\s*\()\s*(?:\{([^}]*)\})?", bare)
            if name not in self.KEYWORDS
        ]

    def check(self, exposed, shown=frozenset()):
        """Everything it names is exposed, and what is `shown` of its result are labels that the result has."""
        assert self.selectors
        for name, wanted in self.selectors:
            if name == "up":
                continue
            assert name in exposed, f"nothing exposes {name}"
            for label, value in wanted.items():
                assert label in exposed[name] or label in ADDED_BY_PROMETHEUS, f"{name} has no label {label}"
                assert value is None or label in ADDED_BY_PROMETHEUS or value in exposed[name][label], (name, value)
        known = [{*exposed[name], *ADDED_BY_PROMETHEUS} for name, _ in self.selectors if name in exposed]
        for group in self.groups:
            assert any(group <= labels for labels in known), f"nothing has the labels {group}"
        has = set.union(*self.groups) if self.groups else set.union(*known, ADDED_BY_PROMETHEUS)
        assert shown <= has, f"the result has no label {shown - has}"


def matchers(text):
    return re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', text)


def test_expressions_are_read_as_prometheus_reads_them():
    read = Expression('sum by (le, a) (rate(x_total{a="1", b=~"c|d"}[5m])) / 1e9 > 0.5 or vector(0) or y')
    assert read.selectors == [("x_total", {"a": "1", "b": None}), ("y", {})]
    assert read.groups == [{"le", "a"}]
    for wrong in ("z", 'y{b="1"}', 'y{a="2"}', "sum by (b) (y)"):
        with pytest.raises(AssertionError):
            Expression(wrong).check({"y": {"": {""}, "a": {"1"}}})


def test_the_docs_name_only_what_is_exposed(everywhere):
    families = {name.removesuffix("_count") for name in everywhere}
    for page in DOCS.glob("*.md"):
        for name in re.findall(r"\bpleroma_[a-z_]*[a-z]\b", page.read_text(encoding="utf-8")):
            assert name in families, f"{page.name}: nothing exposes {name}"


def test_alert_rules_name_only_what_is_exposed(everywhere):
    groups = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    names = [rule["alert"] for rule in rules]
    assert len(set(names)) == len(names) > 10
    for rule in rules:
        shown = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
        Expression(rule["expr"]).check(everywhere, shown)
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
    if PROMTOOL is not None:
        subprocess.run([PROMTOOL, "check", "rules", DEPLOY / "prometheus" / "alerts.yml"], check=True)


def test_the_dashboard_names_only_what_is_exposed(everywhere):
    dashboard = json.loads((DEPLOY / "grafana" / "pleroma.json").read_text(encoding="utf-8"))
    assert "label_values(pleroma_build_info, instance)" in [each["query"] for each in dashboard["templating"]["list"]]
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for panel in panels:
        for target in panel["targets"]:
            shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            Expression(target["expr"]).check(everywhere, shown)
