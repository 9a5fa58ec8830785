"""A release: its measurements, the tables estimated from them, and its privacy guarantee.

``publication``  makes a release from measurements
``release``      the release and its tables
``statement``    the privacy guarantee, as a value and in words
``file``         the release file: format, reader and writer
"""

from crosstally.releases.file.reader import open_release
from crosstally.releases.publication import publish
from crosstally.releases.release import Release
from crosstally.releases.statement import Statement

__all__ = ["Release", "Statement", "open_release", "publish"]
