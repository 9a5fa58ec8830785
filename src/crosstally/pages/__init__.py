"""Pages of HTML about a release: templates, the texts on them, and pictures drawn without a script."""
