"""An answer in the formats that programs read: a module for each format, a function from a Marginal in each."""
