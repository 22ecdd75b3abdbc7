"""The search for nobody goes all the way: whatever it left out would be compiled during the first real one."""

from pleroma.replanning.planning_worker import _answer
from pleroma.replanning.trial_search import trial_search
from pleroma.service.replanning.replanning_settings import ReplanningSettings


def test_it_finds_a_plan():
    found = _answer({}, trial_search(ReplanningSettings().looking))
    assert (found.decision.outcome, found.proposal.technique) == ("handing", "learned")
    assert found.window.deliveries > 0
