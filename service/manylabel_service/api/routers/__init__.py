"""Endpoints: one file for each resource.

- `learning`: predict, update and predict-update; `labels`: the truth of stored predictions; `stream`: line by line
- `models`: create (also from a snapshot), list, show, delete; `model_labels`: its labels one by one;
  `promise`: its precision
- `events`: what happens to a model, as it happens
- `history`: the log of a model; `snapshots`: list, take, download, go back to
- `versions`, `version_detail`: what jobs have made of a trained model
- `datasets`: files to train from; `jobs`: trainings, and the trainers there are
- `server`: /livez, /readyz and /metrics
- `page`: the page that people look at

An endpoint reads the request with `web`, makes domain values of it with `translation`, and asks the registry for the
model.
"""
