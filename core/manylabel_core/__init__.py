"""Pure learning: arrays in, arrays out. Knows no HTTP, no storage and no clock."""
