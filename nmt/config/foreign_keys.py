"""Frequent keys of JoeyNMT, OpenNMT-py, Sockeye, fairseq and Hugging Face Transformers, and their counterparts here."""

TABLE = """
training.epochs or training.updates < num_epochs max_epochs max_epoch max_num_epochs num_train_epochs
training.updates < steps train_steps max_steps max_updates max_update num_updates total_steps iterations
training.batch_tokens (tokens of the longer side, padding included) < batch_size train_batch_size max_tokens batch_type
training.optimizer.learning_rate < lr initial_learning_rate base_lr
model.encoder.hidden and model.decoder.hidden < hidden_size hidden_dim rnn_size rnn_num_hidden hid_dim d_model
model.encoder.layers and model.decoder.layers < num_layers n_layers enc_layers dec_layers encoder_layers decoder_layers
model.encoder.type and model.decoder.type < rnn_type rnn_cell_type cell_type encoder_type decoder_type
model.encoder.directions < bidirectional encoder_bidirectional brnn
model.encoder.heads and model.decoder.heads < num_heads n_heads nhead attention_heads num_attention_heads
model.encoder.feedforward and model.decoder.feedforward < ff_size transformer_ff ffn_dim dim_feedforward
model.embeddings.size < emb_dim embed_dim embedding_dim embedding_size emb_size word_vec_size num_embed
model.embeddings.tie < tied_embeddings tied_softmax share_embeddings weight_tying tie_word_embeddings
model.dropout (a section) < dropout_rate emb_dropout hidden_dropout attention_dropout
model.initialization (a section) < initializer init param_init weight_init
model.attention (a section) < global_attention attention_type attention_mechanism attn
model.attention.score < attention_score global_attention_function
model.attention.input_feeding < input_feed
decoding.beam_size < beam beams num_beams beam_width
decoding.length_penalty < alpha lenpen beam_alpha
decoding.max_length_factor (relative to the source) < max_output_length max_len_a max_new_tokens
decoding.no_repeat_ngram < no_repeat_ngram_size block_ngram_repeat
data.filter.max_pieces or data.filter.max_words < max_len max_length max_sent_length max_seq_len src_seq_length
tokenizer.vocabulary < vocab_size voc_limit src_vocab_size tgt_vocab_size bpe_size num_merges vocab src_vocab tgt_vocab
tokenizer.shared < share_vocab shared_vocab joined_dictionary joint_vocab
tokenizer.sampling (a section) < bpe_dropout subword_regularization
data.source_language < src_lang source_lang src_language
data.target_language < tgt_lang trg_lang target_lang tgt_language
data.train (a section) < train_src train_tgt train_trg src_train tgt_train train_file train_data trainpref
data.validation (a section) < dev valid val dev_src dev_tgt valid_src valid_tgt validation_file validpref
data.test (a section) < test_src test_tgt test_file testpref
output (at the top level) < save_dir model_dir save_model output_dir checkpoint_dir run_dir
seed (at the top level) < random_seed manual_seed
precision (at the top level) < fp16 bf16 amp mixed_precision
device (at the top level) < use_cuda use_gpu gpu gpu_ranks no_cuda cuda
training.validation.patience < early_stopping early_stopping_patience early_stop
training.validation.metric < eval_metric early_stopping_metric best_checkpoint_metric metric_for_best_model
training.validation.every (updates) < validation_freq valid_steps eval_steps eval_every checkpoint_interval
training.save_every (updates) < save_steps save_interval save_checkpoint_steps
training.log_every (updates) < logging_freq report_every log_interval logging_steps
training.schedule (a section) < scheduler scheduling lr_scheduler lr_scheduler_type decay_method
training.schedule.warmup (updates) < warmup_steps warmup_updates learning_rate_warmup
training.optimizer (a section) < optim
training.optimizer.betas (a list of two) < adam_betas adam_beta1 adam_beta2 beta1 beta2
training.clip (norm of the gradient) < grad_clip gradient_clip clip_norm clip_grad_norm max_grad_norm
training.accumulation < batch_multiplier accum_count update_freq update_interval gradient_accumulation_steps
training.label_smoothing < smoothing label_smoothing_factor
training.average < avg_checkpoints keep_best_ckpts average_checkpoints
decoding < testing inference generation
"""
"""A key of the schema (how it differs) < the keys of other toolkits that it replaces."""
COUNTERPARTS = {
    name: ours for ours, theirs in (row.split(" < ") for row in TABLE.strip().split("\n")) for name in theirs.split()
}
SCORES = {"mlp": "additive", "multiplicative": "general", "bilinear": "general"}
"""Scores of attention by the names that OpenNMT, Sockeye and textbooks give them."""


def counterpart(name: str) -> str | None:
    """The counterpart of a key of another toolkit, in any section; None for an unknown name."""
    return COUNTERPARTS.get(name.lower().replace("-", "_"))
