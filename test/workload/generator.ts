/** vLLM's generator files for tests, as a line. */

/** The same each time, or uniform from and to. */
type Count = number | readonly [number, number];

const distribution = (count: Count) =>
  typeof count === 'number'
    ? { distribution: 'constant', value: count }
    : { distribution: 'uniform', min: count[0], max: count[1] };

/** Turns as vLLM counts them: messages, of both sides. Tokens of what begins all of them, then one, and of each message. */
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
