"""`pleroma pipeline tune` as users run it: a process of its own, by `spark-submit`."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

import pleroma.cli
from pleroma.index import IndexPlan
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.landed import RegistrationRow
from pleroma.selection import traffic_summary
from pleroma.selection.advice import AdviceQuestion, advise_from
from pleroma.workloads import EXPRESSIVE, generate

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def test_a_lake_is_tuned_on_by_spark_submit(tmp_path):
    data = generate(replace(EXPRESSIVE, events=1_500, subscriptions=25, dimensions=3))
    lake = Lake.at(str(tmp_path / "lake"))
    lake.land_schema(data.schema)
    lake.land_subscriptions(
        data.schema.name, NOON, [RegistrationRow(f"s{n}", "anna", "h1", f) for n, f in enumerate(data.subscriptions)]
    )
    moments = [NOON + timedelta(seconds=n) for n in range(len(data.events))]
    lake.land_events(data.events, moments, 1, 1.0)
    submit = Path(sys.executable).with_name("spark-submit")
    script = Path(pleroma.cli.__file__).with_name("__main__.py")
    plan = tmp_path / "plan.json"
    how = ("--master", "local[1]", "--driver-java-options", "-XX:TieredStopAtLevel=1")
    what = ("--bits", "9", "--rules", "60", "--every-event", "--plan", plan, "--json")
    done = subprocess.run(
        [submit, *how, script, "pipeline", "tune", lake.url, *what],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["events"], told["refused"], told["subscriptions"]) == (1_500, 0, 25)
    assert "learned from all events" in [each["technique"] for each in told["techniques"]]
    ids = np.sort(lake.event_table(data.schema.name).rows(names=["id"])["id"].to_numpy())  # as they were landed
    here = advise_from(
        traffic_summary.summarise_traffic(data.events, data.subscriptions, numbers=ids),
        AdviceQuestion(data.subscriptions, 9, max_members=None, rules=60),
    )
    alike = [each for each in told["techniques"] if each["technique"] != "learned from all events"]
    assert [each["technique"] for each in alike] == [each.technique for each in here]
    assert [each["waste_at_subscriptions"] for each in alike] == [each.outcome.waste.rate for each in here]
    assert told["best"] in (here[0].technique, "learned from all events")
    if told["best"] == here[0].technique:
        assert plan.read_text().strip() == IndexPlan(1, here[0].index).dumps()
