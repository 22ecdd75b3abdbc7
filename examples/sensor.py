"""A thermometer that publishes when it changes, and an alarm that hears of frost only. No event loop: all calls block.

python examples/sensor.py --url http://127.0.0.1:8470 --token TOKEN --seconds 10
"""

import argparse
import random
import time

from pleroma.client.blocking import connect
from pleroma.content import Real, Schema, Text

CLIMATE = Schema("climate", (Text("room", False), Real("celsius", False, -40.0, 60.0)))


def main(url: str, token: str, room: str, seconds: float, count: int) -> None:
    with connect(url, token) as sensor, connect(url, token) as alarm:
        sensor.create_schema(CLIMATE)
        with (
            sensor.advertise("climate", f"room == '{room}'") as thermometer,
            alarm.subscribe("climate", "celsius < 0") as frost,
        ):
            end, celsius, alarms = time.monotonic() + seconds, 1.0, 0
            while thermometer.info.published < count and time.monotonic() < end:
                celsius = min(max(celsius + random.uniform(-2, 2), -40.0), 60.0)
                thermometer.publish({"room": room, "celsius": celsius})
                time.sleep(0.05)
                while frost.waiting:
                    alarms += 1
                    print(f"frost: {frost.receive().event}", flush=True)
            print(f"{thermometer.info.published} readings, {alarms} alarms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8470")
    parser.add_argument("--token", required=True)
    parser.add_argument("--room", default="greenhouse")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--count", type=int, default=10**9, help="stop after so many readings")
    arguments = parser.parse_args()
    main(**vars(arguments))
