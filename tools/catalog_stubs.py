"""Replaces every heavy import of vLLM's source by a stand-in, so that its parser runs without torch, vLLM or a GPU.

Standard library, `regex`, `yaml` and `packaging` are real, `pydantic` and `typing_extensions` are small imitations,
everything else is a `Stub` that goes along with any use. vLLM's own modules are executed as they are; one that fails is
left half filled, its other names are Stubs, and `FAILED` names it.
"""

from __future__ import annotations

import dataclasses
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import re
import sys
import types
import typing
from pathlib import Path
from typing import Any

REAL = {"yaml", "_yaml", "regex", "packaging"}
"""Third-party modules that are imported for real: dependencies of vlogdiag that the parsers lean on."""


ABSENT = {
    "torch_xla",
    "libtpu",
    "tpu_info",
    "libneuronxla",
    "neuronxcc",
    "torch_neuronx",
    "habana_frameworks",
    "amdsmi",
    "pathways",
}
"""Modules whose presence would tell vLLM that it runs on another vendor's accelerator."""

COMPILED = re.compile(r"_\w*C")
"""vLLM's compiled modules: `_C`, `_moe_C` and their like."""


class StubBase:
    """What a class gets for a base when its real base is stubbed."""

    def __init_subclass__(cls, **_: Any) -> None:
        super().__init_subclass__()


