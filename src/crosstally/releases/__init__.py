"""A release: what was measured, what it says, and the promise under which it may be published.

``publish``    measurements to a release
``release``    the release and the tables that it answers
``statement``  the promise, and the promise in words
``file``       its file: the format, the reader, the writer
"""

from crosstally.releases.file.reader import open_release
from crosstally.releases.publication import publish
from crosstally.releases.release import Release
from crosstally.releases.statement import Statement

__all__ = ["Release", "Statement", "open_release", "publish"]
