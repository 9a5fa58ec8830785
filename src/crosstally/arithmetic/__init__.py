"""Computing with answers: sums, differences and ratios of labelled tables, and the errors that these have.

``linear_form`` what is linear in a release, and its exact variance
``changes``     what can become of a table
``joint``       how cells vary together, so that functions of several answers have the right errors
``uncertainty`` how sure cells are: an exact linear law, joint draws, or bounds
``operations``  what one can do with a labelled table
"""
