"""Environments in which the parts of this host take its processor for an older one."""

WITHOUT_FMA = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX2,-AVX2_Usable,-FMA,-FMA_Usable,-FMA4"}
"""The C library as on an older x86-64 processor; without effect elsewhere."""
