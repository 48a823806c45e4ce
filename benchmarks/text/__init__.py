"""Records with text: speed of encoding, and quality of learning."""
