"""Predictives of a real number: normal, Student, their mixtures, and transformed ones."""

from .mapped import Mapped
from .maps import TargetMap
from .normal import Mixture, Normal
from .student import Student
from .tails import Tail, narrowed, with_tails

__all__ = ["Mapped", "Mixture", "Normal", "Student", "Tail", "TargetMap", "narrowed", "with_tails"]
