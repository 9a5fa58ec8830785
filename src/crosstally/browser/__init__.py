"""What people see in a browser.

``common``    what every site needs: the guard before requests, the server, templates and texts
``explorer``  a release: its pages, its API and the page to share; it reads a release and nothing else
``steward``   before a release: the review of a schema, which sees rows, and the plan page, which sees none

Needs ``crosstally[web]``; the page to share ``crosstally[pages]``.
"""
