import os

import pytest

from pleroma.errors import SetupError
from pleroma.lab import Lab, needs
from pleroma.routing import build


def test_who_is_not_root_is_told_in_one_line(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for refused in (lambda: Lab.up(build("line:2")), lambda: Lab.down("mine")):
        with pytest.raises(SetupError) as caught:
            refused()
        assert str(caught.value) == "lab: making network namespaces takes root"


@pytest.mark.parametrize(("program", "package"), [("ovs-vswitchd", "openvswitch-switch"), ("ip", "iproute2")])
def test_who_lacks_a_program_is_told_what_to_install(monkeypatch, program, package):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(needs.shutil, "which", lambda name, **_: None if name == program else f"/usr/bin/{name}")
    with pytest.raises(SetupError) as caught:
        Lab.up(build("line:2"))
    assert str(caught.value) == f"lab: {program} is missing; please install {package}"


@pytest.mark.parametrize("name", ["", "a-b", "a/b", "..", "x" * 25, "ü", "a b", "a\n"])
def test_a_lab_is_called_by_what_can_be_part_of_a_file_name(monkeypatch, name):
    monkeypatch.setattr(needs, "check", lambda: None)
    with pytest.raises(SetupError, match="1 to 24 letters"):
        Lab.down(name)
