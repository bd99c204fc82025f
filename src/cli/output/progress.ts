/** Progress on stderr: a bar on a terminal, plain lines elsewhere. Reports never go here. */
import cliProgress from 'cli-progress';
import type { CliDeps } from '../deps.ts';
import { clip, fill } from './format.ts';
import { printable } from './printable.ts';

export interface Progress {
  /** A milestone, always on its own line. */
  line(text: string): void;
  /** Begins a stretch of `total` steps; null: unknown. */
  begin(label: string, total: number | null): void;
  /** `done` steps have finished; `detail` describes the current one. */
  update(done: number, detail: string): void;
  end(): void;
}

/** Without a bar, the interval of progress lines. */
const LINE_EVERY_MS = 10_000;

export function createProgress({ stderr, progressStream, now }: CliDeps): Progress {
  return progressStream && stderr.isTTY
    ? barProgress(progressStream, (text) => stderr.write(text))
    : lineProgress((text) => stderr.write(text), now);
}

function barProgress(stream: NodeJS.WriteStream, write: (text: string) => void): Progress {
  let bar: cliProgress.SingleBar | null = null;
  const stop = (): void => {
    bar?.stop();
    bar = null;
  };
  return {
    line(text) {
      stop();
      write(`${text}\n`);
    },
    begin(label, total) {
      stop();
      bar = new cliProgress.SingleBar(
        {
          stream,
          clearOnComplete: true,
          hideCursor: true,
          barsize: 20,
          fps: 20,
          gracefulExit: false,
          format: `${fill(label, 14)} ${total === null ? '{value} so far,' : '{bar}'} {detail}`,
        },
        cliProgress.Presets.shades_classic,
      );
      bar.start(total ?? 0, 0, { detail: '' });
    },
    update(done, detail) {
      // The bar writes directly to the terminal, so its text must be made printable here.
      bar?.update(done, { detail: clip(printable(detail), 40) });
    },
    end: stop,
  };
}

function lineProgress(write: (text: string) => void, now: () => number): Progress {
  let stretch: { label: string; total: number | null; reportedMs: number } = {
    label: '',
    total: 0,
    reportedMs: 0,
  };
  return {
    line: (text) => write(`${text}\n`),
    begin(label, total) {
      stretch = { label, total, reportedMs: now() };
      write(total === null ? `${label}\n` : `${label}: ${total} to do\n`);
    },
    update(done, detail) {
      if (now() - stretch.reportedMs < LINE_EVERY_MS) return;
      stretch.reportedMs = now();
      const { label, total } = stretch;
      write(
        `${label}: ${total === null ? `${done} so far` : `${done} of ${total}`}${detail && `, ${detail}`}\n`,
      );
    },
    end: () => {},
  };
}
