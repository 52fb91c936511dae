"""Compiles the kernels when the package is built, so that no user ever waits for a compiler.

A kernel is a Python file, src/labelwright/kernels/NAME.py, with its types beside it in NAME.pxd.
Cython makes C of it, and setuptools knows how to call the compiler of the machine.  Where there is
none, the build asks for the PyPI package `ziglang`, which brings clang.

An editable install stays on this machine: its modules lie beside their sources and are made for
its processor.  A wheel travels: on x86-64 it holds the modules twice, for every processor since
2009 (x86-64-v2) and, in kernels/v3, for those with AVX2 (x86-64-v3); `labelwright.kernels` chooses
when it is imported.

LABELWRIGHT_BUILD=checked makes modules that check bounds, overflow, and addresses
(make boundscheck); LABELWRIGHT_BUILD=portable makes an editable install like a wheel.
"""

import os
import platform
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "labelwright.kernels"
# The code that every module needs for its typed arrays, once.
SHARED = "arrays_shared"

# Kernels whose sums may be reordered and fused, which lets loops use vector instructions: their
# last digits depend on the processor.  All others add and multiply just as they are written.
REORDERED = {"chain", "scoring"}

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "cdivision": True,
    "infer_types": True,
    "initializedcheck": False,
    "wraparound": False,
}
CHECKED_DIRECTIVES = DIRECTIVES | {"boundscheck": True, "initializedcheck": True}

