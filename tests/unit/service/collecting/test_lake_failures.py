"""A full disk or a lost store: one line in health, requests go on, and what waited is landed when it is back."""

import os
import shutil
import subprocess
from contextlib import contextmanager, suppress

import pytest
from structlog.testing import capture_logs

from pleroma.errors import LakeError
from pleroma.pipeline.lake.lake import Lake
from pleroma.service.collecting import lake_writer
from pleroma.service.collecting.lake_writer import LakeWriter
from support.service.with_lake import batch, collecting, landed, sample_body
from support.waiting import run, until


@contextmanager
def tiny_disk(folder, size="1m"):
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=False)
    if mounted.returncode:
        pytest.skip("THE FULL DISK IS NOT TESTED: nothing can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(file):
    with file.open("wb", buffering=0) as opened, suppress(OSError):
        while True:
            opened.write(bytes(4096))
    assert os.statvfs(file).f_bavail == 0


async def collecting_of(api):
    """What health says of collecting."""
    status, reasons = await api.health()
    assert (status == "degraded") == ("lake" in reasons)
    return reasons.get("lake")


async def says(api, line):
    assert await collecting_of(api) == line


def test_a_full_disk_is_one_line_in_health_until_there_is_room_again(tmp_path):
    async def main():
        with tiny_disk(tmp_path / "disk") as disk:
            async with collecting(tmp_path, running=True, lake=disk / "lake") as (api, collection, lake):
                await api.post("/v1/samples", sample_body(batch=batch(0)), 202)
                await until(lambda: collection.waiting.count == 0, 20)
                assert await collecting_of(api) is None
                fill(disk / "filling")
                await api.post("/v1/samples", sample_body(batch=batch(1)), 202)
                await until(lambda: collection.failure is not None, 20)
                await says(api, "the table events/stock: cannot be written: No space left on device")
                one = await api.subscribe("price < 5", "h1")  # requests go on
                assert await api.post("/v1/samples", sample_body(batch=batch(2)), 202) == {"taken": 2}
                (disk / "filling").unlink()
                await until(lambda: collection.failure is None and collection.waiting.count == 0, 20)
                assert await collecting_of(api) is None
                await until(lambda: [row.id for row in lake.subscriptions("stock")] == [one["id"]], 20)
                assert len(landed(lake)) == 6

    run(main)


@pytest.mark.parametrize("instead", ["nothing", "a file", "an empty folder"])
def test_a_folder_that_is_gone_is_not_begun_anew_and_is_used_again_when_it_is_back(tmp_path, instead):
    async def main():
        folder, away = tmp_path / "lake", tmp_path / "away"
        async with collecting(tmp_path, running=True) as (api, collection, lake):
            one = await api.subscribe("price < 5", "h1")
            await api.post("/v1/samples", sample_body(), 202)
            await until(lambda: collection.waiting.count == 0 and lake.subscriptions("stock"), 20)
            folder.rename(away)
            if instead == "a file":
                folder.touch()
            elif instead == "an empty folder":
                folder.mkdir()
            await api.post("/v1/samples", sample_body(), 202)
            await api.post("/v1/reports", {"subscriptions": {one["id"]: {"delivered": 1}}}, 204)
            await until(lambda: collection.writer.failures >= 2, 20)
            assert "the table" in await collecting_of(api)
            if instead == "an empty folder":
                assert list(folder.iterdir()) == []
            if folder.is_dir():
                folder.rmdir()
            folder.unlink(missing_ok=True)
            away.rename(folder)
            await until(lambda: collection.failure is None and collection.waiting.count == 0, 20)
            await until(lambda: collection.waiting.reports.rows == 0, 20)
            assert await collecting_of(api) is None
        assert (len(landed(Lake.at(str(folder)))), len(landed(lake, "reports"))) == (4, 1)

    run(main)


def test_a_service_stops_also_when_its_lake_is_lost(tmp_path):
    async def main():
        async with collecting(tmp_path, running=True, land_seconds=1000.0) as (api, collection, _):
            await api.post("/v1/samples", sample_body(), 202)
            shutil.rmtree(tmp_path / "lake")
        assert collection.waiting.count == 2

    run(main)


def test_a_rate_is_not_chosen_while_the_lake_cannot_keep_it(tmp_path):
    async def main():
        async with collecting(tmp_path) as (api, collection, _):
            (tmp_path / "lake").rename(tmp_path / "away")
            await api.error("PUT", "/v1/schemas/stock/sampling", 503, "lake_error", json={"rate": 0.1})
            assert collection.rate("stock") == 0.5

    run(main)


def test_the_line_stays_while_any_table_fails():
    def work(error):
        if error:
            raise error

    async def main():
        writer = LakeWriter("lake")
        assert await writer.try_write("a", work, None)
        assert await writer.try_write("b", work, ValueError("no")) is None
        assert await writer.try_write("a", work, None)
        assert writer.failure == "b: ValueError('no')"
        assert await writer.try_write("b", work, None)
        assert (writer.failure, writer.failures) == (None, 1)
        writer.close()

    run(main)


def test_the_first_of_several_failures_is_logged_and_the_end_of_all():
    def work(is_good):
        if not is_good:
            raise LakeError("no room", field="disk")

    async def main():
        writer = LakeWriter("/lake")
        for what, is_good in (("a", False), ("a", False), ("b", False), ("a", True), ("b", True), ("b", True)):
            await writer.try_write(what, work, is_good)
        writer.close()

    with capture_logs() as said:
        run(main)
    assert [(each["event"], each["lake"], each.get("reason")) for each in said] == [
        ("the lake cannot be written", "/lake", "disk: no room"),
        ("the lake can be written again", "/lake", None),
    ]


def test_a_panic_of_the_library_is_a_failure_as_any_other():
    class Panic(BaseException):
        pass

    def panic():
        raise Panic("out of range")

    async def main():
        writer = LakeWriter("lake")
        assert await writer.try_write("events", panic) is None
        assert "Panic('out of range')" in writer.failure
        assert await writer.try_write("events", list)
        assert writer.failure is None
        writer.close()

    run(main)


def test_a_lake_that_does_not_answer_is_a_failure_too(monkeypatch):
    monkeypatch.setattr(lake_writer, "SILENT_SECONDS", -1.0)

    async def main():
        writer = LakeWriter("lake")
        assert await writer.write(lambda: writer.failure) == "the lake has not answered for 0 s"
        assert writer.failure is None
        writer.close()

    run(main)
