/**
 * Fields that would change the answer and are not served: taken only where they ask for nothing, since what is ignored in
 * silence is a wrong answer. Names: vLLM's and OpenAI's.
 */
import { z } from 'zod';

/** `wanted`: in words; `values`: what asks for nothing, as null does. */
const only = (wanted: string, ...values: unknown[]) => {
  const texts = values.map((value) => JSON.stringify(value));
  return z
    .custom((found) => found == null || texts.includes(JSON.stringify(found)), { error: wanted })
    .optional();
};

const nothing = (name: string, ...values: unknown[]) => only(`nothing: ${name} is not served`, ...values);
const penalty = '0: penalties are not served';
const structured = (name: string) => only(`nothing: ${name} is structured output, which is not served`);
const template = "nothing: the chat template is the model's own";

/** Of what turns messages into a prompt. */
export const refusedTemplateFields = {
  tools: only('nothing: tools are not served', []),
  documents: nothing('documents', []),
  chat_template: only(template),
  chat_template_kwargs: only(template, {}),
};

export const refusedFields = {
  ...refusedTemplateFields,
  functions: only('nothing: tools are not served', []),
  function_call: only('"none": tools are not served', 'none', 'auto'),
  tool_choice: only('"none": tools are not served', 'none', 'auto'),
  structured_outputs: structured('structured_outputs'),
  guided_json: structured('guided_json'),
  guided_regex: structured('guided_regex'),
  guided_choice: structured('guided_choice'),
  guided_grammar: structured('guided_grammar'),
  guided_json_object: structured('guided_json_object'),
  structural_tag: structured('structural_tag'),
  response_format: only('{"type": "text"}: structured output is not served', { type: 'text' }),
  best_of: only('1: as many answers are made as n says', 1),
  use_beam_search: only('false: beam search is not served', false),
  presence_penalty: only(penalty, 0),
  frequency_penalty: only(penalty, 0),
  repetition_penalty: only('1: penalties are not served', 1),
  length_penalty: only('1: penalties are not served', 1),
  min_p: only('0: min_p is not served', 0),
  logit_bias: nothing('logit_bias', {}),
  logits_processors: nothing('logits_processors', []),
  truncate_prompt_tokens: only('nothing: prompts are not truncated; shorten it'),
  prompt_embeds: nothing('prompt_embeds'),
  prompt_logprobs: only('nothing: logprobs of the prompt are not served'),
  detokenize: only('true: ask /inference/v1/generate for token ids alone', true),
  spaces_between_special_tokens: only('true: special tokens are written as they stand', true),
  echo: only('false: the prompt is not returned', false),
  suffix: nothing('suffix', ''),
  return_tokens_as_token_ids: only('false: ask /inference/v1/generate, whose answers are token ids', false),
  modalities: only('["text"]: nothing else is served', ['text']),
  audio: nothing('audio'),
  prediction: nothing('prediction'),
  web_search_options: nothing('web_search_options'),
  priority: only('0: requests are served in the order in which they come', 0),
};
