"""Values to cells: each column of any Arrow type becomes the codes of its attribute's cells."""
