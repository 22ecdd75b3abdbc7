"""With a clock of the test's own: what is looked at when is a matter of arithmetic."""

import asyncio

from pleroma.switches.openflow.heartbeat import Heartbeat


class Patient:
    def __init__(self) -> None:
        self.now = 100.0
        self.asked = 0
        self.reasons: list[str] = []
        self.heartbeat = Heartbeat(2.0, 6.0, self.ask, self.reasons.append, lambda: self.now)

    def ask(self) -> None:
        self.asked += 1

    def look(self, now: float, due: float | None = None) -> None:
        self.now = now
        self.heartbeat.stop()
        self.heartbeat.check(now if due is None else due)


def examined(work) -> Patient:
    async def examine() -> Patient:
        patient = Patient()
        patient.heartbeat.start()
        work(patient)
        patient.heartbeat.stop()
        return patient

    return asyncio.run(examine())


def test_a_switch_that_was_heard_is_left_alone():
    patient = examined(lambda patient: patient.look(101.9))
    assert (patient.asked, patient.reasons) == (0, [])


def test_silence_is_asked_about_and_then_given_up():
    patient = examined(lambda patient: [patient.look(now) for now in (102.0, 104.0, 105.9)])
    assert (patient.asked, patient.reasons) == (3, [])
    patient = examined(lambda patient: [patient.look(now) for now in (102.0, 104.0, 106.0)])
    assert (patient.asked, patient.reasons) == (2, ["no sign of life in 6 s"])


def test_a_sign_of_life_begins_the_count_anew():
    def work(patient):
        patient.look(105.0)
        patient.heartbeat.heard()
        patient.look(110.9)

    assert examined(work).reasons == []


def test_a_look_that_comes_late_asks_once_more_instead_of_giving_up():
    def work(patient):
        patient.look(120.0, due=102.0)
        assert patient.reasons == []
        patient.look(120.5, due=120.5)

    patient = examined(work)
    assert (patient.asked, len(patient.reasons)) == (1, 1)
