"""Options of the recurrent family that are valid on their own and senseless together: each says what to write."""

import json
from pathlib import Path
from typing import Any

import pytest

from nmt.config import Config, load_config
from nmt.config.contradictions import contradictions
from nmt.errors import ConfigError
from tests.models import VARIANTS, model_config
from tests.small_run import options

BAHDANAU: dict[str, Any] = {"type": "bahdanau"}
LUONG: dict[str, Any] = {"type": "luong", "score": "general"}
AFTER: dict[str, Any] = LUONG | {"input_feeding": False}
LOCAL_M, LOCAL_P = {"type": "local_m"}, {"type": "local_p"}
MARGINAL, GUMBEL, REINFORCE = {"type": "marginal"}, {"type": "gumbel"}, {"type": "reinforce"}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A configuration whose states have 8 units, and annotations as many."""
    values = options(tmp_path_factory.mktemp("corpus"))
    values["model"] |= {"encoder": {"hidden": 4}, "decoder": {"hidden": 8}}
    return values


def found(base: dict[str, Any], **sections: Any) -> list[tuple[str, str]]:
    """Keys and texts of the problems of a model section."""
    config = Config.model_validate(base | {"model": base["model"] | sections})
    return [(problem.key, problem.text) for problem in contradictions(config)]


NO_SCORE = "has no effect for score '{}', only for {}; leave it out"
HIDDEN = "'additive', 'concat' and 'low_rank'"
ONE_SOFT = "is defined for one soft attention over all positions; use {}"
LOCATION = (
    "'{}' weighs the positions around a center, and score 'location' chooses positions itself, of which a window may "
    "have none; use scope: {{type: global}}, or another score"
)

ATTENTIONS: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    (LUONG | {"hidden": 3}, [("hidden", NO_SCORE.format("general", HIDDEN))]),
    (LUONG | {"bias": False}, [("bias", NO_SCORE.format("general", "'additive' and 'concat'"))]),
    (BAHDANAU | {"positions": 50}, [("positions", NO_SCORE.format("additive", "'location'"))]),
    (
        LUONG | {"score": "low_rank", "hidden": 8},
        [
            (
                "hidden",
                "8 is no low rank: the matrix between states and annotations has a rank of up to 8; use less, "
                "or score 'general'",
            )
        ],
    ),
    (
        LUONG | {"score": "low_rank", "hidden": 5, "heads": 2},
        [
            (
                "hidden",
                "5 is no low rank: the matrix between each head's states and annotations has a rank of up to 4; "
                "use less, or score 'general'",
            )
        ],
    ),
    (LUONG | {"score": "location", "scope": LOCAL_M}, [("scope.type", LOCATION.format("local_m"))]),
    (LUONG | {"score": "location", "scope": LOCAL_P}, [("scope.type", LOCATION.format("local_p"))]),
    (
        LUONG | {"heads": 3},
        [
            ("heads", "3 heads cannot share model.decoder.hidden (8) evenly; use a divisor"),
            ("heads", "3 heads cannot share the width of the annotations (8) evenly; use a divisor"),
        ],
    ),
    (
        LUONG | {"coverage": True},
        [("coverage", "is an option of score 'additive', and the score is 'general'; change either")],
    ),
    (BAHDANAU | {"coverage": True, "heads": 2}, [("coverage", ONE_SOFT.format("heads: 1"))]),
    (BAHDANAU | {"coverage": True, "scope": LOCAL_M}, [("coverage", ONE_SOFT.format("scope: {type: global}"))]),
    (BAHDANAU | {"coverage": True, "hard": GUMBEL}, [("coverage", ONE_SOFT.format("hard: null"))]),
    (
        AFTER | {"hard": GUMBEL, "heads": 2},
        [("hard", "reads one position, and there are several heads; use heads: 1")],
    ),
    (
        AFTER | {"hard": REINFORCE, "scope": LOCAL_P | {"normalize": False}},
        [
            (
                "scope.normalize",
                "must be true with hard attention, which takes the weights for probabilities; leave it out",
            )
        ],
    ),
    (
        BAHDANAU | {"hard": MARGINAL},
        [
            (
                "hard.type",
                "'marginal' sums over the positions of one word, and with type 'bahdanau' later words depend on them; "
                "use type 'luong' with input_feeding: false, or 'gumbel' or 'reinforce'",
            )
        ],
    ),
    (
        LUONG | {"hard": MARGINAL},
        [
            (
                "input_feeding",
                "must be false with hard: {type: marginal}, which sums over the positions of one word: with input "
                "feeding later words depend on them",
            )
        ],
    ),
]


@pytest.mark.parametrize(("attention", "said"), ATTENTIONS, ids=range(len(ATTENTIONS)))
def test_senseless_attentions(base: dict[str, Any], attention: dict[str, Any], said: list[tuple[str, str]]) -> None:
    assert found(base, attention=attention) == [(f"model.attention.{key}", text) for key, text in said]


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_a_residual_connection_needs_two_layers(base: dict[str, Any], part: str) -> None:
    hidden = base["model"][part]["hidden"]
    said = (f"model.{part}.residual", "has no effect with one layer; leave it out, or add layers")
    assert found(base, **{part: {"hidden": hidden, "residual": True}}) == [said]
    assert found(base, **{part: {"hidden": hidden, "residual": True, "layers": 2}}) == []


def test_an_initial_state_alone_reads_both_directions_or_there_is_one(base: dict[str, Any]) -> None:
    attention = {"type": "none", "context": "initial_state"}
    ((key, text),) = found(base, attention=attention)
    assert key == "model.attention.context"
    assert text.endswith("use model.encoder.directions: forward, or model.encoder.summary: mean")
    for encoder in ({"directions": "forward"}, {"summary": "mean"}):
        assert found(base, attention=attention, encoder={"hidden": 4} | encoder) == []


@pytest.mark.parametrize("hard", [MARGINAL, REINFORCE])
def test_a_custom_decoder_cannot_be_asked_for_each_position(base: dict[str, Any], hard: dict[str, Any]) -> None:
    decoder = {"type": "custom", "name": "mine", "hidden": 8}
    said = f"'{hard['type']}' needs a decoder of type 'gru', 'lstm' or 'ssru'; use one, or 'gumbel'"
    assert found(base, attention=AFTER | {"hard": hard}, decoder=decoder) == [("model.attention.hard.type", said)]
    assert found(base, attention=AFTER | {"hard": GUMBEL}, decoder=decoder) == []


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_of_the_tests_makes_sense(base: dict[str, Any], variant: str) -> None:
    assert found(base, **model_config(variant).model_dump()) == []


@pytest.mark.parametrize(
    ("section", "key", "said"),
    [
        ({"decoder": {"type": "ssru", "transitions": 2}}, "transitions", "only for 'gru' and 'lstm'"),
        ({"encoder": {"type": "lstm", "reset": "before"}}, "reset", "only for 'gru'"),
        ({"attention": {"type": "none", "heads": 2}}, "heads", "only for 'bahdanau' and 'luong'"),
        ({"attention": BAHDANAU | {"scope": {"type": "global", "window": 3}}}, "window", "'local_m' and 'local_p'"),
        ({"attention": BAHDANAU | {"scope": LOCAL_M | {"normalize": False}}}, "normalize", "only for 'local_p'"),
        ({"attention": AFTER | {"hard": MARGINAL | {"baseline": "moving"}}}, "baseline", "only for 'reinforce'"),
        ({"attention": AFTER | {"hard": REINFORCE | {"temperature": 1.0}}}, "temperature", "only for 'gumbel'"),
        ({"attention": AFTER | {"hard": REINFORCE | {"weight": 0.0}}}, "weight", "must be a number above 0"),
    ],
)
def test_options_of_another_type_are_told(
    base: dict[str, Any], tmp_path: Path, section: dict[str, Any], key: str, said: str
) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(json.dumps(base | {"model": base["model"] | section}), "utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(file, [])
    (problem,) = caught.value.problems
    assert f".{key}: " in problem
    assert said in problem
