"""`pleroma audit` as far as it goes without Spark: what it shows and draws, and what it refuses."""

import json

import pytest

from pleroma.cli.commands.audit import _draw, _show, audit
from pleroma.cli.plot_files import PlotFormats
from pleroma.errors import LakeError, SetupError, UnknownName
from pleroma.pipeline import spark_needs
from pleroma.pipeline.audit.audit_pass import audit_here
from pleroma.pipeline.audit.counterfactual import Counterfactual
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.lake.period import Period
from support.audited_lake import land
from support.watch_cases import BEGIN, LINE, placed_lake
from support.watch_cases import land as land_window


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return land(tmp_path_factory.mktemp("lake"))[0]


@pytest.fixture(scope="module")
def found(lake):
    return audit_here(lake, "quotes", Period.day("2026-11-15"))


def test_the_worst_are_named_and_sums_are_shown(found, capsys):
    _show(found, 3)
    shown = capsys.readouterr().out
    assert "900 events, standing for 1,350" in shown
    assert "the 3 worst of 40" in shown
    assert found.subscriptions[0].id in shown
    assert found.rules[0].dz in shown
    assert all(each.attribute in shown for each in found.causes)
    assert "the best plan" not in shown


def test_what_would_have_been_saved_is_said(found, capsys):
    from dataclasses import replace

    figures = {"plan": 2, "plan_rules": 40, "plan_waste": 0.5, "plan_wasted": 100, "events": 450, "waste_at": "hosts"}
    counterfactual = Counterfactual(
        technique="learned",
        bits={"ticker": 3},
        members=8,
        rules=30,
        rules_by_switch={},
        waste=0.2,
        wasted=25,
        **figures,
    )
    _show(replace(found, counterfactual=counterfactual), 1)
    shown = capsys.readouterr().out
    assert "it would have saved 75% of what was wasted" in shown
    assert "rules, fullest" in shown
    _show(replace(found, counterfactual=replace(counterfactual, wasted=120)), 1)
    assert "nothing was found that wastes less" in capsys.readouterr().out


def test_in_this_process_an_audit_makes_the_best_plan_for_the_network_of_the_lake(tmp_path, capsys):
    lake = placed_lake(tmp_path)
    for number in range(2):
        land_window(lake, number, shifted=True)
    day = {"day": f"{BEGIN:%Y-%m-%d}", "local": True, "json": True}
    audit(lake.url, **day)
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    saving = found["saving"]
    assert (saving["waste_at"], saving["unknown"], saving["plan"]) == ("hosts", [], 1)
    assert list(saving["rules_by_switch"]) == list(LINE.switches)
    assert saving["rules_by_switch"]["R2"] <= 30
    assert saving["saved"] > 0.5
    assert found["at_hosts"]["waste_at_hosts"] == pytest.approx(saving["plan_waste"], abs=0.05)
    audit(lake.url, **day, star=True)
    on_star = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (on_star["saving"]["waste_at"], on_star["saving"]["rules_by_switch"]) == ("subscriptions", {})
    assert on_star["waste_at_subscriptions"] == pytest.approx(on_star["saving"]["plan_waste"], abs=0.05)


def test_three_pictures_are_drawn(found, tmp_path):
    drawn = _draw(found, PlotFormats(csv=True).in_folder(tmp_path / "new" / "folder"), 5)
    assert [path.name for path in drawn if path.suffix == ".png"] == ["wasters.png", "attributes.png", "hours.png"]
    assert all(path.stat().st_size > 10_000 for path in drawn if path.suffix == ".png")
    first, *rows = (tmp_path / "new" / "folder" / "attributes.csv").read_text().splitlines()
    assert first == "attribute,removable,needed"
    assert [row.split(",")[0] for row in rows] == [each.attribute for each in found.causes]


def test_a_day_without_events_can_be_shown_and_drawn(lake, tmp_path, capsys):
    quiet = audit_here(lake, "quotes", Period.day("2026-12-24"))
    _show(quiet, 5)
    assert "0 events" in capsys.readouterr().out
    assert all(path.exists() for path in _draw(quiet, PlotFormats().in_folder(tmp_path), 5))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"plot": "a file"}, "is not a folder"),
        ({"format": "gif", "plot": "."}, "unknown format 'gif'"),
        ({"csv": True}, "give --plot as well"),
        (
            {"day": "2026-11-14"},
            "nobody was subscribed to quotes in this time",
        ),
        ({"bits": 0}, "too few"),
        ({"day": "2026-11-15", "start": "2026-11-15T09:00"}, "not both"),
        ({"schema": "quoted"}, "did you mean 'quotes'"),
        ({"start": "noon"}, "no moment"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(lake, tmp_path, monkeypatch, options, reason):
    monkeypatch.setattr(spark_needs, "check", lambda: None)
    (tmp_path / "a file").write_text("")
    given = options | ({"plot": tmp_path / options["plot"]} if "plot" in options else {})
    with pytest.raises((LakeError, SetupError, UnknownName), match=reason) as caught:
        audit(lake.url, **given)
    assert "\n" not in str(caught.value)


def test_a_lake_of_several_schemas_needs_a_name(tmp_path, monkeypatch):
    monkeypatch.setattr(spark_needs, "check", lambda: None)
    with pytest.raises(LakeError, match="which schema"):
        audit(Lake.at(str(tmp_path)).url)


def test_without_spark_one_line_says_what_to_do(lake, monkeypatch):
    monkeypatch.setattr(spark_needs, "missing", lambda: "Java is missing; please run scripts/setup experiments spark")
    with pytest.raises(SetupError, match="scripts/setup experiments spark"):
        audit(lake.url)
