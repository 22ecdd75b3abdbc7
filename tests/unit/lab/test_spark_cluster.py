"""What of a Spark cluster needs no Spark."""

import os
import subprocess
import time

import pytest

from pleroma.errors import SetupError
from pleroma.lab import spark_cluster
from pleroma.lab.spark_cluster import SparkCluster, watched

MASTER_LOG = """
26/11/15 15:58:55 INFO Master: Starting Spark master at spark://127.0.0.1:35279
26/11/15 15:58:55 INFO Master: Running Spark version 4.3.0
26/11/15 15:58:56 INFO MasterWebUI: Bound MasterWebUI to 127.0.0.1, and started at http://127.0.0.1:45803
"""


def alive(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_daemon_and_its_folder_go_when_the_process_that_made_it_is_gone(tmp_path):
    folder = tmp_path / "cluster"
    folder.mkdir()
    # it ends of itself as little as a daemon does, and has started another process
    command = watched(folder, ["/bin/sh", "-c", "trap '' TERM; sleep 600 & wait"])
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as daemon:
        time.sleep(0.1)
        assert daemon.poll() is None
        assert folder.exists()
        daemon.stdin.close()  # as when the holder was killed
        daemon.wait(timeout=60)
        limit = time.monotonic() + 60
        while alive(daemon.pid) and time.monotonic() < limit:
            time.sleep(0.02)
        assert not alive(daemon.pid)
    assert not folder.exists()


def test_a_master_has_addresses_when_its_log_says_both():
    assert spark_cluster._addresses(MASTER_LOG) == ("spark://127.0.0.1:35279", "http://127.0.0.1:45803")
    assert spark_cluster._addresses(MASTER_LOG[:150]) is None


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"cores": -1}, {"memory": "much"}, {"memory": "0g"}])
def test_impossible_clusters_are_refused_by_name(monkeypatch, wrong):
    monkeypatch.setattr(spark_cluster.spark_needs, "check", lambda: None)
    with pytest.raises(SetupError) as refused:
        SparkCluster.up(**wrong)
    assert refused.value.field in wrong


def test_a_daemon_that_does_not_come_up_says_why_in_one_line_and_leaves_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(spark_cluster.spark_needs, "check", lambda: None)
    monkeypatch.setattr(spark_cluster.tempfile, "mkdtemp", lambda **_: str(tmp_path / "cluster"))
    (tmp_path / "cluster").mkdir()
    monkeypatch.setattr(spark_cluster, "_home", lambda: tmp_path)
    monkeypatch.setattr(
        spark_cluster,
        "watched",
        lambda *_: ["/bin/sh", "-c", "echo 26/11/15 ERROR Master: no such host; echo more; exit 1"],
    )
    with pytest.raises(SetupError) as refused:
        SparkCluster.up()
    assert str(refused.value) == "spark: a process of the cluster ended: 26/11/15 ERROR Master: no such host"
    assert not (tmp_path / "cluster").exists()
