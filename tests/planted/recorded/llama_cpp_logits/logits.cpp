// Prints the logits of given tokens as llama.cpp's library works them out on a CPU, as float32, a row a token;
// of an encoder the embedding of all, as llama_get_embeddings_seq has it, or without pooling each token's.
// The first PROMPT tokens are read at once, all others one by one. tests/planted/recorded_logits.py runs it.
//
//   logits MODEL.gguf PROMPT TOKEN.. > logits.f32
#include "ggml-backend.h"
#include "llama.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

int main(int count, char **words) {
  llama_log_set([](ggml_log_level level, const char *text, void *) {
    if (level >= GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
  }, nullptr);
  if (const char *folder = getenv("GGML_BACKENDS")) ggml_backend_load_all_from_path(folder);
  llama_backend_init();
  llama_model_params of_model = llama_model_default_params();
  of_model.n_gpu_layers = 0;
  llama_model *model = llama_model_load_from_file(words[1], of_model);
  if (!model) return 1;

  // caches of float32, and no attention that rounds: what is left is the rounding of float32
  llama_context_params of_context = llama_context_default_params();
  of_context.n_ctx = of_context.n_batch = of_context.n_ubatch = 512;
  of_context.type_k = of_context.type_v = GGML_TYPE_F32;
  of_context.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  char architecture[64] = "";
  llama_model_meta_val_str(model, "general.architecture", architecture, sizeof architecture);
  const bool encodes = strstr(architecture, "bert") != nullptr;
  of_context.embeddings = encodes;
  llama_context *context = llama_init_from_model(model, of_context);
  if (!context) return 1;

  const int tokens = count - 3, prompt = atoi(words[2]);
  const int words_known = llama_vocab_n_tokens(llama_model_get_vocab(model));
  llama_batch batch = llama_batch_init(tokens, 0, 1);
  for (int at = 0; at < tokens; at += batch.n_tokens) {
    batch.n_tokens = at ? 1 : prompt < tokens ? prompt : tokens;
    for (int i = 0; i < batch.n_tokens; i++) {
      batch.token[i] = atoi(words[3 + at + i]);
      batch.pos[i] = at + i;
      batch.n_seq_id[i] = 1;
      batch.seq_id[i][0] = 0;
      batch.logits[i] = 1;
    }
    if (encodes ? llama_encode(context, batch) : llama_decode(context, batch)) return 1;
    if (encodes) {
      const bool pools = llama_pooling_type(context) != LLAMA_POOLING_TYPE_NONE;
      for (int i = 0; i < (pools ? 1 : batch.n_tokens); i++)
        fwrite(pools ? llama_get_embeddings_seq(context, 0) : llama_get_embeddings_ith(context, i), 4,
               llama_model_n_embd(model), stdout);
      continue;
    }
    for (int i = 0; i < batch.n_tokens; i++) fwrite(llama_get_logits_ith(context, i), 4, words_known, stdout);
  }
  return 0;
}
