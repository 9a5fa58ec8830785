"""The explorer: pages and an API over one release. It reads a release and nothing else.

``view``      what a page shows, as the query of its URL
``shown``     a table laid out, with signs of reliability;  ``drawing``  its pictures
``pages``     the pages;  ``api``  the API;  ``texts``  every text of the interface
``solving``   two solves at once, and a cache;  ``served``  a release and its answers
``guard``     hosts, headers and errors;  ``app``  all of it together

Needs ``crosstally[web]``.
"""
