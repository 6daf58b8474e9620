"""CUDA's device numbers to NVML's: certain, or None."""

from __future__ import annotations

import os

import psutil
import pytest

from vlogdiag.live.cuda_mapping import (
    CudaEnvironment,
    environment_of,
    gpu_of_bus_id,
    gpu_of_index,
    gpu_of_uuid,
    process_environment,
)
from vlogdiag.model import Gpu, Unavailable

UUIDS = (
    "GPU-aaaa1111-0000-0000-0000-000000000000",
    "GPU-aaaa2222-0000-0000-0000-000000000000",
    "GPU-bbbb3333-0000-0000-0000-000000000000",
    "GPU-cccc4444-0000-0000-0000-000000000000",
)
ALIKE = tuple(
    Gpu(index, name="NVIDIA H100 80GB HBM3", uuid=uuid, bus_id=f"00000000:{index + 1:X}1:00.0")
    for index, uuid in enumerate(UUIDS)
)
MIXED = (*ALIKE[:3], Gpu(3, name="NVIDIA T4", uuid=UUIDS[3], bus_id="00000000:41:00.0"))
SPLIT = tuple(
    Gpu(
        index,
        name="NVIDIA A100-SXM4-80GB",
        uuid=UUIDS[index],
        mig=True,
        mig_devices=((f"MIG-{index}a-0", 10, 1), (f"MIG-{index}b-0", 10, 1)),
    )
    for index in range(2)
)
Environment = CudaEnvironment


@pytest.mark.parametrize(
    ("why", "gpus", "environment", "index", "expected"),
    [
        ("no variable, equal cards: CUDA counts as NVML does", ALIKE, Environment(), 2, 2),
        ("no variable, unequal cards: the fastest comes first, whichever that is", MIXED, Environment(), 0, None),
        ("unequal cards counted by bus on request", MIXED, Environment(order="PCI_BUS_ID"), 3, 3),
        ("a list of numbers renumbers", ALIKE, Environment("2,3"), 0, 2),
        ("a list of numbers reorders", ALIKE, Environment("3,1"), 1, 1),
        ("blanks in the list", ALIKE, Environment(" 2 , 3 "), 1, 3),
        ("numbers among unequal cards mean nothing certain", MIXED, Environment("2,3"), 0, None),
        ("numbers among unequal cards by bus", MIXED, Environment("2,3", order="PCI_BUS_ID"), 1, 3),
        ("a number that is not there ends the list", ALIKE, Environment("1,9,2"), 1, None),
        ("a negative number ends the list", ALIKE, Environment("1,-1,2"), 1, None),
        ("an empty list shows nothing", ALIKE, Environment(""), 0, None),
        ("NoDevFiles shows nothing", ALIKE, Environment("NoDevFiles"), 0, None),
        ("a UUID", ALIKE, Environment(f"{UUIDS[2]},{UUIDS[0]}"), 1, 0),
        ("the beginning of a UUID", ALIKE, Environment("GPU-bbbb"), 0, 2),
        ("a beginning that two share", ALIKE, Environment("GPU-aaaa"), 0, None),
        ("UUIDs among unequal cards are certain", MIXED, Environment(UUIDS[3]), 0, 3),
        ("a UUID of another machine", ALIKE, Environment("GPU-dddd"), 0, None),
        ("a MIG device", SPLIT, Environment("MIG-1b-0"), 0, 1),
        ("an old name of a MIG device", SPLIT, Environment(f"MIG-{UUIDS[1]}/3/0"), 0, 1),
        ("a number where MIG is on", SPLIT, Environment("0"), 0, None),
        ("no variable where MIG is on", SPLIT, Environment(), 0, None),
        ("nothing is known of the process", ALIKE, None, 0, None),
        ("one card: nothing to confuse", ALIKE[:1], None, 0, 0),
        ("one card, another number", ALIKE[:1], None, 1, None),
        ("one card that NVML numbers otherwise", (ALIKE[2],), None, 0, 2),
        ("a number beyond the cards", ALIKE, Environment(), 4, None),
        ("a negative number", ALIKE, Environment(), -1, None),
        ("no card", (), Environment(), 0, None),
        ("a container with two of four, seen from outside", ALIKE, Environment(container="1,3"), 1, 3),
        ("the container's list does not set the order", ALIKE, Environment(container="3,1"), 0, 1),
        ("a container with UUIDs, seen from outside", ALIKE, Environment(container=f"{UUIDS[2]},{UUIDS[3]}"), 0, 2),
        ("a list within the container's list", ALIKE, Environment("1", container="1,3"), 0, 3),
        ("seen from inside NVML shows no more than the container has", ALIKE[:2], Environment(container="5,6"), 1, 1),
        ("a container with all cards", ALIKE, Environment(container="all"), 2, 2),
        ("a container's list that names unknown cards", ALIKE, Environment(container="GPU-dddd,GPU-eeee"), 0, None),
    ],
)
def test_the_index_of_a_log_line(
    why: str, gpus: tuple[Gpu, ...], environment: CudaEnvironment | None, index: int, expected: int | None
) -> None:
    assert gpu_of_index(index, gpus, environment) == expected, why


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000000:C1:00.0", 1),
        ("0000:c1:00.0", 1),
        ("0000:c1:00", 1),
        ("c1:00.0", 1),
        ("0001:c1:00.0", 2),
        ("0000:c2:00.0", None),
        ("not a bus id", None),
        ("", None),
    ],
)
def test_a_bus_id_in_any_spelling(text: str, expected: int | None) -> None:
    gpus = (
        Gpu(0, bus_id=None),
        Gpu(1, bus_id="00000000:C1:00.0"),
        Gpu(2, bus_id="00000001:C1:00.0"),
    )
    assert gpu_of_bus_id(text, gpus) == expected


def test_a_uuid_in_any_case() -> None:
    assert gpu_of_uuid(UUIDS[1].upper(), ALIKE) == 1
    assert gpu_of_uuid("GPU-", ALIKE) is None
    assert gpu_of_uuid("", ALIKE) is None


def test_an_empty_variable_is_not_an_unset_one() -> None:
    assert environment_of({"CUDA_VISIBLE_DEVICES": ""}) == CudaEnvironment(visible="")
    assert environment_of({}) == CudaEnvironment()


def test_the_environment_of_a_process_is_read_where_it_may_be() -> None:
    assert isinstance(process_environment(os.getpid()), CudaEnvironment)
    gone = max(psutil.pids()) + 10_000_000
    assert isinstance(process_environment(gone), Unavailable)
