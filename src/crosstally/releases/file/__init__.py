"""The release file: its format, its reader, which checks the ``header`` and the sizes of ``pages``, and its writer."""
