"""Explainers fitted once for all tests of a file."""

import pytest
from cases import FOREIGN, OURS, make_case


@pytest.fixture(scope="module", params=[*OURS, *FOREIGN])
def case(request):
    return make_case(request.param)


@pytest.fixture(scope="module")
def mv():
    return make_case("transformer_mv")