SANITIZERS = [
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
]
PLAIN_FLAGS = ["-O3", "-g0", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
REORDERED_FLAGS = [
    "-O3",
    "-g0",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fassociative-math",
    "-freciprocal-math",
    "-fno-signed-zeros",
    "-funroll-loops",
    "-fvariable-expansion-in-unroller",
]


class KernelBuilder(BuildHookInterface[Any]):
    """Called by hatchling for every wheel and editable install."""

    def dependencies(self) -> list[str]:
        """What the build needs beside pyproject.toml's requirements."""
        return [] if has_compiler() else ["ziglang"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        check_headers()
        if not has_compiler():
            use_zig()
        usual = "native" if version == "editable" else "portable"
        kind = os.environ.get("LABELWRIGHT_BUILD") or usual
        build_data["pure_python"] = False
        build_data["tag"] = wheel_tag()
        if version == "editable":
            build(root, kind, root / "src")
            return
        target = root / "build" / "wheel"
        shutil.rmtree(target, ignore_errors=True)
        for module in build(root, kind, target):
            build_data["force_include"][str(module)] = module.relative_to(target).as_posix()


# -- the machine ---------------------------------------------------------------------------------


def has_compiler() -> bool:
    """Whether the machine has a C compiler."""
    named = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    names = [named.split()[0], "cc", "gcc", "clang"]
    if sys.platform == "win32":
        return True  # setuptools finds Visual Studio, or says what is missing
    return any(shutil.which(name) for name in names)


def use_zig() -> None:
    """Compile with the PyPI package ziglang."""
    zig = f"{sys.executable} -m ziglang"
    os.environ["CC"] = f"{zig} cc"
    os.environ["CXX"] = f"{zig} c++"
    os.environ["LDSHARED"] = f"{zig} cc -shared"
    os.environ["LDCXXSHARED"] = f"{zig} c++ -shared"
    os.environ["AR"] = f"{zig} ar"


def uses_zig() -> bool:
    return "ziglang" in os.environ.get("CC", "")


def check_headers() -> None:
    """Python's own headers are the one thing that no package on the index brings."""
    folder = sysconfig.get_path("include")
    if not Path(folder, "Python.h").exists():
        name = f"python{sys.version_info.major}.{sys.version_info.minor}"
        sys.exit(
            f"labelwright: {folder}/Python.h is missing, which compiling needs; install Python's "
            f"headers (on Debian: apt-get install {name}-dev, on Fedora: python3-devel)"
        )


def wheel_tag() -> str:
    """One wheel of a platform serves every Python from 3.11 on."""
    from packaging.tags import sys_tags

    platforms = (tag.platform for tag in sys_tags())
    own = next(name for name in platforms if "manylinux" not in name and "musllinux" not in name)
    if uses_limited_api():
        return f"cp311-abi3-{own}"
    tag = next(iter(sys_tags()))
    return f"{tag.interpreter}-{tag.abi}-{own}"


def uses_limited_api() -> bool:
    """A Python without the GIL has no stable ABI."""
    return not sysconfig.get_config_var("Py_GIL_DISABLED")


# -- compiling -----------------------------------------------------------------------------------


def build(root: Path, kind: str, target: Path) -> list[Path]:
    """Compile all kernels of the checkout `root` into the package below `target`; returns the
    modules."""
    levels = levels_of(kind)
    modules: list[Path] = []
    for folder, level in levels.items():
        modules += build_level(root, kind, level, target, folder)
    return modules


def levels_of(kind: str) -> dict[str, str]:
    """The instruction sets to compile for, by the folder of their modules."""
    if kind == "native":
        return {"": "native"}
    if kind == "checked" or platform.machine().lower() not in ("x86_64", "amd64"):
        return {"": ""}
    return {"": "x86-64-v2", "v3": "x86-64-v3"}


def build_level(root: Path, kind: str, level: str, target: Path, folder: str) -> list[Path]:
    """Compile all kernels for one instruction set."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension

    sources = sorted((root / "src/labelwright/kernels").glob("*.pxd"))
    names = [source.stem for source in sources if source.with_suffix(".py").exists()]
    macros = [("Py_LIMITED_API", "0x030B0000")] if uses_limited_api() else []
    os.chdir(root)
    made = Path("build", "kernels", "checked" if kind == "checked" else "c")

    def extension(name: str, source: str) -> Any:
        return Extension(
            f"{PACKAGE}.{name}",
            [source],
            define_macros=macros,
            py_limited_api=uses_limited_api(),
            extra_compile_args=compiler_flags(name, kind, level),
            extra_link_args=SANITIZERS[:1] if kind == "checked" else [],
        )

    extensions = cythonize(
        [extension(name, f"src/labelwright/kernels/{name}.py") for name in names],
        include_path=["src"],
        build_dir=str(made),
        shared_utility_qualified_name=f"{PACKAGE}.{SHARED}",
        compiler_directives=CHECKED_DIRECTIVES if kind == "checked" else DIRECTIVES,
        quiet=True,
    )
    extensions.append(extension(SHARED, shared_source(made)))
    distribution = Distribution({"name": "labelwright", "ext_modules": extensions})
    command: Any = distribution.get_command_obj("build_ext")
    command.build_lib = str(Path("build", "kernels", f"lib-{kind}-{level or 'any'}"))
    command.build_temp = str(Path("build", "kernels", f"objects-{kind}-{level or 'any'}"))
    command.parallel = os.cpu_count()
    command.ensure_finalized()
    command.run()
    return [place(Path(file), target, folder) for file in command.get_outputs()]


def place(file: Path, target: Path, folder: str) -> Path:
    """Copy a module into the package; a running Python may hold the old one, so it is replaced."""
    package = target / "labelwright/kernels" / folder
    package.mkdir(parents=True, exist_ok=True)
    new = package / f".{file.name}"
    shutil.copy(file, new)
    return new.replace(package / file.name)


def shared_source(folder: Path) -> str:
    """The C source of the module that all others share."""
    from Cython.Compiler.Main import main as cython

    source = folder / f"{SHARED}.c"
    if not source.exists():
        source.parent.mkdir(parents=True, exist_ok=True)
        arguments, sys.argv = sys.argv, ["cython", f"--generate-shared={source}"]
        try:
            cython(command_line=1)
        except SystemExit as end:
            if end.code:
                raise
        finally:
            sys.argv = arguments
    return str(source)


def compiler_flags(name: str, kind: str, level: str) -> list[str]:
    if sys.platform == "win32":
        return ["/O2", "/fp:fast" if name in REORDERED else "/fp:precise"]
    flags = REORDERED_FLAGS if name in REORDERED else PLAIN_FLAGS
    flags = [*flags, "-Wno-unused-function", "-Wno-maybe-uninitialized"]
    if kind == "checked":
        return [*flags, "-O1", "-g", "-fno-wrapv", "-DLABELWRIGHT_CHECKED", *SANITIZERS]
    if level == "native" and platform.machine().lower() in ("x86_64", "amd64", "aarch64"):
        return [*flags, "-mcpu=native" if uses_zig() else "-march=native"]
    if level:
        return [*flags, f"-march={level.replace('-', '_') if uses_zig() else level}"]
    return flags


if __name__ == "__main__":  # python hatch_build.py: build beside the sources, for this machine
    if not has_compiler():
        use_zig()
    here = Path(__file__).resolve().parent
    build(here, os.environ.get("LABELWRIGHT_BUILD") or "native", here / "src")
