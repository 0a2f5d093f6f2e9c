"""The reliability diagram: how many translations of each probability are good (Niculescu-Mizil & Caruana 2005)."""

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from nmt.evaluation.confidence import GOOD, calibration_error
from nmt.evaluation.figures.style import GREY, plain, series, style, write_caption
from nmt.evaluation.metrics import Floats


def draw_reliability(bins: Floats, text: str) -> Figure:
    """Draw the share of good translations against their mean probability, with their number, for each of the bins of
    :func:`~nmt.evaluation.confidence.reliability`."""
    with style():
        figure = Figure(figsize=(4.6, 4.8), layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06))
        axes = figure.add_subplot(xlim=(0, 1), ylim=(0, 1), xlabel="Probability of a good translation")
        axes.set_ylabel(f"Share of translations with a chrF of at least {GOOD:g}")
        axes.plot((0, 1), (0, 1), color=GREY, linewidth=0.8)
        axes.plot(bins[:, 1], bins[:, 2], **series(0), clip_on=False)
        for count, probability, share in bins.tolist():
            axes.annotate(f"{count:,.0f}", (probability, share), (6, -10), textcoords="offset points", fontsize=8)
        about = f"{plain(text, 60)}: {bins[:, 0].sum():,.0f} translations, their number at each point."
        write_caption(figure, [f"{about} Calibration error: {calibration_error(bins):.3f}."])
    return figure
