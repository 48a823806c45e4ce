"""Online learners, which learn and predict index arrays."""

from collections.abc import Mapping

from manylabel_core.online.falt import FALT
from manylabel_core.online.kernel_falt import KernelFALT
from manylabel_core.online.kernel_passive_aggressive import KernelPassiveAggressive
from manylabel_core.online.kernel_salt import KernelSALT
from manylabel_core.online.learner import OnlineLearner
from manylabel_core.online.passive_aggressive import PassiveAggressive
from manylabel_core.online.salt import SALT

__all__ = ["FALT", "SALT", "KernelFALT", "KernelPassiveAggressive", "KernelSALT", "PassiveAggressive"]

LEARNERS: Mapping[str, type[OnlineLearner]] = {
    "falt": FALT,
    "salt": SALT,
    "kernel_falt": KernelFALT,
    "kernel_salt": KernelSALT,
    "passive_aggressive": PassiveAggressive,
    "kernel_passive_aggressive": KernelPassiveAggressive,
}
"""All online learners, by the name of their algorithm."""
