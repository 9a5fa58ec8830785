"""The local model: every person perturbs their own row, nobody holds the rows, and the tables still come out.

``design`` makes a public protocol, ``protocol.report`` runs on the person's own device, ``Collector`` counts reports
and gives the same ``Release`` as the central model.
"""
