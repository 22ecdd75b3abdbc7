"""Where a streaming job notes how far it is: in a lake that is a folder, beside any other, and never in another's."""

from pathlib import Path

import pytest

from pleroma.errors import LakeError
from pleroma.pipeline.watch.checkpoint import CHECKPOINT_LABEL, JobCheckpoint, usual_checkpoint

MINE = {"lake": "/lake", "schema": "stock", "window": 60.0}


def test_the_checkpoint_of_a_folder_is_in_it_and_that_of_an_object_store_on_this_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert usual_checkpoint("/lake", "stock/eu") == "/lake/checkpoints/stock~2Feu"
    here = [usual_checkpoint(url, name) for url in ("s3://one", "s3://other") for name in ("stock", "news")]
    assert len(set(here)) == 4
    assert all(Path(each).parent == tmp_path / "state" / "pleroma" / "checkpoints" for each in here)
    assert usual_checkpoint("s3://one", "stock") == here[0]
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Path(usual_checkpoint("s3://one", "stock")).is_relative_to(tmp_path / ".local" / "state" / "pleroma")


def test_a_checkpoint_is_of_one_job_and_taken_again_by_it(tmp_path):
    place = str(tmp_path / "a" / "b")
    for _ in range(2):
        JobCheckpoint(place).claim(MINE)
    with pytest.raises(LakeError, match="choose another"):
        JobCheckpoint(f"file://{place}").claim(MINE | {"window": 5.0})
    Path(place, CHECKPOINT_LABEL).write_text("{")
    with pytest.raises(LakeError, match="choose another"):
        JobCheckpoint(place).claim(MINE)


def test_spark_is_told_the_folder_that_is_labelled(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for given, name in (("~/a b%20", "a b%20"), ("here", "here")):
        checkpoint = JobCheckpoint(given)
        checkpoint.claim(MINE)
        assert checkpoint.url == str(tmp_path / name)
        assert (tmp_path / name / CHECKPOINT_LABEL).is_file()


def test_the_checkpoint_of_another_is_named_without_its_credentials(tmp_path):
    place = f"file://{tmp_path}?token=verysecret"
    JobCheckpoint(place).claim(MINE)
    with pytest.raises(LakeError, match="choose another") as caught:
        JobCheckpoint(place).claim(MINE | {"window": 5.0})
    assert "verysecret" not in caught.value.value


def test_what_a_query_left_that_never_began_is_removed_and_what_began_stays(tmp_path):
    unbegun, begun = tmp_path / "unbegun", tmp_path / "begun"
    for folder, name in ((unbegun, ".0.4cf3.tmp"), (begun, "0")):
        for left in (folder / "offsets" / name, folder / "state" / "0" / "0" / "1.delta"):
            left.parent.mkdir(parents=True)
            left.write_text("half")
        JobCheckpoint(str(folder)).clear_unbegun()
    assert not [path for path in unbegun.rglob("*") if path.is_file()]
    assert len([path for path in begun.rglob("*") if path.is_file()]) == 2
    JobCheckpoint(str(tmp_path / "nowhere")).clear_unbegun()


@pytest.mark.parametrize("place", ["nowhere://user:secret@host/folder", "/dev/null/checkpoint"])
def test_a_place_that_cannot_be_written_is_named_in_one_line(place):
    with pytest.raises(LakeError, match="cannot be used") as caught:
        JobCheckpoint(place).claim(MINE)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
