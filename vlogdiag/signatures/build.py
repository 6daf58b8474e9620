"""Turns the checked nodes of one rule into the parts of a Signature, compiling its patterns and expressions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from vlogdiag.catalog import VersionError, Versions
from vlogdiag.signatures.expr import Expr, ExprError, Text, parse_expr, parse_text
from vlogdiag.signatures.matches import match_fields, read_match, read_patterns
from vlogdiag.signatures.names import names_for
from vlogdiag.signatures.positions import (
    Listing,
    Node,
    Scalar,
    Table,
    child,
    entries_of,
    is_true,
    items_of,
    text_of,
    texts_of,
)
from vlogdiag.signatures.shapes import Complain
from vlogdiag.signatures.types import (
    AfterRun,
    Corroborate,
    FixTemplate,
    FlagValue,
    KnownBug,
    Sequence,
    Silence,
    Step,
    YieldsTo,
)

ORIGIN_KEYS = ("process", "pid", "rank", "engine", "host")
"""What `by` may name besides captures."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What the rules may name that lies outside them."""

    knows_flag: Callable[[str], bool]
    knows_env: Callable[[str], bool]
    knows_script: Callable[[str], bool]


class RuleReader:
    """Reads the parts of one rule, knowing the holes that its expressions may use."""

    def __init__(self, holes: Collection[str], catalogue: Catalogue, complain: Complain) -> None:
        self.holes = holes
        self.catalogue = catalogue
        self.complain = complain

    def expr(self, node: Node | None, *, live: bool = False, duration: bool = False) -> Expr | None:
        """A condition; a duration may write captures as `{ran} + 60s`."""
        if not isinstance(node, Scalar):
            return None
        source = node.text.replace("{", "(").replace("}", ")") if duration else node.text
        try:
            return parse_expr(source, names=names_for(self.holes, live=live))
        except ExprError as error:
            self.complain(node, f"expression: {error.message}")
            return None

    def text(self, node: Node | None, *, live: bool = False) -> Text | None:
        """A text with holes."""
        if not isinstance(node, Scalar):
            return None
        try:
            return parse_text(node.text.strip("\n"), names=names_for(self.holes, live=live))
        except ExprError as error:
            self.complain(node, f"text: {error.message}")
            return None

    def specifiers(self, node: Node | None) -> str | None:
        """A PEP 440 specifier set."""
        if not isinstance(node, Scalar):
            return None
        try:
            Versions.parse_spec(node.text)
        except VersionError:
            self.complain(node, f"{node.text!r} is no PEP 440 specifier such as '>=0.11,<0.20'")
            return None
        return node.text

    def by(self, node: Node | None) -> tuple[str, ...]:
        """What separates events."""
        for item in items_of(node):
            word = text_of(item)
            if word not in self.holes and word not in ORIGIN_KEYS:
                self.complain(item, f"`by` names a capture or one of {', '.join(ORIGIN_KEYS)}, not {word!r}")
        return texts_of(node)

    def sequence(self, node: Node | None) -> Sequence | None:
        """`sequence`."""
        if node is None:
            return None
        steps = []
        for item in items_of(child(node, "steps")):
            if child(item, "line") is None:
                self.complain(item, "a step needs a `line`")
            step = Step(
                **match_fields(item, self.complain),
                when=self.expr(child(item, "when")),
                at_least=int(text_of(child(item, "at_least")) or 1),
                optional=is_true(child(item, "optional")),
            )
            steps.append(step)
        if steps and all(step.optional for step in steps):
            self.complain(node, "a sequence needs a step that is not optional")
        return Sequence(
            tuple(steps),
            any_order=is_true(child(node, "any_order")),
            within=self.expr(child(node, "within"), duration=True),
            by=self.by(child(node, "by")),
            unless=read_patterns(child(node, "unless"), self.complain),
        )

    def silence(self, node: Node | None) -> Silence | None:
        """`silence`."""
        if node is None:
            return None
        if child(node, "line") is None:
            self.complain(node, "a silence needs the `line` after which it counts")
        duration = self.expr(child(node, "for"), duration=True)
        if duration is None:
            return None
        return Silence(
            read_match(node, self.complain),
            duration,
            when=self.expr(child(node, "when")),
            until=read_patterns(child(node, "until"), self.complain),
            by=self.by(child(node, "by")),
            at_end=is_true(child(node, "at_end")),
        )

    def yields_to(self, node: Node | None) -> YieldsTo | None:
        """`yields_to`."""
        if node is None:
            return None
        if isinstance(node, Listing):
            return YieldsTo(texts_of(node))
        return YieldsTo(texts_of(child(node, "any_of")), self.expr(child(node, "within"), duration=True))

    def after_run(self, node: Node | None) -> AfterRun | None:
        """`after_run`."""
        if node is None:
            return None
        return AfterRun(texts_of(node if isinstance(node, Listing) else child(node, "any_of")))

    def corroborate(self, node: Node | None, titles: Collection[str]) -> tuple[Corroborate, ...]:
        """`corroborate`; `titles` are those of the rule's fixes."""
        found = []
        for item in items_of(node):
            when, say = self.expr(child(item, "when"), live=True), self.text(child(item, "say"), live=True)
            preferred = child(item, "prefer_fix")
            if isinstance(preferred, Scalar) and preferred.text not in titles:
                self.complain(preferred, f"no fix of this rule is titled {preferred.text!r}")
            if when is not None and say is not None:
                found.append(Corroborate(when, say, text_of(child(item, "confidence")), text_of(preferred)))
        return tuple(found)

    def known_bug(self, node: Node | None) -> KnownBug | None:
        """`known_bug`."""
        thread = text_of(child(node, "thread"))
        if thread is None:
            return None
        return KnownBug(thread, text_of(child(node, "introduced")), text_of(child(node, "fixed_in")))

    def fixes(self, node: Node | None) -> tuple[FixTemplate, ...]:
        """`fixes`."""
        found = (self.fix(item) for item in items_of(node))
        return tuple(fix for fix in found if fix is not None)

    def fix(self, node: Node) -> FixTemplate | None:
        """One fix; every flag and variable of vLLM's must be in the catalogue."""
        title = self.text(child(node, "title"))
        flags: dict[str, FlagValue] = {}
        for key, value in entries_of(child(node, "flags")):
            self.check_flag(key)
            read = self.flag_value(value, bare=True)
            if read is not None:
                flags[key.text] = read
        for item in items_of(child(node, "remove_flags")):
            if isinstance(item, Scalar):
                self.check_flag(item)
        env: dict[str, Text] = {}
        for key, value in entries_of(child(node, "env")):
            if key.text.startswith("VLLM_") and not self.catalogue.knows_env(key.text):
                self.complain(key, f"vLLM knows no variable {key.text}")
            text = self.text(value)
            if text is not None:
                env[key.text] = text
        script = child(node, "script")
        if isinstance(script, Scalar) and not self.catalogue.knows_script(script.text):
            self.complain(script, f"no script fix is called {script.text!r}")
        upgrade = child(node, "upgrade")
        self.specifiers(upgrade)
        if not any(child(node, key) for key in ("flags", "remove_flags", "env", "run", "script", "upgrade", "request")):
            self.complain(node, "a fix changes something: flags, remove_flags, env, run, script, upgrade or request")
        if title is None:
            return None
        return FixTemplate(
            title,
            when=self.expr(child(node, "when")),
            flags=flags,
            remove_flags=texts_of(child(node, "remove_flags")),
            env=env,
            run=self.text(child(node, "run")),
            script=text_of(script),
            upgrade=text_of(upgrade),
            request=self.text(child(node, "request")),
            trade_off=self.text(child(node, "trade_off")),
            question=self.text(child(node, "question")),
            vllm=self.specifiers(child(node, "vllm")),
        )

    def check_flag(self, key: Scalar) -> None:
        """Complain of a flag that no version of vLLM has."""
        if not self.catalogue.knows_flag(key.text):
            self.complain(key, f"vLLM has no flag {key.text}")

    def flag_value(self, node: Node, *, bare: bool) -> FlagValue | None:
        """Text, True, or a mapping; `bare` where the value belongs to the flag itself."""
        if isinstance(node, Table):
            inner: dict[str, FlagValue] = {}
            for key, value in node.entries:
                read = self.flag_value(value, bare=False)
                if read is not None:
                    inner[key.text] = read
            mapping: Mapping[str, FlagValue] = inner
            return mapping
        if isinstance(node, Scalar) and node.type == "bool":
            if bare and not is_true(node):
                self.complain(node, "a flag is switched off by its own --no-… or by `remove_flags`, not by false")
                return None
            return is_true(node)
        return self.text(node)
