/** A short note. It fades after enough time to read it. */
import { noteMs } from '../session/reading.ts';

export const Note = ({ level, message }: { level: 'info' | 'warning'; message: string }) => (
  <p class="note" data-level={level} style={{ animationDuration: `${noteMs(message)}ms` }}>
    {message}
  </p>
);
