"""The catalogue against the real parsers of two installed releases, and the generator against the package index."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import build_catalog
import catalog_fetch
import catalog_truth

from vlogdiag.catalog import releases

pytestmark = [pytest.mark.network, pytest.mark.long]


@pytest.mark.parametrize("release", ["0.32.0", "0.11.0"])
def test_no_option_of_the_real_parser_is_missing_extra_or_different(release: str, tmp_path: Path) -> None:
    """Two oddly chosen releases: the newest that has a CPU build, and the first without the V0 engine."""
    verdict = catalog_truth.compare(release, catalog_truth.install(release, tmp_path / release))
    print(f"{release}: {verdict.options} options, {len(verdict.missing)} missing, {len(verdict.extra)} extra")
    assert verdict.options > 150
    assert (verdict.missing, verdict.extra, verdict.different) == ((), (), ())


def test_the_index_lists_no_release_that_the_catalogue_lacks() -> None:
    """Fails on the day of a new vLLM release: run `make catalog`."""
    assert catalog_fetch.known_releases() == releases()


@pytest.mark.parametrize("release", ["0.4.0", "0.6.3", releases()[-1]])
def test_a_release_from_the_index_reads_as_the_catalogue_has_it(release: str, tmp_path: Path) -> None:
    """0.4.0 has no sdist, so its wheel is read; the others are sdists."""
    catalog_fetch.unpack(catalog_fetch.fetch(release, tmp_path / "archives"), tmp_path / "source")
    read = build_catalog.read_release(release, tmp_path / "source", Counter())
    for table in build_catalog.TABLES:
        text = (build_catalog.DATA / table).read_text(encoding="utf-8")
        assert build_catalog.merging.expand(text, releases())[release] == read[table]
