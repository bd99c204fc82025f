/** Something worth saying by the way: it goes by itself once it can have been read. */
import { saidMs } from '../session/reading.ts';

export const Note = ({ level, message }: { level: 'info' | 'warning'; message: string }) => (
  <p class="note" data-level={level} style={{ animationDuration: `${saidMs(message)}ms` }}>
    {message}
  </p>
);
