"""Figures whose scenarios may be gone through elsewhere."""

import pickle

import pytest

from pleroma.cli.commands.experiment import experiment
from pleroma.errors import SetupError
from pleroma.experiments.figures.catalogue import EXPERIMENTS, SWEEPS
from pleroma.experiments.scenarios import one_by_one


class Sent(Exception):
    pass


def no_one(_):
    raise AssertionError("nothing was done")


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("name", SWEEPS)
def test_the_task_and_the_scenarios_of_every_sweep_can_travel(name, quick):
    def sending(task, scenarios, _):
        work = pickle.loads(pickle.dumps([(task, scenario) for scenario in scenarios]))  # noqa: S301
        assert [scenario for _, scenario in work] == list(scenarios)
        raise Sent(len(work))

    with pytest.raises(Sent) as sent:
        SWEEPS[name].run(quick, no_one, sending)
    assert sent.value.args[0] >= (2 if quick else 4)


def test_what_measures_this_machine_is_no_sweep():
    assert {"fig8a", "fig13a", "fig13b", "fig14c", "thesis-times"} <= EXPERIMENTS.keys() - SWEEPS.keys()


def test_results_come_in_order_and_progress_adds_up():
    steps = []
    assert one_by_one(abs, [-3, 2, -1], steps.append) == [3, 2, 1]
    assert sum(steps) == pytest.approx(1)


@pytest.mark.parametrize("option", ["spark", "keep"])
def test_the_command_says_which_figures_cannot_be_split(option, tmp_path):
    with pytest.raises(SetupError, match="fig13a cannot be split") as refused:
        experiment("fig13a", quick=True, **{option: "local[1]" if option == "spark" else tmp_path})
    assert refused.value.field == f"--{option}"


def test_the_command_does_not_do_again_what_is_kept(tmp_path, capsys):
    def written():
        return {path.name: path.stat().st_mtime_ns for path in (tmp_path / "kept").iterdir()}

    experiment("fig8d", quick=True, keep=tmp_path / "kept", json=True)
    found, before = capsys.readouterr().out, written()
    experiment("fig8d", quick=True, keep=tmp_path / "kept", json=True)
    assert (capsys.readouterr().out, written()) == (found, before)
    assert len(before) > 1
