/** A text word by word. Each word can be pointed at; words in the block that is pointed at are marked. */
import type { Part, TurnView } from '../session/types.ts';

/** Each word is an element. Of a pasted book, only this many words can be pointed at. */
const MOST_WORDS = 1000;

interface Props {
  turnId: string;
  part: Part;
  text: string;
  /** Start and end of the marked characters in the trimmed text; null: none. */
  lit: readonly [number, number] | null;
}

export function Words({ turnId, part, text, lit }: Props) {
  // Words, and the spaces between them.
  const pieces = text.trim().split(/(\s+)/);
  let start = 0;
  return (
    <>
      {pieces.slice(0, 2 * MOST_WORDS).map((word) => {
        const at = start;
        start += word.length;
        if (word.trim() === '') return word;
        const isLit = lit !== null && at < lit[1] && at + word.length > lit[0];
        return (
          <span key={at} class="word" data-turn={turnId} data-part={part} data-start={at} data-lit={isLit}>
            {word}
          </span>
        );
      })}
      {pieces.slice(2 * MOST_WORDS).join('')}
    </>
  );
}

/** A text with its edits: the old word is struck through, next to the new one. */
export function Said({ text, edits }: { text: string } & Pick<TurnView, 'edits'>) {
  const [edit, ...later] = edits;
  if (!edit) return <>{text}</>;
  return (
    <>
      {text.split(edit.from).flatMap((part, i) => [
        ...(i === 0
          ? []
          : [
              <del key={`del ${i}`}>{edit.from}</del>,
              <ins key={`ins ${i}`}>
                <Said text={edit.to} edits={later} />
              </ins>,
            ]),
        <Said key={`part ${i}`} text={part} edits={later} />,
      ])}
    </>
  );
}
