"""Nothing that a model learns by depends on the processor or on the C library: what the code may call.

The rules hold for each file of core and of the service that learning reaches by its imports. Batch trainers are
outside: each runs once, and replicas share the version that it makes. Predictions of such a version are no replicated
state. The metrics of these predictions are: `Prequential` computes them, and the rules hold for it.
"""

from __future__ import annotations

import ast
import math
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import pytest
import scipy.sparse as sp
from numba import njit
from numba.core.registry import CPUDispatcher
from tests.core.online.catalogue import LEARNERS
from tests.core.online.learnt_bits import STREAMS, learnt_bits, make_streams
from tests.support.cases import for_each

ROOT = Path(__file__).parents[2]
FOLDERS = {"manylabel_core": ROOT / "core", "manylabel_service": ROOT / "service"}
LEARNING = ("core/manylabel_core/online", "core/manylabel_core/records", "service/manylabel_service/online/state")
"""Entry points of learning: learners, the reading of records, and the replay of a log. Metrics and scaling follow."""

EXACT = {
    "math": re.compile(
        "ceil|copysign|fabs|floor|frexp|gcd|inf|isfinite|isinf|isnan|isqrt|ldexp|nan|pi|prod|sqrt|trunc"
    ),
    "cmath": re.compile("isnan"),
}
"""All that may be used of a module: functions whose results IEEE 754 defines, and constants."""

ROUNDED_BY_THE_HOST = "a?(cos|sin|tan)h?|arc.*|cbrt|deg2rad|exp.*|float_power|hypot|log.*|pow.*|sinc"
"""Functions of NumPy that call the C library, or have an implementation for each kind of processor."""

SUMMED_BY_THE_HOST = "average|dot|einsum|fft|inner|linalg|matmul|mean|outer|random|std|tensordot|var|vdot"
"""NumPy functions that BLAS or vector instructions compute, and whose order of summation depends on the host."""

NUMPY = ("np", "numpy")

SUMMING = {"dot", "mean", "reduce", "reduceat", "std", "var"}
"""Methods that sum in such an order."""

UNSTABLE = {"argpartition", "argsort"}
"""Sorts whose order of equal elements depends on the processor, unless `kind` is "stable"."""

READERS = {
    "core/manylabel_core/explanation.py": "explains a score, and changes no state",
    "core/manylabel_core/scaling/fitted.py": "fits a batch trainer's scaling",
    "core/manylabel_core/online/models/expansion/project.py: C @ inverse": "refuses a state that is no inverse",
    "core/manylabel_core/online/models/stack/model.py: np.linalg": "refuses a state that is not positive definite",
    "service/manylabel_service/online/state/uncertainty.py": "ranks predictions for labelling, and changes no state",
    "service/manylabel_service/online/state/feature_space.py: np.argsort(columns)": "no two columns are equal",
}
"""Files and expressions that the rules are not for, and the reasons."""


@cache
def imported(file: Path) -> frozenset[Path]:
    """Return the files of this project that a file imports outside of functions and of type checking."""
    named: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            named |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
    found: set[Path] = set()
    for name in named:
        top = name.partition(".")[0]
        if top in FOLDERS:
            path = FOLDERS[top] / name.replace(".", "/")
            found |= {each for each in (path.with_suffix(".py"),) if each.exists()}
    return frozenset(found)


def reached() -> list[Path]:
    """Return the files that learning reaches."""
    waiting = [file for folder in LEARNING for file in (ROOT / folder).rglob("*.py")]
    found: set[Path] = set()
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += imported(file)
    return sorted(found)


@cache
def files() -> dict[str, Path]:
    return {file.relative_to(ROOT).as_posix(): file for file in reached()}


