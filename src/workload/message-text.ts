/** What a message of OpenAI's shape says. */

/** Parts are joined by a line break, as vLLM joins them: files and requests make the same prompt. */
export const messageText = (content: string | readonly { text: string }[]): string =>
  typeof content === 'string' ? content : content.map(({ text }) => text).join('\n');
