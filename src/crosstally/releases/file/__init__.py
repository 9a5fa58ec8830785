"""The release file: its format and ``header``, its reader, which checks both and the sizes of pages, and its writer."""
