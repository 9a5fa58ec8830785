"""The explorer: pages and an API over one release, and the page to share. It reads a release and nothing else.

``view``      what a page shows, as the query of its URL
``grid``      a table laid out, with signs of reliability;  ``pictures``  its charts
``explorer_pages``  the pages;  ``api``  the API;  ``release_page``  the page to share
``solver``    where work is done, and a cache;  ``answering``  what is solved and its price;  ``served``  a release
``app``       all of it together, behind the guard
"""
