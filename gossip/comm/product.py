"""The product of a mixing matrix and rows, prepared once per matrix rather than once per step."""

from collections.abc import Callable

import numpy as np
import torch
from scipy.sparse import csr_array, diags_array
from torch import Tensor

MatrixProduct = Callable[[Tensor], Tensor]
"""x [columns, d] -> w x [rows, d]."""

DENSE_FROM = 0.5
"""Share of non-zeros from which a dense product is faster than a sparse one (n = 5, 16, 64)."""


def product(w: csr_array) -> MatrixProduct:
    """The function x [columns, d] -> w x [rows, d]; w is prepared once for each kind of tensor."""
    prepared: dict[tuple[torch.dtype, torch.device], MatrixProduct] = {}

    def multiply(x: Tensor) -> Tensor:
        kind = (x.dtype, x.device)
        if kind not in prepared:
            prepared[kind] = _prepared(w, *kind)
        return prepared[kind](x)

    return multiply


def rounded(w: csr_array, wire: torch.dtype | None) -> MatrixProduct:
    r"""X [n, d] -> W x where other learners' rows count as they travel.

    .. math:: W_{jj} x_j + \sum_{k \ne j} W_{jk}\, \mathrm{wire}(x_k)

    Args:
        w: mixing matrix.
        wire: dtype to which rows are rounded; None: they are not, and it is `product`.
    """
    if wire is None:
        return product(w)
    diagonal = w.diagonal()
    others = product(csr_array(w - diags_array(diagonal)))

    def multiply(x: Tensor) -> Tensor:
        own = torch.as_tensor(diagonal, dtype=x.dtype, device=x.device).unsqueeze(1)
        return others(x.to(wire).to(x.dtype)).addcmul_(own, x)

    return multiply


def _prepared(w: csr_array, dtype: torch.dtype, device: torch.device) -> MatrixProduct:
    """The product for tensors of this dtype and device.

    SciPy's CSR kernel reads and writes the tensors' memory in place and beat torch's sparse
    product on a CPU at every n tried; it has no half precision and no CUDA.
    """
    sparse_fits = w.nnz < DENSE_FROM * w.shape[0] * w.shape[1]
    if sparse_fits and device.type == "cpu" and dtype in (torch.float32, torch.float64):
        csr = w.astype(np.float32 if dtype == torch.float32 else np.float64)
        return lambda x: torch.from_numpy(csr @ x.detach().numpy())
    dense = torch.as_tensor(w.toarray(), dtype=dtype, device=device)
    return lambda x: dense @ x
