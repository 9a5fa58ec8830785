"""The explorer: pages and an API for one release, and the page to share. It reads only the release.

``view``      the state of a page, as the query of its URL
``grid``      the layout of a table, with signs of reliability;  ``pictures``  its charts
``explorer_pages``  the pages;  ``api``  the API;  ``release_page``  the page to share
``solver``    worker processes and a cache;  ``answering``  questions and their cost;  ``served``  a release
``app``       the complete application behind the guard
"""
