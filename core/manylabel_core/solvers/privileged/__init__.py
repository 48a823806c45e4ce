"""The SVM+ dual with two slacks, whose labels are privileged information about each other."""
