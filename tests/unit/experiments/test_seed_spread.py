"""Several seeds as one line with error bars, and what papers state beside it."""

import numpy as np
import pytest

from pleroma.experiments.figures.catalogue import EXPERIMENTS
from pleroma.experiments.figures.dimension_sweep import DimensionSweep
from pleroma.experiments.scenarios import one_by_one
from pleroma.experiments.seed_spread import SeededLine


def test_a_line_is_the_mean_of_its_seeds_with_their_standard_deviation():
    found = SeededLine.of([[0.1, 0.5], [0.3, 0.5], [0.2, 0.8]])
    assert found.mean == pytest.approx([0.2, 0.6])
    assert found.spread_at([8, 7]) == pytest.approx({8: 0.1, 7: np.std([0.5, 0.5, 0.8], ddof=1)})


def test_one_seed_has_no_spread():
    assert SeededLine.of([[0.1, 0.5]]) == ([0.1, 0.5], [])
    assert SeededLine.of([[0.1, 0.5]]).spread_at([2, 1]) == {}


def numbered(sweep):
    """Performs no scenario: the waste of every technique is a number that depends on the seed."""

    def perform(_task, scenarios, _advance):
        return [
            {technique: [0.1 * (scenario.seed + 1)] * scenario.dimensions for technique in sweep.techniques}
            for scenario in scenarios
        ]

    return perform


@pytest.mark.parametrize("name", ["fig14a", "thesis-5.29", "thesis-5.30"])
def test_what_a_paper_states_of_its_curve_stands_beside_ours_with_error_bars(name):
    sweep = EXPERIMENTS[name]
    assert isinstance(sweep, DimensionSweep)
    report = sweep.run(True, lambda _: None, numbered(sweep))
    assert {label: set(line) for label, line in report.spread.items()} == {
        label: set(line) for label, line in report.lines.items()
    }
    spreads = [value for line in report.spread.values() for value in line.values()]
    assert spreads == pytest.approx([np.std([0.1, 0.2], ddof=1)] * len(spreads))
    assert [each.at for each in report.published if each.at is not None] == [8] * (len(report.published) // 2)
    assert {round(100 * each.value, 2) for each in report.published} == {
        "fig14a": {80, 3.33},
        "thesis-5.29": {88, 95, 23, 39},
        "thesis-5.30": {88, 95, 24, 42},
    }[name]


@pytest.mark.parametrize(("name", "seeds"), [("fig8d", 3), ("fig11a", 3), ("thesis-5.25", 5)])
def test_figures_of_several_seeds_have_a_spread_for_every_point_that_was_measured(name, seeds, monkeypatch):
    from pleroma.experiments.figures import count_choice, length_sweep, subscription_sweep

    monkeypatch.setattr(length_sweep, "_rates", lambda model, lengths: [0.1 * model.seed] * len(lengths))
    monkeypatch.setattr(subscription_sweep, "_rates", lambda model, kinds, **_: (0.1 * model.seed,) * len(kinds))
    line = [0.5] * 7
    monkeypatch.setattr(
        count_choice,
        "_choices",
        lambda source, **_: count_choice.Choices(
            {t: [0.1 * source.seed, *line] for t in ("sfs", "ges")}, {"sfs": 0, "ges": 0}
        ),
    )
    report = EXPERIMENTS[name].run(False, lambda _: None, one_by_one)
    expected = np.std(0.1 * np.arange(seeds), ddof=1)
    assert report.spread
    for label, spread in report.spread.items():
        assert set(spread) == set(report.lines[label])
        assert max(spread.values()) == pytest.approx(expected)
