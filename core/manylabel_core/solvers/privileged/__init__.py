"""The SVM+ dual with two slacks, in which labels are privileged information about each other."""
