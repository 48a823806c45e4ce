"""The supervisor carries out one leased task: lease, child process, files in and out."""
