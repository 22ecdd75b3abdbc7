"""What a process does where several share a log."""

import pytest

from pleroma.errors import SetupError
from pleroma.service.roles.process_role import ALL_ROLES, ProcessRole, read_roles


def test_roles_are_read_and_those_of_the_leading_process_go_together():
    assert read_roles("gate") == {ProcessRole.GATE}
    assert read_roles("gate, configurator,owner,monitor") == ALL_ROLES
    assert read_roles("configurator,owner,monitor") == ALL_ROLES - {ProcessRole.GATE}
    for wrong in ("", "gates", "gate,owner", "configurator,owner"):
        with pytest.raises(SetupError) as caught:
            read_roles(wrong)
        assert caught.value.field == "roles"
