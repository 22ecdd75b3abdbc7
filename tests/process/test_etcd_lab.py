"""`pleroma lab etcd`: members of a real etcd that one command starts and others find, break and end."""

import json
import os
import subprocess
import sys

import pytest

from pleroma.control.log.etcd import EtcdLog
from pleroma.errors import SetupError, UnknownName
from pleroma.lab.etcd_cluster import EtcdCluster, missing_etcd
from support.programs import environment
from support.waiting import wait_until

pytestmark = pytest.mark.skipif(missing_etcd() is not None, reason=missing_etcd() or "")

OWNER = """
import sys
from pathlib import Path
from pleroma.lab.etcd_cluster import EtcdCluster
cluster = EtcdCluster.up(Path(sys.argv[1]), members=1)
print(cluster.members["m1"].process.process, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path):
    yield tmp_path / "etcd"
    if (tmp_path / "etcd").exists():
        EtcdCluster.find(tmp_path / "etcd").remove()


@pytest.fixture
def lab(folder):
    def run(*words, fails=False):
        command = [sys.executable, "-m", "pleroma.cli", "lab", "etcd", *words, "--folder", str(folder)]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode != 0) == fails, done.stderr
        return done.stderr if fails else done.stdout

    return run


def test_a_cluster_stands_is_broken_and_comes_back_with_what_it_had(lab, folder):
    told = json.loads(lab("up", "--json").splitlines()[-1])
    assert list(told["members"]) == ["m1", "m2", "m3"]
    assert told["leader"] in told["members"]
    with EtcdLog.open(told["log"]) as log:
        log.append([b"x"])
        lab("kill", told["leader"])
        assert log.append([b"y"]) == 2
    told = json.loads(lab("status", "--json").splitlines()[-1])
    assert sum(member["process"] is None for member in told["members"].values()) == 1
    lab("stop")
    assert not any(member.is_up for member in EtcdCluster.find(folder).members.values())
    assert told["log"] in lab("up")
    with EtcdLog.open(told["log"]) as log:
        assert [body for _, body in log.read()] == [b"x", b"y"]
    lab("stop", "--remove")
    assert not folder.exists()


def test_a_folder_without_a_cluster_gets_one_line(lab):
    assert "there is no etcd here; see pleroma lab etcd up" in lab("status", fails=True)


def test_a_member_that_nobody_has_is_refused(folder):
    with EtcdCluster.up(folder, members=1) as cluster:
        for use in (cluster.kill, cluster.start, cluster.pause):
            with pytest.raises(UnknownName, match="unknown member 'm7'"):
                use("m7")
        with pytest.raises(FileExistsError):
            EtcdCluster.up(folder, members=1)
        assert cluster.members["m1"].is_up
    with pytest.raises(SetupError, match="at least one member, not 0"):
        EtcdCluster.up(folder, members=0)


def test_an_owned_cluster_ends_with_the_process_that_was_killed(folder):
    command = [sys.executable, "-c", OWNER, str(folder)]
    with subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        member = int(owner.stdout.readline())
        os.kill(member, 0)
        owner.kill()
    wait_until(lambda: not EtcdCluster.find(folder).members["m1"].is_up, "the member lives on")
