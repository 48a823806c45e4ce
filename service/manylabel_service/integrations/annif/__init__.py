"""Annif's REST interface (github.com/NatLibFi/Annif, annif/openapi/annif.yaml): a project of Annif is a model here."""
