/** Progress on stderr: a bar on a terminal, plain lines elsewhere. Reports never go here. */
import cliProgress from 'cli-progress';
import type { CliDeps } from '../deps.ts';
import { clip, fill, WIDTH, widthOf, wrap } from './format.ts';
import { printable } from './printable.ts';

export interface Progress {
  /** A milestone, always on its own line; a terminal's is wrapped. */
  line(text: string): void;
  /** Begins a stretch of `total` steps; null: unknown, and only the details are shown. */
  begin(label: string, total: number | null): void;
  /** `done` steps have finished; `detail` describes the current one. */
  update(done: number, detail: string): void;
  end(): void;
}

/** Without a bar, the interval of progress lines. */
const LINE_EVERY_MS = 10_000;
/** Columns of a bar's label and of the bar. */
const LABEL = 14;
const BAR = 20;

export function createProgress({ stderr, progressStream, now }: CliDeps): Progress {
  return progressStream && stderr.isTTY
    ? barProgress(progressStream, (text) => stderr.write(text))
    : lineProgress((text) => stderr.write(text), now);
}

function barProgress(stream: NodeJS.WriteStream, write: (text: string) => void): Progress {
  let bar: cliProgress.SingleBar | null = null;
  let room = 0;
  const stop = (): void => {
    bar?.stop();
    bar = null;
  };
  return {
    line(text) {
      stop();
      write(`${wrap(text, WIDTH).join('\n')}\n`);
    },
    begin(label, total) {
      stop();
      room = WIDTH - Math.max(LABEL, widthOf(label)) - 2 - (total === null ? 0 : BAR + 1);
      bar = new cliProgress.SingleBar(
        {
          stream,
          clearOnComplete: true,
          hideCursor: true,
          barsize: BAR,
          fps: 20,
          gracefulExit: false,
          format: `${fill(label, LABEL)} ${total === null ? '' : '{bar} '}{detail}`,
        },
        cliProgress.Presets.shades_classic,
      );
      bar.start(total ?? 0, 0, { detail: '' });
    },
    update(done, detail) {
      // The bar writes directly to the terminal, so its text must be made printable here.
      bar?.update(done, { detail: clip(printable(detail), room) });
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
      write(`${label}: ${total === null ? detail : `${done} of ${total}${detail && `, ${detail}`}`}\n`);
    },
    end: () => {},
  };
}
