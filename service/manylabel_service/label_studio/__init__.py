"""Label Studio: its configurations, annotations and predictions; knows nothing of our own HTTP."""
