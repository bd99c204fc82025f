/**
 * Fields of vLLM and OpenAI that would change the answer but are not supported. Only their neutral values are accepted:
 * ignoring any other value silently would give a wrong answer.
 */
import { z } from 'zod';

/** `wanted`: for the error message; `values`: the neutral values, in addition to null. */
const only = (wanted: string, ...values: unknown[]) => {
  const texts = values.map((value) => JSON.stringify(value));
  return z
    .custom((found) => found == null || texts.includes(JSON.stringify(found)), { error: wanted })
    .optional();
};

const nothing = (name: string, ...values: unknown[]) => only(`none (${name} is not supported)`, ...values);
const penalty = '0 (penalties are not supported)';
const structured = (name: string) => only(`none (${name} is structured output, which is not supported)`);
const reasoning = 'none (reasoning is not put into prompts: leave it out, or make it part of content)';
const template = "none (the model's own chat template is always used)";

const priority = only('0 (requests are served in order of arrival)', 0);

/** Fields that affect how messages become a prompt. */
export const refusedTemplateFields = {
  tools: only('none (tools are not supported)', []),
  documents: nothing('documents', []),
  chat_template: only(template),
  chat_template_kwargs: only(template, {}),
};

/** Fields of one message. Others that are not listed (name, tool_call_id, refusal, annotations) are ignored. */
export const refusedMessageFields = {
  tool_calls: only('none (tools are not supported)', []),
  function_call: only('none (tools are not supported)'),
  reasoning: only(reasoning, ''),
  reasoning_content: only(reasoning, ''),
  audio: nothing('audio'),
};

export const refusedFields = {
  ...refusedTemplateFields,
  reasoning_effort: only("no value (the model's own chat template decides whether it reasons)"),
  thinking_token_budget: only('-1 (reasoning has no budget of its own)', -1),
  functions: only('none (tools are not supported)', []),
  function_call: only('"none" (tools are not supported)', 'none', 'auto'),
  tool_choice: only('"none" (tools are not supported)', 'none', 'auto'),
  structured_outputs: structured('structured_outputs'),
  guided_json: structured('guided_json'),
  guided_regex: structured('guided_regex'),
  guided_choice: structured('guided_choice'),
  guided_grammar: structured('guided_grammar'),
  guided_json_object: structured('guided_json_object'),
  structural_tag: structured('structural_tag'),
  response_format: only('{"type": "text"} (structured output is not supported)', { type: 'text' }),
  best_of: only('1 (exactly n answers are generated)', 1),
  use_beam_search: only('false (beam search is not supported)', false),
  presence_penalty: only(penalty, 0),
  frequency_penalty: only(penalty, 0),
  repetition_penalty: only('1 (penalties are not supported)', 1),
  length_penalty: only('1 (penalties are not supported)', 1),
  min_p: only('0 (min_p is not supported)', 0),
  logit_bias: nothing('logit_bias', {}),
  logits_processors: nothing('logits_processors', []),
  truncate_prompt_tokens: only('none (prompts are not truncated; shorten it)'),
  prompt_embeds: nothing('prompt_embeds'),
  logprob_token_ids: only('none (top_logprobs returns the most likely tokens)'),
  repetition_detection: nothing('repetition_detection', {}),
  trace_decode_token_ids: nothing('trace_decode_token_ids'),
  watermarking: only('false (watermarking is not supported)', false),
  prompt_logprobs: only('none (logprobs of the prompt are not supported)'),
  detokenize: only('true (use /inference/v1/generate to get only token ids)', true),
  spaces_between_special_tokens: only('true (special tokens are written unchanged)', true),
  echo: only('false (the prompt is not returned)', false),
  suffix: nothing('suffix', ''),
  return_tokens_as_token_ids: only('false (use /inference/v1/generate, which returns token ids)', false),
  modalities: only('["text"] (nothing else is supported)', ['text']),
  audio: nothing('audio'),
  prediction: nothing('prediction'),
  web_search_options: nothing('web_search_options'),
  priority,
};

/** Fields of /inference/v1/generate outside sampling_params. */
export const refusedGenerateFields = { features: only('none (prompts are tokens only)'), priority };
