"""What all sites share: request checks, the server and its connections, files, templates and texts."""
