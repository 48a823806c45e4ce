"""scikit-learn's estimator interface without scikit-learn, whose import takes a second."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils import Tags


class Estimator:
    """Base of estimators: dataclasses whose fields are their parameters, with scikit-learn's interface."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, in alphabetical order; none is an estimator, so `deep` has no effect."""
        return {name: getattr(self, name) for name in _defaults(self)}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, and return the estimator; raise ValueError, without changes, for an unknown name."""
        known = _defaults(self)
        for name in params:
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Tags:
        """Return the tags of scikit-learn's `BaseEstimator`."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def __repr__(self) -> str:
        """Return the constructor call with the non-default parameters."""
        defaults = _defaults(self)
        given = [f"{name}={value!r}" for name, value in self.get_params().items() if value != defaults[name]]
        return f"{type(self).__name__}({', '.join(given)})"


def not_fitted(message: str) -> NotFittedError:
    """Return scikit-learn's error for an estimator that is not fitted."""
    from sklearn.exceptions import NotFittedError

    return NotFittedError(message)


def _defaults(estimator: Any) -> dict[str, Any]:
    """Return the defaults of the parameters by name, in alphabetical order."""
    return {each.name: each.default for each in sorted(fields(estimator), key=lambda each: each.name)}
