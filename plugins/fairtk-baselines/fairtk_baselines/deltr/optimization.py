"""Finding the weights with the smallest loss."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from fairtk.errors import DataWarning, InputError
from fairtk.frames import FloatArray
from fairtk_baselines.deltr.loss import Problem


def minimize(problem: Problem, settings: dict[str, Any]) -> tuple[FloatArray, int]:
    """Return weights, and after how many iterations, by the settings of `DELTR`.

    Raises:
        InputError: gradient descent diverges.
    """
    rng = np.random.default_rng(settings["seed"])
    weights = rng.random(problem.features.shape[1]) * settings["init_range"]
    if settings["optimizer"] == "gd":
        return _descend(problem, weights, settings)
    return _lbfgs(problem, weights, settings["max_iterations"])


_FLAT = 1e-6
"""A gradient without a larger partial derivative is taken as 0."""


def _lbfgs(problem: Problem, weights: FloatArray, max_iterations: int) -> tuple[FloatArray, int]:
    """Run L-BFGS; where its line search gives up on a slope, go on with BFGS.

    With a large gamma the penalty is a steep wall, flat on its other side: what L-BFGS remembers
    from there misleads its line search.
    """
    from scipy import optimize

    options = {"ftol": 0.0, "gtol": 1e-9, "maxcor": 20, "maxfun": 20 * max_iterations}
    found = optimize.minimize(
        problem.value_and_gradient,
        weights,
        jac=True,
        method="L-BFGS-B",
        options={**options, "maxiter": max_iterations},
    )
    done = int(found.nit)
    if np.abs(found.jac).max() > _FLAT and done < max_iterations:
        options = {"gtol": 1e-9, "maxiter": max_iterations - done}
        found = optimize.minimize(
            problem.value_and_gradient, found.x, jac=True, method="BFGS", options=options
        )
        done += int(found.nit)
    slope = float(np.abs(found.jac).max())
    if done >= max_iterations or slope > 100 * _FLAT:
        why = f"after max_iterations={max_iterations}" if done >= max_iterations else "early"
        warnings.warn(
            f"DELTR: L-BFGS stopped {why}, with a largest partial derivative of {slope:.2g}: "
            "raise max_iterations or l2, lower gamma, or standardize the features",
            DataWarning,
            stacklevel=5,
        )
    return np.asarray(found.x, dtype=np.float64), done


def _descend(
    problem: Problem, weights: FloatArray, settings: dict[str, Any]
) -> tuple[FloatArray, int]:
    """Take as many steps of fixed rate against the gradient as are asked for."""
    published = settings["gradient"] == "published"
    evaluate = problem.value_and_published_step if published else problem.value_and_gradient
    rate = settings["learning_rate"]
    for step in range(settings["max_iterations"]):
        with np.errstate(over="ignore", invalid="ignore"):  # said below, in words
            weights = weights - rate * evaluate(weights)[1]
        if not np.isfinite(weights).all():
            raise InputError(
                f"DELTR: gradient descent diverged at step {step + 1}: lower learning_rate "
                f"({rate:g}), standardize the features, or use optimizer='lbfgs'"
            )
    return weights, int(settings["max_iterations"])
