"""The release file: its format, its reader (``pages`` are the sizes that it checks first) and its writer."""
