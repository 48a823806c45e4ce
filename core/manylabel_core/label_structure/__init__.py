"""Groups of labels that exclude each other, and labels that imply their parent: consistent predictions and truths."""

from manylabel_core.label_structure.structure import Contradiction, Group, InvalidStructure, LabelStructure

__all__ = ["Contradiction", "Group", "InvalidStructure", "LabelStructure"]
