"""The web sites: the explorer of a release and the pages for stewards.

``common``    what every site needs: request checks, the server, templates and texts
``explorer``  pages and an API for a release, and the page to share; it reads only the release
``steward``   before a release: the schema review, which reads rows, and the plan page, which does not

Needs ``crosstally[web]``; the page to share ``crosstally[pages]``.
"""
