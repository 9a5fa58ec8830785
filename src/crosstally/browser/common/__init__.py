"""What all sites share: the guard, the server and its connections, files, templates and texts."""
