"""The release file: its format, its reader and its writer."""
