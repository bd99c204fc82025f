/** vLLM's generator files for tests, in one line each. */

/** A constant, or the two ends of a uniform distribution. */
type Count = number | readonly [number, number];

const distribution = (count: Count) =>
  typeof count === 'number'
    ? { distribution: 'constant', value: count }
    : { distribution: 'uniform', min: count[0], max: count[1] };

/** `turns`: messages of both sides, as in vLLM. The rest: tokens of the common prefix, own prefix and each message. */
export const generator = (counts: {
  conversations: number;
  turns: Count;
  common?: number;
  prefix: Count;
  input: Count;
  output: Count;
}) => ({
  filetype: 'generate_conversations',
  num_conversations: counts.conversations,
  prompt_input: {
    num_turns: distribution(counts.turns),
    ...(counts.common === undefined ? {} : { common_prefix_num_tokens: distribution(counts.common) }),
    prefix_num_tokens: distribution(counts.prefix),
    num_tokens: distribution(counts.input),
  },
  prompt_output: { num_tokens: distribution(counts.output) },
});