class Stub:
    """Stands for anything of a module that is not there: calls, attributes, items and decorators all succeed."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name
        self.__dict__["__name__"] = self.__dict__["__qualname__"] = name.rpartition(".")[2]

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return "4.99.0"
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        child = self.__dict__[name] = Stub(f"{self._name}.{name}")
        return child

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and (inspect.isfunction(args[0]) or inspect.isclass(args[0])):
            return args[0]  # used as a decorator
        return self

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        real = [base for base in bases if isinstance(base, type)]
        first = next(base for base in bases if isinstance(base, Stub))
        return () if first is not self or any(issubclass(base, StubBase) for base in real) else (StubBase,)

    def __or__(self, other: Any) -> Any:
        return typing.Union[self, other]  # noqa: UP007 - `|` would come back here

    def __ror__(self, other: Any) -> Any:
        return typing.Union[other, self]  # noqa: UP007 - `|` would come back here

    def __instancecheck__(self, _: Any) -> bool:
        return False

    __subclasscheck__ = __instancecheck__

    def _self(self, *_: Any, **__: Any) -> Any:
        return self

    __getitem__ = __enter__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _self
    __floordiv__ = __mod__ = __pow__ = __neg__ = __and__ = __rtruediv__ = __lshift__ = __rshift__ = _self

    def _false(self, *_: Any) -> bool:
        return False

    __bool__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __exit__ = _false

    def _zero(self) -> int:
        return 0

    __len__ = __int__ = __index__ = _zero

    def __float__(self) -> float:
        return 0.0

    def __setitem__(self, *_: Any) -> None:
        pass

    def __iter__(self) -> Any:
        return iter(())

    def __repr__(self) -> str:
        return f"<stub {self._name}>"


class StubModule(types.ModuleType):
    """A module whose every attribute is a Stub."""

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return []
        if name == "__version__":
            return "4.99.0"
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        child = Stub(f"{self.__name__}.{name}")
        setattr(self, name, child)
        return child


class StubLoader(importlib.abc.Loader):
    def create_module(self, spec: Any) -> types.ModuleType:
        module = StubModule(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        fill = IMITATIONS.get(module.__name__)
        if fill:
            fill(module)


class SourceLoader(importlib.machinery.SourceFileLoader):
    """Executes one of vLLM's modules; what it cannot finish it leaves as stubs, and notes the failure."""

    def get_code(self, fullname: str) -> Any:
        return compile(Path(self.path).read_bytes(), self.path, "exec", dont_inherit=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        return StubModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__name__ == "vllm":
            return  # the package only re-exports; executing it would import everything
        try:
            super().exec_module(module)
        except RecursionError:
            raise
        except Exception as error:  # a module that the parser does not need may fail for any reason
            FAILED[module.__name__] = f"{type(error).__name__}: {error}"


FAILED: dict[str, str] = {}


class Finder(importlib.abc.MetaPathFinder):
    def __init__(self, root: Path) -> None:
        self.root = root

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        top = name.partition(".")[0]
        if top == "vllm":
            base = self.root / Path(*name.split("."))
            for file, package in ((base / "__init__.py", True), (base.with_suffix(".py"), False)):
                if file.is_file():
                    places = [str(base)] if package else None
                    return importlib.util.spec_from_file_location(
                        name, file, loader=SourceLoader(name, str(file)), submodule_search_locations=places
                    )
            if base.is_dir() or COMPILED.fullmatch(base.name):
                return importlib.machinery.ModuleSpec(name, StubLoader(), is_package=True)
            return None
        if top in sys.stdlib_module_names or top in REAL or top in ABSENT:
            return None
        return importlib.machinery.ModuleSpec(name, StubLoader(), is_package=True)


class FieldInfo:
    """pydantic's field description, as far as vLLM's parser looks at it."""

    def __init__(self, default: Any = ..., default_factory: Any = None, **_: Any) -> None:
        self.default = default
        self.default_factory = default_factory

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


def _dataclass(cls: Any = None, **options: Any) -> Any:
    kept = {key: options[key] for key in ("init", "repr", "eq", "order", "frozen", "kw_only") if key in options}

    def make(cls: type) -> type:
        infos = {name: value for name, value in vars(cls).items() if isinstance(value, FieldInfo)}
        made = dataclasses.dataclass(**kept)(cls)
        for name, info in infos.items():
            if info.default_factory is None:
                setattr(made, name, info.default)
        finish = getattr(made, "__post_init__", None)
        if finish:

            def lenient(self: Any, *args: Any) -> None:
                for name, value in list(vars(self).items()):
                    if isinstance(value, FieldInfo):
                        setattr(self, name, value.default_factory() if value.default_factory else value.default)
                try:
                    finish(self, *args)
                except Exception as error:  # checks of a machine that is not there
                    FAILED[f"{cls.__name__}.__post_init__"] = f"{type(error).__name__}: {error}"

            made.__post_init__ = lenient  # type: ignore[attr-defined]
        return made

    return make if cls is None else make(cls)


class _TypeAdapter:
    def __init__(self, kind: Any = None, **_: Any) -> None:
        self.kind = kind

    def validate_json(self, text: str) -> Any:
        value = json.loads(text)
        if not isinstance(value, dict):
            raise ValueError("not an object")
        return value

    validate_python = staticmethod(lambda value: value)


class _Transparent:
    def __class_getitem__(cls, item: Any) -> Any:
        return item


class _Model:
    def __init_subclass__(cls, **_: Any) -> None:
        super().__init_subclass__()

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    @classmethod
    def model_validate(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError("not an object")
        return value

    @classmethod
    def model_validate_json(cls, text: str) -> Any:
        return cls.model_validate(json.loads(text))

    @classmethod
    def model_rebuild(cls, **_: Any) -> None:
        """Types are never resolved here."""


def _pydantic(module: types.ModuleType) -> None:
    def decorator(*args: Any, **_: Any) -> Any:
        return args[0] if len(args) == 1 and inspect.isfunction(args[0]) else lambda function: function

    for name in (
        "field_validator",
        "model_validator",
        "field_serializer",
        "model_serializer",
        "validator",
        "root_validator",
    ):
        setattr(module, name, decorator)
    module.__dict__.update(
        Field=lambda default=..., **kwargs: FieldInfo(default, **kwargs),
        FieldInfo=FieldInfo,
        TypeAdapter=_TypeAdapter,
        SkipValidation=_Transparent,
        InstanceOf=_Transparent,
        ConfigDict=dict,
        BaseModel=_Model,
        ValidationError=type("ValidationError", (ValueError,), {}),
        dataclass=_dataclass,
    )


def _typing_extensions(module: types.ModuleType) -> None:
    module.__dict__.update({name: value for name, value in vars(typing).items() if not name.startswith("_")})

    def type_var(name: str, *bounds: Any, default: Any = None, **options: Any) -> Any:
        return typing.TypeVar(name, *bounds, **options)

    module.__dict__.update(
        TypeVar=type_var,
        deprecated=lambda *_, **__: lambda thing: thing,
        runtime_checkable=typing.runtime_checkable,
        TypeIs=_Transparent,
    )


IMITATIONS = {
    "pydantic": _pydantic,
    "pydantic.fields": _pydantic,
    "pydantic.dataclasses": _pydantic,
    "typing_extensions": _typing_extensions,
}
