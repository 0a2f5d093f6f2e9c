"""Keys of JoeyNMT, OpenNMT-py, Sockeye, fairseq and Hugging Face Transformers, with their counterparts here."""

import re
from collections.abc import Iterator

TABLE = """
training.epochs (or training.updates, which counts optimizer updates) <- num_epochs max_epochs max_epoch
  max_num_epochs num_train_epochs
training.updates (optimizer updates; or training.epochs) <- steps train_steps max_steps max_updates max_update
  num_updates total_steps iterations
training.batch_tokens (counted in tokens of the longer side, padding included) <- batch_size train_batch_size
  per_device_train_batch_size max_tokens batch_type normalization_type
training.optimizer.learning_rate <- lr initial_learning_rate base_lr
model.encoder.hidden and model.decoder.hidden <- hidden_size hidden_dim hidden_units rnn_size rnn_hidden_size
  rnn_num_hidden enc_hid_size dec_hid_size enc_hid_dim dec_hid_dim encoder_hidden_size decoder_hidden_size hid_dim
  d_model model_size dec_rnn_size enc_rnn_size num_units units
model.encoder.layers and model.decoder.layers <- num_layers n_layers enc_layers dec_layers encoder_layers decoder_layers
  num_encoder_layers num_decoder_layers
model.encoder.type and model.decoder.type (gru, lstm, ssru or transformer) <- rnn_type rnn_cell_type cell_type
  encoder_type decoder_type
model.encoder.directions (both or forward) <- bidirectional encoder_bidirectional brnn
model.encoder.heads and model.decoder.heads (of {type: transformer}) <- num_heads n_heads nhead attention_heads
  num_attention_heads encoder_attention_heads decoder_attention_heads transformer_attention_heads
model.encoder.feedforward and model.decoder.feedforward (of {type: transformer}) <- ff_size transformer_ff ffn_dim
  dim_feedforward encoder_ffn_dim decoder_ffn_dim encoder_ffn_embed_dim decoder_ffn_embed_dim
model.encoder.norm and model.decoder.norm (pre or post, of {type: transformer}) <- normalize_before norm_first
  encoder_normalize_before decoder_normalize_before
model.encoder.positions and model.decoder.positions (a section: {type: sinusoidal}) <- position_encoding
  position_encoding_type positional_encoding
model.embeddings.size (one size for both sides) <- emb_dim embed_dim embedding_dim embedding_size emb_size
  word_vec_size src_word_vec_size tgt_word_vec_size encoder_embed_dim decoder_embed_dim num_embed
model.dropout (a section: {embedding: 0.3, annotation: 0.3, readout: 0.3}) <- dropout_rate emb_dropout hidden_dropout
  rnn_dropout_inputs rnn_dropout_states attention_dropout dropout_prob hidden_dropout_prob
decoding.beam_size (validation has its own: training.validation.beam_size) <- beam beams num_beams beam_width
decoding.length_penalty <- alpha lenpen length_penalty_alpha beam_alpha
data.filter.max_pieces and data.filter.max_words (longer training pairs are dropped) <- max_len max_length
  max_sent_length max_sentence_length max_seq_len max_seq_length src_seq_length tgt_seq_length max_source_positions
  max_target_positions
decoding.max_length_factor (relative to the length of the source, in pieces) <- max_output_length max_len_a
  max_new_tokens max_length_a
decoding.min_length_factor (relative to the length of the source, in pieces) <- min_output_length min_len_a min_length
  min_new_tokens
decoding.no_repeat_ngram <- no_repeat_ngram_size block_ngram_repeat
decoding.coverage_penalty (the weight of Wu et al. 2016) <- coverage_beta stepwise_penalty
decoding.beam_groups <- num_beam_groups diverse_beam_groups
decoding.diversity <- diversity_penalty diverse_beam_strength
tokenizer.vocabulary (pieces of each side's model, or of the shared one) <- vocab_size voc_limit src_vocab_size
  tgt_vocab_size trg_vocab_size num_words bpe_size num_merges vocab src_vocab tgt_vocab trg_vocab
tokenizer.shared (true or false) <- share_vocab shared_vocab joined_dictionary joint_vocab
tokenizer.type (bpe, unigram, word, character or given) <- bpe tokenizer_type subword subword_type level model_type
tokenizer.sampling (a section: {alpha: 0.1}) <- bpe_dropout dropout_bpe src_subword_alpha tgt_subword_alpha
  src_subword_nbest tgt_subword_nbest subword_regularization
data.reverse_source (true or false) <- reverse_input source_reversed
tokenizer.normalization (Unicode normalization of the text) <- normalisation normalization_rule_name
data.source_language <- src_lang source_lang lang_src src_language
data.target_language <- tgt_lang trg_lang target_lang lang_tgt lang_trg tgt_language
data.source_language and data.train.source (each split has a source and a target file) <- src source_file src_file
  path_src
data.target_language and data.train.target (each split has a source and a target file) <- tgt trg target_file tgt_file
  trg_file path_tgt path_trg
data.train (a section: {source: FILE, target: FILE}) <- train_src train_tgt train_trg src_train tgt_train train_file
  train_data training_data trainpref
data.validation (a section: {source: FILE, target: FILE}) <- dev valid val dev_src dev_tgt valid_src valid_tgt val_src
  val_tgt validation_file validation_data validation_source validation_target validpref
data.test (a section: {source: FILE, target: FILE}) <- test_src test_tgt test_file test_data testpref
output (the run directory, at the top level; or nmt-train --output RUN) <- save_dir model_dir save_model output_dir
  output_folder out_dir exp_dir checkpoint_dir run_dir
seed (at the top level) <- random_seed manual_seed
training.validation.patience (counted in validations without improvement) <- early_stopping early_stopping_patience
  early_stop max_num_checkpoint_not_improved
training.validation.metric (bleu or loss) <- eval_metric early_stopping_metric best_checkpoint_metric
  metric_for_best_model optimized_metric
training.schedule.warmup (in updates) <- warmup_steps warmup_updates learning_rate_warmup num_warmup_steps
  learning_rate_warmup_steps
training.schedule (a section: {type: inverse_square_root, warmup: 1000}) <- scheduler scheduling lr_scheduler
  lr_scheduler_type learning_rate_scheduler_type decay_method
training.schedule.factor (of {type: plateau}) <- decrease_factor lr_shrink lr_decay learning_rate_decay
  learning_rate_reduce_factor
training.schedule.floor (of {type: plateau}, relative to the learning rate) <- learning_rate_min min_lr
training.optimizer (a section: {type: adam, learning_rate: 1e-3}) <- optimiser optim optimizer_type
training.optimizer.betas (a list of two) <- adam_betas adam_beta1 adam_beta2 beta1 beta2
training.optimizer.epsilon <- eps adam_eps adam_epsilon
training.optimizer.weight_decay (of {type: adamw}) <- wd l2
training.clip (the largest norm of the gradient) <- grad_clip gradient_clip clip_norm clip_grad clip_grad_norm
  clip_grad_val gradient_clip_val max_grad_norm gradient_clipping_threshold gradient_clipping
training.accumulation <- batch_multiplier accum_count accum_steps update_freq update_interval gradient_accumulation
  gradient_accumulation_steps accumulate_grad_batches
training.label_smoothing <- smoothing label_smoothing_factor
training.validation.every (in updates; checkpoints are saved at each validation) <- validation_freq valid_steps
  validate_interval validate_interval_updates eval_steps eval_every valid_freq checkpoint_interval
training.save_every (in updates) <- save_steps save_interval save_interval_updates save_checkpoint_steps save_freq
training.log_every (in updates) <- logging_freq report_every log_interval logging_steps
training.ema.decay (of {decay: 0.999}) <- ema_decay average_decay moving_average_decay exponential_smoothing
training.guided_attention (a section: {type: diagonal, weight: 1.0}) <- guided_alignment guided_alignment_weight
  lambda_align alignment_loss_weight
training.scheduled_sampling (a section: {type: inverse_sigmoid, k: 3000}) <- teacher_forcing teacher_forcing_ratio
model.dropout.word (whole words of a sentence) <- word_dropout token_dropout src_word_dropout tgt_word_dropout
training.average (the number of best checkpoints to average; average_of: last for the last) <- keep_best_ckpts
  avg_checkpoints keep_last_ckpts average_checkpoints
precision (auto, fp32 or bf16, at the top level) <- fp16 bf16 amp dtype mixed_precision model_dtype
device (auto, cpu, cuda, cuda:1, at the top level) <- use_cuda use_gpu use_cpu gpu gpu_ranks device_ids no_cuda cuda
threads (CPU threads of PyTorch, at the top level) <- num_threads omp_num_threads
data.processes (processes that encode the corpus) <- num_workers workers
model.initialization (a section: {type: uniform, range: 0.1}) <- initialisation initialiser initializer init
  init_weight param_init param_init_glorot weight_init embed_initializer bias_initializer
model.embeddings.tie (none, target or all) <- tied_embeddings tied_softmax share_embeddings share_decoder_embeddings
  share_all_embeddings share_decoder_input_output_embed weight_tying weight_tying_type tie_word_embeddings
model.attention (a section: {type: bahdanau}) <- global_attention attention_type rnn_attention_type
  attention_mechanism attn
model.attention.score (of {type: luong}) <- attention_score global_attention_function
model.attention.input_feeding (of {type: luong}) <- input_feed input_feeding_decoder
model.attention.coverage (true, with the additive score) <- coverage_attn
decoding <- testing inference generation generate translate
decoding.batch_tokens (in source tokens, padding included, times the beam size) <- test_batch_size eval_batch_size
  valid_batch_size per_device_eval_batch_size
"""
"""Keys of the schema (how they differ) <- keys of other toolkits that they replace."""
COUNTERPARTS = {
    name: keys
    for keys, names in (entry.split(" <- ") for entry in re.split(r"\n(?! )", TABLE.strip()))
    for name in names.split()
}
SCORES = {"mlp": "additive", "multiplicative": "general", "bilinear": "general"}
"""Scores of attention by the names that OpenNMT, Sockeye and textbooks give them, and by ours."""
RENAMED = {"optimiser": "optimizer", "initialisation": "initialization", "normalisation": "normalization"}
"""Keys of earlier versions of this toolkit."""


def counterpart(name: str) -> str | None:
    """The counterpart of a key of another toolkit, in any section; None for an unknown name."""
    return COUNTERPARTS.get(name.lower().replace("-", "_"))


def renames(text: str) -> Iterator[str]:
    """Name the lines of a configuration of an earlier version of this toolkit whose keys have another name now."""
    for number, line in enumerate(text.split("\n"), 1):
        key = line.partition(":")[0].strip()
        if key in RENAMED:
            yield f"line {number}: an earlier version made this run; rename the key '{key}' to '{RENAMED[key]}'"
