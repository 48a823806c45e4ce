"""Annif's REST interface (github.com/NatLibFi/Annif, annif/openapi/annif.yaml): an Annif project is a model."""
