"""`vlogdiag whatif`: would other settings fit, by the numbers of a log (or by the model's name and a card)."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from vlogdiag.cli_common import BLIND, FOUND, USAGE, complain, fail, known_version, one_log

MOST = 1_000_000_000
"""No setting of vLLM's that counts something goes so far."""


def whatif(
    log: Annotated[
        str | None, typer.Argument(metavar="[LOG]", help="Log of a run; without it give --model and --card.")
    ] = None,
    max_model_len: Annotated[
        int | None, typer.Option("--max-model-len", min=1, max=MOST, help="Context length to try.")
    ] = None,
    max_num_seqs: Annotated[int | None, typer.Option("--max-num-seqs", min=1, max=MOST)] = None,
    max_num_batched_tokens: Annotated[int | None, typer.Option("--max-num-batched-tokens", min=1, max=MOST)] = None,
    utilization: Annotated[float | None, typer.Option("--gpu-memory-utilization", min=0.01, max=1.0)] = None,
    kv_dtype: Annotated[str | None, typer.Option("--kv-cache-dtype", help="auto, fp8, …")] = None,
    tensor_parallel: Annotated[int | None, typer.Option("--tensor-parallel-size", "-tp", min=1, max=MOST)] = None,
    card: Annotated[str | None, typer.Option("--card", metavar="SIZE", help="Another card, for example 24GiB.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="Where no log is at hand: the model's name.")] = None,
    run: Annotated[int | None, typer.Option("--run", min=1, help="Which start of the log (default: the last).")] = None,
    vllm_version: Annotated[
        str | None, typer.Option(metavar="X", help="vLLM's version, where the log does not say it.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="As JSON: fits, kv_tokens, concurrency, assumptions …")] = False,
) -> None:
    """Say whether a set-up fits: KV cache tokens, concurrency, head-room."""
    from vlogdiag.catalog import Versions
    from vlogdiag.solver.sizing import estimated_profile
    from vlogdiag.solver.sums import Change, what_if
    from vlogdiag.values import parse_size

    known_version(vllm_version)
    if log is not None and model is not None:
        fail("--model is for the case without a log; the log names its own model", USAGE)
    if log is None and run is not None:
        fail("--run chooses a start of a log: give the log", USAGE)
    if utilization is not None and utilization != utilization:  # NaN passes every comparison of bounds
        fail("--gpu-memory-utilization nan: write a share such as 0.9", USAGE)
    if kv_dtype is not None:
        _check_kv_dtype(kv_dtype, vllm_version)
    size = parse_size(card) if card is not None else None
    if card is not None and (size is None or size < 2**30):
        fail(f"--card {card}: write a size such as 24GiB", USAGE)
    change = Change(max_model_len, max_num_seqs, max_num_batched_tokens, utilization, kv_dtype, tensor_parallel, size)
    if log is not None:
        profile = _profile(log, run, vllm_version)
    else:
        if model is None or size is None:
            fail("without a log give --model and --card", USAGE)
        versions = Versions.known(vllm_version) if vllm_version else Versions.all()
        estimated = estimated_profile(model, float(size), versions, max_model_len=max_model_len)
        if estimated is None:
            fail(f"the name {model!r} does not say how many parameters the model has (for example -8B)", BLIND)
        profile = estimated
    estimate = what_if(profile, change)
    if json:
        import msgspec

        print(msgspec.json.encode(_plain(profile, change, estimate)).decode())
    else:
        _print(profile, change, estimate)
    raise typer.Exit({True: 0, False: FOUND, None: BLIND}[estimate.fits])


def _check_kv_dtype(name: str, version: str | None) -> None:
    """Exit 2 for a type that no release lists (0.33.0 lists none, and takes what it knows), or not the one named."""
    from vlogdiag.catalog import Versions, value_allowed
    from vlogdiag.catalog.lookup import entries_of

    listed = {str(c) for e in entries_of("--kv-cache-dtype", Versions.all()) for c in e.choices or ()}
    if name not in listed or (version and value_allowed("--kv-cache-dtype", name, Versions.known(version)) is False):
        fail(
            f"--kv-cache-dtype {name}: vLLM {version or ''} does not take it; try auto or fp8".replace("  ", " "), USAGE
        )


def _profile(log: str, number: int | None, version: str | None) -> Any:
    from vlogdiag.scan import diagnose_paths
    from vlogdiag.solver.profile import profile_of

    name = one_log(log).name
    report = diagnose_paths([log], version=version)
    source = next((each for each in report.sources if each.path == name), None)
    if source is None or (source.error and not source.lines):
        fail(f"{log}: {source.error if source else 'cannot be read'}", BLIND)
    runs = source.runs
    chosen = next((r for r in runs if r.run == number), None) if number else (runs[-1] if runs else None)
    if chosen is None:
        fail(
            f"{log}: has no start {number}; it has {len(runs)}" if number else f"{log}: nothing of vLLM's in it", BLIND
        )
    return profile_of(chosen, (finding for finding in report.findings if finding.source == source.path))


def _plain(profile: Any, change: Any, estimate: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "fits": estimate.fits,
        "kv_tokens": estimate.kv_tokens,
        "kv_memory": None if estimate.kv_memory is None else int(estimate.kv_memory),
        "concurrency": None if estimate.concurrency is None else round(estimate.concurrency, 2),
        "headroom": None if estimate.headroom is None else int(estimate.headroom),
        "longest_context": estimate.longest,
        "max_model_len": change.max_model_len or profile.max_model_len,
        "arithmetic": estimate.arithmetic,
        "assumptions": list(estimate.assumptions),
        "hint": estimate.hint,
        "asked": {k: v for k, v in asdict(change).items() if v is not None},
    }


def _print(profile: Any, change: Any, estimate: Any) -> None:
    from vlogdiag.report.safe import plain
    from vlogdiag.solver.sums import longest_context, minimal_utilization

    length = change.max_model_len or profile.max_model_len
    words = {True: "fits", False: "does not fit", None: "cannot be told"}
    asked = f"a context of {length} tokens" if length else "the set-up"
    print(plain(f"{words[estimate.fits]}: {asked}"))
    print(plain(f"  {estimate.arithmetic}"))
    if estimate.kv_tokens is not None:
        before = longest_context(profile)
        was = f" (before: {before / profile.max_model_len:.2f})" if before and profile.max_model_len else ""
        print(
            f"  KV cache: {estimate.kv_tokens} tokens"
            + (
                f"; requests of that length at a time: {estimate.concurrency:.2f}{was}"
                if estimate.concurrency is not None
                else ""
            )
        )
    if estimate.headroom is not None:
        print(f"  left outside the budget: {estimate.headroom / 2**30:.2f} GiB")
    if estimate.fits is False and estimate.longest:
        print(f"  the longest that fits: --max-model-len {estimate.longest}")
    if (
        estimate.fits is False
        and length
        and change.card is None
        and change.kv_dtype is None
        and change.tensor_parallel is None
    ):
        least = minimal_utilization(profile, length)
        if least is not None and least <= 0.95:
            print(f"  or: --gpu-memory-utilization {least:.2f}")
    if estimate.hint:
        complain(estimate.hint)
    for text in estimate.assumptions:
        print(plain(f"  assumed: {text}"))
