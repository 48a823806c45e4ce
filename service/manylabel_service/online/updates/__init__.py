"""An update's way: checked, queued, appended to the log, folded in, answered."""
