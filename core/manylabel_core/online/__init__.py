"""Online learners: learn and predict on index arrays."""

from manylabel_core.online.falt import FALT
from manylabel_core.online.kernel_falt import KernelFALT
from manylabel_core.online.salt import SALT

__all__ = ["FALT", "SALT", "KernelFALT"]