def breaches(tree: ast.AST, compiled: bool = False) -> Iterator[str]:
    """Yield the expressions that the rules forbid."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names if _is_forbidden(node.module, alias.name))
        elif _breaks_a_rule(node, compiled):
            yield ast.unparse(node)


def _breaks_a_rule(node: ast.AST, compiled: bool) -> bool:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        is_sum = compiled and node.value.id in NUMPY and node.attr == "sum"
        return is_sum or _is_forbidden(node.value.id, node.attr)
    if isinstance(node, ast.BinOp | ast.AugAssign):
        exponent = node.right if isinstance(node, ast.BinOp) else node.value
        return isinstance(node.op, ast.MatMult) or (isinstance(node.op, ast.Pow) and not _is_whole(exponent))
    return isinstance(node, ast.Call) and _is_host_call(node, compiled)


def _is_host_call(call: ast.Call, compiled: bool) -> bool:
    """Return whether `pow`, a method that sums, or an unstable sort is called."""
    called = call.func
    if not isinstance(called, ast.Attribute):
        return isinstance(called, ast.Name) and called.id == "pow"
    if called.attr in UNSTABLE:
        return not compiled and not _is_stable(call)
    of_numpy = isinstance(called.value, ast.Name) and called.value.id in NUMPY
    return not of_numpy and (called.attr in SUMMING or (compiled and called.attr == "sum"))


def _is_forbidden(module: str | None, name: str) -> bool:
    if module in EXACT:
        return EXACT[module].fullmatch(name) is None
    return module in NUMPY and re.fullmatch(f"{ROUNDED_BY_THE_HOST}|{SUMMED_BY_THE_HOST}", name) is not None


def _is_whole(exponent: ast.expr) -> bool:
    if isinstance(exponent, ast.UnaryOp):
        exponent = exponent.operand
    return isinstance(exponent, ast.Constant) and isinstance(exponent.value, int)


def _is_stable(call: ast.Call) -> bool:
    return any(word.arg == "kind" and getattr(word.value, "value", None) == "stable" for word in call.keywords)


def test_learning_reaches_the_files_that_compute() -> None:
    for name in ("core/manylabel_core/_elementary.py", "core/manylabel_core/metrics/_prequential.py"):
        assert name in files()
    assert not [name for name in files() if name.startswith("core/manylabel_core/batch/")]


def test_no_result_depends_on_the_host() -> None:
    for name, file in files().items():
        compiled = file.name.startswith("_") and file.name != "__init__.py"
        found = {f"{name}: {each}" for each in breaches(ast.parse(file.read_text()), compiled)}
        assert {each for each in found if not each.startswith(tuple(READERS))} == set()


@for_each(
    "code",
    [
        "math.log(x)",
        "np.exp(x)",
        "from math import cos",
        "from numpy import tanh",
        "x ** 0.5",
        "x **= y",
        "2.0 ** x",
        "pow(x, y)",
        "np.power(x, 2)",
        "X @ w",
        "np.dot(x, y)",
        "x.dot(y)",
        "x.mean()",
        "np.add.reduceat(x, at)",
        "np.linalg.norm(x)",
        "np.argsort(x)",
        "x.argsort(kind='quicksort')",
    ],
)
def test_the_rules_notice(code: str) -> None:
    assert len(list(breaches(ast.parse(code)))) == 1


@for_each("code", ["math.sqrt(x)", "np.sqrt(x)", "x ** 2", "2.0 ** -53", "np.argsort(x, kind='stable')"])
def test_the_rules_allow(code: str) -> None:
    assert list(breaches(ast.parse(code))) == []


LIBM = re.compile(
    "a?(cos|sin|tan)h?f?|atan2f?|cbrtf?|exp(10|2|m1)?f?|fma(f|uladd)?|hypotf?|log(1p|2)?f?|powi?f?|sincosf?"
)
"""Functions that LLVM or numba may call. Not log10: numba counts the digits of a number in its messages by it."""

FLAGGED = re.compile(r"= f(?:add|sub|mul|div|rem|neg|cmp) (?:fast|reassoc|nnan|ninf|nsz|arcp|contract|afn)\b.*")
FUSED = {
    "aarch64-unknown-linux-gnu": ("neoverse-v1", re.compile(r"^\s+(fn?m(?:add|sub|la|ls)\S*)", re.MULTILINE)),
    "x86_64-unknown-linux-gnu": ("skylake-avx512", re.compile(r"^\s+(vfn?m(?:add|sub)\S*)", re.MULTILINE)),
}
"""Processors that have fused instructions, and how these are written."""

LARGEST = ("learn_stack", "calibrate_rows", "kernel_column", "watch")
"""Functions that have nearly all others inside."""


@pytest.fixture(scope="module")
def compiled() -> dict[str, str]:
    """Return LLVM's code for each function that Python calls when learners learn; it has all that these call inside."""
    streams = make_streams(40)
    for stream in STREAMS:
        X, Y = streams[f"{stream}/X"], streams[f"{stream}/Y"]
        for make in LEARNERS.values():
            learnt_bits(make, sp.csr_array(X) if stream == "sparse" else X, Y)
    functions: set[Any] = set()
    for name, module in list(sys.modules.items()):
        if name.startswith("manylabel_core."):
            for function in vars(module).values():
                if isinstance(function, CPUDispatcher):
                    functions.add(function)
    return {
        f"{function.py_func.__module__}.{function.py_func.__name__}{signature}": _llvm_code(result)
        for function in functions
        for signature, result in function.overloads.items()
    }


