"""Attention weights as bytes: fine where a reader looks, coarse where nothing is seen.

The byte of a weight a is round(255 sqrt(min(-ln a, 16) / 16)), and 255 means 0, so that a = exp(-16 (byte / 255)^2).
Bytes above ``FAINT`` (a < 1.06%) are rounded to multiples of ``STEP``, those above ``TAIL`` (a < 0.012%) to
multiples of ``TAIL_STEP``: one by one they cannot be seen and would be half of the page, but at a temperature above
1 they add up to much of the entropy. A weight that comes back is off by less than 0.0068, a weight under 1% by less
than 0.0018, one under 3e-7 is 0; rows are to be normalized again.
"""

import base64

import numpy as np
import numpy.typing as npt

RANGE = 16.0
"""-ln of the smallest weight that a byte could say."""
ZERO = 255
FAINT, STEP = 136, 4
TAIL, TAIL_STEP = 192, 16
Bytes = npt.NDArray[np.uint8]


def quantized(weights: npt.NDArray[np.floating]) -> Bytes:
    """Weights (T, S) -> bytes (T, S)."""
    with np.errstate(divide="ignore"):
        energies = -np.log(weights.astype(np.float64))
    codes = np.rint(ZERO * np.sqrt(np.clip(energies, 0.0, RANGE) / RANGE))
    codes = np.where(codes > FAINT, np.rint(codes / STEP) * STEP, codes)
    codes = np.where(codes > TAIL, np.rint(codes / TAIL_STEP) * TAIL_STEP, codes)
    return np.where(codes > ZERO, ZERO, codes).astype(np.uint8)


def restored(codes: Bytes) -> npt.NDArray[np.float64]:
    """Return what the page reads of bytes (T, S), before it normalizes the rows."""
    return np.where(codes == ZERO, 0.0, np.exp(-RANGE * (codes / ZERO) ** 2))


def packed(weights: npt.NDArray[np.floating]) -> str:
    """Weights (T, S) -> base64 of the bytes, row by row."""
    return base64.b64encode(quantized(weights).tobytes()).decode("ascii")
