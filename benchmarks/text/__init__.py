"""Records with text: how fast they are read, and how well labels are learnt from them."""
