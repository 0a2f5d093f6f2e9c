"""From configuration to objective: the only place that chooses what training minimizes."""

from nmt.config import Config, schema
from nmt.data.batching import Specials
from nmt.model import Seq2Seq
from nmt.training.guided_attention import DiagonalGuide, Guide, GuidedAttention, LinksGuide
from nmt.training.hard import hard_objective
from nmt.training.objective import Objective, TeacherForcing
from nmt.training.scheduled_sampling import ScheduledSampling


def objective_of(config: Config, model: Seq2Seq, specials: Specials) -> Objective:
    """Make the objective of a network: teacher forcing, or that of its hard attention, and what is put around it."""
    training = config.training
    smoothing = training.label_smoothing
    objective: Objective = hard_objective(config.model, model, smoothing) or TeacherForcing(smoothing)
    if training.scheduled_sampling is not None:
        forbidden = specials.target_pad, specials.target_bos
        objective = ScheduledSampling(objective, model, training.scheduled_sampling, forbidden)
    if training.guided_attention is not None:
        objective = GuidedAttention(objective, _guide(training.guided_attention), training.guided_attention.weight)
    return objective


def _guide(config: schema.AnyGuide) -> Guide:
    return DiagonalGuide(config.deviation) if isinstance(config, schema.DiagonalGuide) else LinksGuide()
