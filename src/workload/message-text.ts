/** The text of an OpenAI-style message. */

/** Joins the parts by line breaks, as vLLM does, so that files and requests give the same prompt. */
export const messageText = (content: string | readonly { text: string }[]): string =>
  typeof content === 'string' ? content : content.map(({ text }) => text).join('\n');
