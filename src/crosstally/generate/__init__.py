"""Generated rows. They belong to no real person, so true counts may be shown beside an answer.

Every generator takes a ``numpy.random.Generator`` and returns the rows as an Arrow table together with their schema.
"""
