"""The session that all of these tests share."""

import pyarrow as pa
import pyarrow.compute as pc


def test_arrow_batches_go_through_python_and_back(spark):
    def doubled(batches):
        for batch in batches:
            yield pa.RecordBatch.from_arrays([pc.multiply(batch.column(0), 2)], names=["id"])

    found = spark.range(0, 1_000, numPartitions=2).mapInArrow(doubled, "id long").toPandas()
    assert sorted(found["id"]) == list(range(0, 2_000, 2))
