"""A Spark session of crosstally's own, by a configuration that the tests write; nothing outlives it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from components import program
from crosstally.sources.spark import in_spark, open_session

# Two tasks at a time, each tried twice; a virtual machine that starts fast rather than running fast.
_DEFAULTS = """
spark.master                   local[2,2]
spark.driver.host              127.0.0.1
spark.driver.bindAddress       127.0.0.1
spark.driver.memory            512m
spark.driver.extraJavaOptions  -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.sql.shuffle.partitions   3
spark.sql.session.timeZone     America/New_York
spark.sql.warehouse.dir        {folder}/warehouse
spark.local.dir                {folder}/scratch
"""


@contextmanager
def spark_session() -> Iterator[Any]:
    """A session that runs, as ``crosstally release --spark`` would start it on a machine with this configuration."""
    program("java", "openjdk-17-jre-headless")
    folder = Path(tempfile.mkdtemp(prefix="spark-"))
    (folder / "spark-defaults.conf").write_text(_DEFAULTS.format(folder=folder), encoding="utf-8")
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SPARK_CONF_DIR", str(folder))
            patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
            session = in_spark(open_session)
        try:
            yield session
        finally:
            session.stop()
            session.sparkContext._gateway.shutdown()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
