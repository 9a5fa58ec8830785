"""The local model: every person perturbs their own row, and tables are estimated from the perturbed reports.

``design`` makes a public protocol, ``protocol.report`` runs on the person's own device, ``Collector`` counts reports
and gives the same ``Release`` as the central model.

>>> from crosstally.schema import Attribute, Schema
>>> schema = Schema([Attribute("plan", ["free", "paid"]), Attribute("country", ["FR", "DE", "PL"])])
>>> protocol = design(schema, epsilon=1, people=2_000, ways=2, minimum=100)
>>> len(protocol.report({"plan": "paid", "country": "FR"}, store={}, cap="1"))
37
"""

from crosstally.local.client import FileStore
from crosstally.local.collector import Collector, Reason
from crosstally.local.protocol import Protocol, Tokens, design

__all__ = ["Collector", "FileStore", "Protocol", "Reason", "Tokens", "design"]
