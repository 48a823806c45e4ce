"""A model in front of an expensive teacher, such as a language model. The model answers the examples that it is sure
of.

- loop : `with_teacher`, which asks the teacher for the rest, and has the model learn the answers
- endpoint : language models behind an OpenAI-compatible endpoint, as teachers
- program : local programs as teachers
"""

from manylabel_clients.integrations.teacher.loop import (
    Answer,
    AsyncTaught,
    SelfAgreement,
    Taught,
    TeacherBusy,
    TeacherFailed,
    TeacherRefuses,
    self_agreement,
    with_teacher,
)

# fmt: off
__all__ = [
    "Answer", "AsyncTaught", "SelfAgreement", "Taught", "TeacherBusy", "TeacherFailed", "TeacherRefuses",
    "self_agreement", "with_teacher",
]
# fmt: on
