"""Reference of all options: the typed schema of a run, with the meaning, bounds and default of each option.

Unknown keys are errors. Where the variants of a section have different options, ``type:`` selects the variant (for a
corpus, a key that only this kind has), and an option of another variant is an error too. Except for a corpus, a word
alone is a type with its defaults. The text below an option describes it; ``null`` is the default of every option that
is written ``... | None = None``. A section's ``contradictions`` are the options that are valid on their own and not
together.
"""

from nmt.config.schema.attention import *
from nmt.config.schema.base import *
from nmt.config.schema.data import *
from nmt.config.schema.model import *
from nmt.config.schema.network import *
from nmt.config.schema.optimizer import *
from nmt.config.schema.recurrent import *
from nmt.config.schema.run import *
from nmt.config.schema.training import *
from nmt.config.schema.transformer import *
