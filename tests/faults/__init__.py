"""Commands that are killed, interrupted or run out of room: what was paid is delivered or can be had again."""
