"""Results that are kept: what was found once is not looked for again, and nothing else is taken for it."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from pleroma.experiments.result_cache import ResultCache
from pleroma.experiments.scenarios import one_by_one


@dataclass(frozen=True)
class Counting:
    log: Path
    bad: int = -1

    def square(self, number: int) -> int:
        if number == self.bad:
            raise RuntimeError("interrupted")
        with self.log.open("a") as log:
            log.write(f"{number} ")
        return number * number


def test_a_sweep_goes_on_where_it_was_interrupted(tmp_path):
    perform, task = ResultCache(tmp_path / "kept", one_by_one), Counting(tmp_path / "log")
    assert perform(task.square, [1, 2], lambda _: None) == [1, 4]
    done: list[float] = []
    assert perform(task.square, [1, 2, 3], done.append) == [1, 4, 9]
    assert sum(done) == pytest.approx(1)
    assert task.log.read_text().split() == ["1", "2", "3"]


def test_another_task_has_results_of_its_own(tmp_path):
    perform = ResultCache(tmp_path / "kept", one_by_one)
    perform(Counting(tmp_path / "log").square, [3], lambda _: None)
    with pytest.raises(RuntimeError):
        perform(Counting(tmp_path / "log", bad=3).square, [3], lambda _: None)


def test_what_was_half_written_is_found_again(tmp_path):
    perform, task = ResultCache(tmp_path / "kept", one_by_one), Counting(tmp_path / "log")
    perform(task.square, [5], lambda _: None)
    for path in (tmp_path / "kept").iterdir():
        path.write_bytes(path.read_bytes()[:3])
    assert perform(task.square, [5], lambda _: None) == [25]


def test_equal_scenarios_are_the_same_however_they_were_made(tmp_path):
    perform, log = ResultCache(tmp_path / "kept", one_by_one), tmp_path / "log"
    name = "".join(["wid", "ths"])
    perform(partial(_wrote, log), [("widths", "widths")], lambda _: None)
    perform(partial(_wrote, log), [("widths", name)], lambda _: None)
    assert log.read_text() == "widths widths\n"


def _wrote(log: Path, words: tuple[str, str]) -> None:
    with log.open("a") as file:
        print(*words, file=file)


def test_other_code_finds_its_own_results(tmp_path, monkeypatch):
    perform, task = ResultCache(tmp_path / "kept", one_by_one), Counting(tmp_path / "log")
    perform(task.square, [6], lambda _: None)
    monkeypatch.setattr("pleroma.experiments.result_cache._code", lambda: "another")
    perform(task.square, [6], lambda _: None)
    assert task.log.read_text().split() == ["6", "6"]
