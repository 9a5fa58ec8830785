"""Computing with answers: sums, differences and ratios of labelled tables, and the errors that these have.

``linear``     what is linear in a release, and its exact variance
``changes``    what can become of a table
``origin``     what an answer carries, so that functions of several answers have the right errors
``computed``   errors and intervals of what was computed
``operations`` what one can do with a labelled table
"""
