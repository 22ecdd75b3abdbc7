"""A program that reads a lake with Spark in every way there is and tunes on it, and prints what it found as JSON.

spark_on_a_store.py LAKE
"""

import json
import sys
from itertools import chain

from pleroma.content import Filter
from pleroma.pipeline import read, register
from pleroma.pipeline.lake.lake import Lake
from pleroma.pipeline.passes import summary_pass
from pleroma.pipeline.spark_session import session
from support.strategies import STOCK


def main(url: str) -> None:
    subscriptions = [Filter.parse(STOCK, f"price > {n}") for n in range(20)]
    summary_pass.MAX_BROADCAST_BOXES = 10  # more are read from a file
    seen: list[list[int]] = []
    with session("local[1]") as spark:
        register(spark)
        options = {"path": url, "schema": "stock"}
        source = spark.read.format("pleroma").options(**options).load()
        stream = spark.readStream.format("pleroma").options(**options).load()
        query = (
            stream.writeStream.foreachBatch(lambda rows, _: seen.append([row["volume"] for row in rows.collect()]))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        found = {
            "format": sorted(row["volume"] for row in source.collect()),
            "filtered": sorted(row["volume"] for row in source.where("volume > 5").collect()),
            "read": sorted(row["volume"] for row in read(spark, url, "stock").collect()),
            "stream": sorted(chain.from_iterable(seen)),
            "tuned": summary_pass.gather_landed(spark, Lake.at(url), "stock", subscriptions).events,
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
