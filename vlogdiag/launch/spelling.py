"""Spells a new word the way the place where it goes wants it."""

from __future__ import annotations

import json
import re

from vlogdiag.launch.command import NotCertain, Site
from vlogdiag.launch.inset import spell
from vlogdiag.launch.quoting import quote_plainly, quote_word

_PLAIN_IN_DOUBLE = re.compile(r"[$`\\!']")
"""What a shell would still read inside double quotes, or what a single-quoted text around them cannot hold."""
_SPLITS_OR_GLOBS = re.compile(r"[\s*?\[\]\\]")
_YAML_PLAIN = re.compile(
    r"^(?!(?:true|false|yes|no|on|off|null|y|n|~)$)[A-Za-z/][A-Za-z0-9_./+%-]*(?:=[A-Za-z0-9_./+-]+)?$", re.IGNORECASE
)


def written(site: Site, new: str, raw: str = "") -> str:
    """A word as the site spells it; `raw` is the spelling it replaces, whose quotes are kept where they can be."""
    if "yaml plain" in site.layers and ": " in new:
        new = compact(new)  # `{"image": 2}` would make a mapping of an unquoted YAML text
    match site.quoting:
        case "json item":
            return spell(json.dumps(new, ensure_ascii=False), site.layers)
        case "yaml item":
            return _yaml_item(spell(new, site.layers), raw)
        case "bare":
            return spell(_bare(new), site.layers)
        case "words":
            return spell(quote_plainly(new), site.layers)
        case "shell":
            if len(raw) > 1 and raw[0] == raw[-1] == '"' and not re.search(r'[$`"\\!]', new):
                return spell(f'"{new}"', site.layers)
            if len(raw) > 1 and raw[0] == raw[-1] == "'" and "'" not in new:
                return spell(f"'{new}'", site.layers)
            inside_single = any(layer in ("shell single quotes", "unit single quotes") for layer in site.layers)
            if inside_single and not _PLAIN_IN_DOUBLE.search(new) and quote_word(new) != new:
                return spell('"' + new.replace('"', '\\"') + '"', site.layers)
            return spell(quote_word(new), site.layers)


def _bare(new: str) -> str:
    """A word inside an unquoted variable: JSON without blanks passes, since quotes stay in it."""
    new = compact(new) if _SPLITS_OR_GLOBS.search(new) else new
    if not new or _SPLITS_OR_GLOBS.search(new):
        raise NotCertain(f"{new!r} cannot be written inside an unquoted shell variable")
    return new


def compact(text: str) -> str:
    """JSON without blanks; anything else as it is."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        return text


def _yaml_item(new: str, raw: str) -> str:
    """A YAML string: in the quotes of what it replaces, else plain where nothing could take it for something else."""
    if raw.startswith("'") or (not raw.startswith('"') and '"' in new and "'" not in new):
        return "'" + new.replace("'", "''") + "'"
    if raw.startswith('"') or not (
        _YAML_PLAIN.match(new) or re.match(r"^--[a-z][a-z0-9.-]*(=[A-Za-z0-9_./+-]+)?$", new)
    ):
        return json.dumps(new, ensure_ascii=False)
    return new
