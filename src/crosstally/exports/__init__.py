"""An answer in the formats that programs read."""
