"""The audit log on standard output, for log collectors of container platforms."""

import os

STDOUT = 1


class AuditOutput:
    """Audit lines go to standard output, and cannot be read back."""

    def append(self, text: bytes) -> None:
        """Write whole lines one by one, so that short lines of several processes do not mix.

        Raises OSError.
        """
        for line in text.splitlines(keepends=True):
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(STDOUT, rest) :]
