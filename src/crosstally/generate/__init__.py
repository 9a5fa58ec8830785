"""Generated rows: nobody's, so that truth may stand beside an answer."""