CODE_OF = "library"
"""Attribute of what numba has compiled that has its code."""


def _llvm_code(result: Any) -> str:
    """Return LLVM's code of a compiled function, be it compiled here or read from the disk."""
    return str(getattr(result, CODE_OF)._get_module_for_linking())


def llvm_faults(code: str) -> list[str]:
    """Return what lets LLVM change the result of arithmetic, and functions of the C library."""
    called = re.findall(r'declare .*?@"?(?:llvm\.)?([a-z0-9]+)[\w.]*"?\(', code)
    return [*FLAGGED.findall(code), *sorted({name for name in called if LIBM.fullmatch(name)})]


def fused_instructions(code: str, triple: str) -> list[str]:
    """Return the fused instructions of the code for a processor."""
    cpu, fused = FUSED[triple]
    code = re.sub(r'target triple = ".*"', f'target triple = "{triple}"', code)
    # Numba counts references in another way on x86 only.
    code = re.sub(r"= (?:tail )?call i8 @llvm\.x86\.atomic\.sub\.cc\.i64\(.*", "= add i8 0, 0", code)
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=1)
    return fused.findall(machine.emit_assembly(llvm.parse_assembly(code)))


def test_compiled_code_rounds_each_operation(compiled: dict[str, str]) -> None:
    assert len(compiled) > 20
    assert {name: faults for name, code in compiled.items() if (faults := llvm_faults(code))} == {}


@pytest.mark.parametrize("triple", FUSED)
def test_no_processor_gets_fused_instructions(compiled: dict[str, str], triple: str) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    codes = {name: code for name, code in compiled.items() if name.partition("(")[0].endswith(LARGEST)}
    assert len(codes) >= len(LARGEST)
    assert {name: fused for name, code in codes.items() if (fused := fused_instructions(code, triple))} == {}


def test_a_function_that_may_be_fused_is_noticed() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()

    @njit(fastmath={"contract"})
    def contracted(x: float, y: float, z: float) -> float:
        return x * y + z

    @njit
    def calls(x: float) -> float:
        return math.exp(x)

    contracted(1.0, 2.0, 3.0)
    calls(1.0)
    (code,) = (_llvm_code(result) for result in contracted.overloads.values())
    assert llvm_faults(code)
    assert all(fused_instructions(code, triple) for triple in FUSED)
    (code,) = (_llvm_code(result) for result in calls.overloads.values())
    assert llvm_faults(code) == ["exp"]
