"""Endpoints: one file for each resource, with the models of its JSON; `schemas` has the models that several files need.

- `learning`: predict, update and predict-update; `labels`: labels of stored predictions; `stream`: NDJSON streams
- `models`: create (also from a snapshot), list, show, delete; `metrics`: its metrics; `model_labels`: its labels, their
  groups, and the promise of a precision
- `events`: events of a model
- `corrections`: corrections of learnt examples; `doubts`: doubtful labels; `label_health`: suggestions for labels
- `history`: the log of a model; `snapshots`: list, take, download, roll back
- `versions`: versions of a trained model
- `datasets`: labelled files; `jobs`: training jobs and trainers
- `server`: /livez, /readyz and /metrics
- `page`: the web UI

An endpoint reads the request with `web`, converts it to domain values with `translation`, and gets the model from the
registry.
"""
