"""Keys of JoeyNMT, OpenNMT-py, Sockeye, fairseq and Hugging Face Transformers, with their counterparts here."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple


class Counterpart(NamedTuple):
    """Dotted keys of the schema that replace a foreign one, and how they differ from it."""

    keys: tuple[str, ...]
    note: str = ""

    def __str__(self) -> str:
        return f"use {' and '.join(self.keys)}" + (f" ({self.note})" if self.note else "")


def counterpart(name: str) -> Counterpart | None:
    """The counterpart of a key of another toolkit, in any section; None for an unknown name."""
    return COUNTERPARTS.get(name.lower().replace("-", "_"))


def renames(text: str) -> Iterator[str]:
    """Name the lines of a configuration of an earlier version of this toolkit whose keys have another name now."""
    for number, line in enumerate(text.split("\n"), 1):
        key = line.partition(":")[0].strip()
        if key in RENAMED:
            yield f"line {number}: an earlier version made this run; rename the key '{key}' to '{RENAMED[key]}'"


RENAMED = {"optimiser": "optimizer", "initialisation": "initialization", "normalisation": "normalization"}
"""Keys of earlier versions of this toolkit."""


_UPDATES = Counterpart(("training.updates",), "this toolkit counts optimizer updates, not epochs")
_BATCH = Counterpart(("training.batch_tokens",), "counted in tokens of the longer side, padding included")
_RATE = Counterpart(("training.optimizer.learning_rate",))
_HIDDEN = Counterpart(("model.encoder.hidden", "model.decoder.hidden"))
_LAYERS = Counterpart(("model.encoder.layers",), "the decoder has one layer")
_EMBEDDING = Counterpart(("model.embeddings.size",), "one size for both sides")
_DROPOUT = Counterpart(("model.dropout",), "a section: {embedding: 0.3, annotation: 0.3, readout: 0.3}")
_BEAM = Counterpart(("decoding.beam_size",), "validation has its own: training.validation.beam_size")
_TRAINING_LENGTH = Counterpart(("data.filter.max_pieces", "data.filter.max_words"), "longer training pairs are dropped")
_OUTPUT_LENGTH = Counterpart(("decoding.max_length_factor",), "relative to the length of the source, in pieces")
_VOCABULARY = Counterpart(("tokenizer.vocabulary",), "pieces of each side's model, or of the shared one")
_SOURCE = Counterpart(("data.source_language", "data.train.source"), "each split has a source and a target file")
_TARGET = Counterpart(("data.target_language", "data.train.target"), "each split has a source and a target file")
_TRAIN = Counterpart(("data.train",), "a section: {source: FILE, target: FILE}")
_VALIDATION = Counterpart(("data.validation",), "a section: {source: FILE, target: FILE}")
_TEST = Counterpart(("data.test",), "a section: {source: FILE, target: FILE}")
_OUTPUT = Counterpart(("output",), "the run directory, at the top level; or nmt-train --output RUN")
_PATIENCE = Counterpart(("training.validation.patience",), "counted in validations without improvement")
_METRIC = Counterpart(("training.validation.metric",), "bleu or loss")
_WARMUP = Counterpart(("training.schedule.warmup",), "in updates")
_SCHEDULE = Counterpart(("training.schedule",), "a section: {type: inverse_square_root, warmup: 1000}")
_OPTIMIZER = Counterpart(("training.optimizer",), "a section: {type: adam, learning_rate: 1e-3}")
_CLIP = Counterpart(("training.clip",), "the largest norm of the gradient")
_ACCUMULATION = Counterpart(("training.accumulation",))
_EVERY = Counterpart(("training.validation.every",), "in updates; checkpoints are saved at each validation")
_LOG = Counterpart(("training.log_every",), "in updates")
_AVERAGE = Counterpart(("training.average",), "the number of best checkpoints to average")
_PRECISION = Counterpart(("precision",), "auto, fp32 or bf16, at the top level")
_DEVICE = Counterpart(("device",), "auto, cpu, cuda, cuda:1, at the top level")
_THREADS = Counterpart(("threads",), "CPU threads of PyTorch, at the top level")
_PROCESSES = Counterpart(("data.processes",), "processes that encode the corpus")
_INITIALIZATION = Counterpart(("model.initialization",), "a section: {type: uniform, range: 0.1}")
_TIE = Counterpart(("model.embeddings.tie",), "none, target or all")
_DECODING_BATCH = Counterpart(("decoding.batch_tokens",), "in source tokens, padding included, times the beam size")
_TOKENIZER = Counterpart(("tokenizer.type",), "bpe, unigram, word, character or given")

_NAMES: Final[Mapping[Counterpart, str]] = {
    _UPDATES: "epochs num_epochs max_epochs max_epoch max_num_epochs num_train_epochs steps train_steps max_steps "
    "max_updates max_update num_updates total_steps iterations",
    _BATCH: "batch_size train_batch_size per_device_train_batch_size max_tokens batch_type normalization_type",
    _RATE: "lr initial_learning_rate base_lr",
    _HIDDEN: "hidden_size hidden_dim hidden_units rnn_size rnn_hidden_size rnn_num_hidden enc_hid_size dec_hid_size "
    "enc_hid_dim dec_hid_dim encoder_hidden_size decoder_hidden_size hid_dim d_model model_size dec_rnn_size "
    "enc_rnn_size num_units units",
    _LAYERS: "num_layers n_layers enc_layers dec_layers encoder_layers decoder_layers num_encoder_layers",
    _EMBEDDING: "emb_dim embed_dim embedding_dim embedding_size emb_size word_vec_size src_word_vec_size "
    "tgt_word_vec_size encoder_embed_dim decoder_embed_dim num_embed",
    _DROPOUT: "dropout_rate emb_dropout hidden_dropout rnn_dropout_inputs rnn_dropout_states attention_dropout "
    "dropout_prob hidden_dropout_prob",
    _BEAM: "beam beams num_beams beam_width",
    Counterpart(("decoding.length_penalty",)): "alpha lenpen length_penalty_alpha beam_alpha",
    _TRAINING_LENGTH: "max_len max_length max_sent_length max_sentence_length max_seq_len max_seq_length "
    "src_seq_length tgt_seq_length max_source_positions max_target_positions",
    _OUTPUT_LENGTH: "max_output_length max_len_a max_new_tokens max_length_a",
    _VOCABULARY: "vocab_size voc_limit src_vocab_size tgt_vocab_size trg_vocab_size num_words bpe_size num_merges "
    "vocab src_vocab tgt_vocab trg_vocab",
    Counterpart(("tokenizer.shared",), "true or false"): "share_vocab shared_vocab joined_dictionary joint_vocab",
    _TOKENIZER: "bpe tokenizer_type subword subword_type level model_type",
    Counterpart(
        ("tokenizer.normalization",), "Unicode normalization of the text"
    ): "normalisation normalization_rule_name",
    Counterpart(("data.source_language",)): "src_lang source_lang lang_src src_language",
    Counterpart(("data.target_language",)): "tgt_lang trg_lang target_lang lang_tgt lang_trg tgt_language",
    _SOURCE: "src source_file src_file path_src",
    _TARGET: "tgt trg target_file tgt_file trg_file path_tgt path_trg",
    _TRAIN: "train_src train_tgt train_trg src_train tgt_train train_file train_data training_data trainpref",
    _VALIDATION: "dev valid val dev_src dev_tgt valid_src valid_tgt val_src val_tgt validation_file validation_data "
    "validation_source validation_target validpref",
    _TEST: "test_src test_tgt test_file test_data testpref",
    _OUTPUT: "save_dir model_dir save_model output_dir output_folder out_dir exp_dir checkpoint_dir run_dir",
    Counterpart(("seed",), "at the top level"): "random_seed manual_seed",
    _PATIENCE: "early_stopping early_stopping_patience early_stop max_num_checkpoint_not_improved",
    _METRIC: "eval_metric early_stopping_metric best_checkpoint_metric metric_for_best_model optimized_metric",
    _WARMUP: "warmup_steps warmup_updates learning_rate_warmup num_warmup_steps learning_rate_warmup_steps",
    _SCHEDULE: "scheduler scheduling lr_scheduler lr_scheduler_type learning_rate_scheduler_type decay_method",
    Counterpart(("training.schedule.factor",), "of {type: plateau}"): "decrease_factor lr_shrink lr_decay "
    "learning_rate_decay learning_rate_reduce_factor",
    Counterpart(("training.schedule.floor",), "of {type: plateau}, relative to the learning rate"): "learning_rate_min "
    "min_lr",
    _OPTIMIZER: "optimiser optim optimizer_type",
    Counterpart(("training.optimizer.betas",), "a list of two"): "adam_betas adam_beta1 adam_beta2 beta1 beta2",
    Counterpart(("training.optimizer.epsilon",)): "eps adam_eps adam_epsilon",
    Counterpart(("training.optimizer.weight_decay",), "of {type: adamw}"): "wd l2",
    _CLIP: "grad_clip gradient_clip clip_norm clip_grad clip_grad_norm clip_grad_val gradient_clip_val max_grad_norm "
    "gradient_clipping_threshold gradient_clipping",
    _ACCUMULATION: "batch_multiplier accum_count accum_steps update_freq update_interval gradient_accumulation "
    "gradient_accumulation_steps accumulate_grad_batches",
    Counterpart(("training.label_smoothing",)): "smoothing label_smoothing_factor",
    _EVERY: "validation_freq valid_steps validate_interval validate_interval_updates eval_steps eval_every valid_freq "
    "checkpoint_interval",
    Counterpart(("training.save_every",), "in updates"): "save_steps save_interval save_interval_updates "
    "save_checkpoint_steps save_freq",
    _LOG: "logging_freq report_every log_interval logging_steps",
    _AVERAGE: "keep_best_ckpts avg_checkpoints keep_last_ckpts average_checkpoints",
    _PRECISION: "fp16 bf16 amp dtype mixed_precision model_dtype",
    _DEVICE: "use_cuda use_gpu use_cpu gpu gpu_ranks device_ids no_cuda cuda",
    _THREADS: "num_threads omp_num_threads",
    _PROCESSES: "num_workers workers",
    _INITIALIZATION: "initialisation initialiser initializer init init_weight param_init param_init_glorot weight_init "
    "embed_initializer bias_initializer",
    _TIE: "tied_embeddings tied_softmax share_embeddings share_decoder_embeddings share_all_embeddings "
    "share_decoder_input_output_embed weight_tying weight_tying_type tie_word_embeddings",
    Counterpart(("model.attention",), "a section: {type: bahdanau}"): "global_attention attention_type "
    "rnn_attention_type attention_mechanism attn",
    Counterpart(("model.attention.score",), "of {type: luong}"): "attention_score global_attention_function",
    Counterpart(("model.attention.input_feeding",), "of {type: luong}"): "input_feed input_feeding_decoder",
    Counterpart(("decoding",)): "testing inference generation generate translate",
    _DECODING_BATCH: "test_batch_size eval_batch_size valid_batch_size per_device_eval_batch_size",
}
COUNTERPARTS: Final[Mapping[str, Counterpart]] = {
    name: each for each, names in _NAMES.items() for name in names.split()
}
