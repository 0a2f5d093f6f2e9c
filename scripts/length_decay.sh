#!/bin/bash
# All that docs/length-decay.md is made of, and the page: `make figure`. What is there already is left alone.
#
#   SIZE   cpu: an hour a model on two cores; gpu: the widths of the paper
#   SEEDS  of the trainings, as in "1 2 3"
#   BIN    where the commands are
#   DATA, CONFIGS_FROM, RUNS, PAGE, SYSTEMS, WITH_ATTENTION, TESTS: other corpora, systems and places, for a trial
set -euo pipefail

SIZE=${SIZE:-cpu} SEEDS=${SEEDS:-1} BIN=${BIN:-.venv/bin}
DATA=${DATA:-data/downloads}
CONFIGS_FROM=${CONFIGS_FROM:-configs/europarl/$SIZE}
RUNS=${RUNS:-runs/length-decay/$SIZE}
PAGE=${PAGE:-docs/length-decay.md}
SYSTEMS=${SYSTEMS:-rnnencdec-30 rnnencdec-50 rnnsearch-30 rnnsearch-50 luong-50}
WITH_ATTENTION=${WITH_ATTENTION:-rnnsearch-30 rnnsearch-50 luong-50}
TESTS=${TESTS:-europarl/test_lenstrat europarl/test3000 newstest/newstest2014}
GOLD=$DATA/hansards/test

for test in $TESTS; do
    for file in "$DATA/$test".{en,fr}; do
        [ -e "$file" ] || { echo "make figure needs $file; data/README.md says where it comes from." \
            "For systems and text of your own: make figure CONFIGS=... SOURCE=... REFERENCE=..." >&2; exit 2; }
    done
done

for test in $TESTS; do
    lengths= # of the headline: the share of BLEU at 11 to 20 words that is kept at 51 to 70
    [ "$(basename "$test")" = test_lenstrat ] && lengths=" --short 11-20 --long 51-70"
    make --no-print-directory figure SEEDS="$SEEDS" FIGURE="$RUNS" ARGS="--title $(basename "$test")$lengths" \
        CONFIGS="$(printf "$CONFIGS_FROM/%s.yaml " $SYSTEMS)" SOURCE="$DATA/$test.en" REFERENCE="$DATA/$test.fr"
done

if [ -e "$GOLD.talp" ]; then
    for name in $WITH_ATTENTION; do
        for seed in $SEEDS; do
            scores=$RUNS/$name/hansards.seed-$seed.json
            [ "$scores" -nt "$RUNS/$name/.seed-$seed.finished" ] || "$BIN/nmt-evaluate" --model "$RUNS/$name/seed-$seed" \
                --source "$GOLD.en" --reference "$GOLD.fr" --gold "$GOLD.talp" --gold-first 1 --json "$scores"
        done
    done
else
    echo "$GOLD.talp is not there: the page is written without word alignment"
fi

"$BIN/python" scripts/length_decay.py --runs "$RUNS" --output "$PAGE"
