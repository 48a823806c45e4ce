"""One claimed task as its supervisor sees it: lease, child process, files in and out."""
