"""Generated rows: nobody's, so that truth may stand beside an answer.

Every generator takes its ``numpy.random.Generator`` and gives the rows as an Arrow table together with their schema.
"""
