"""The page, in a real browser: Debian's chromium, driven by playwright, with the policy that it is served under."""
