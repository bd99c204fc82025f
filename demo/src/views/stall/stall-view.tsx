/** The stall: two users on one engine, and on P and D, on one time axis, with a mark for each token. */
import { type ReadonlySignal, useComputed, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { RUNS } from '../../session/experiments/measuring.ts';
import { SPEEDS } from '../../session/settings.ts';
import type { Session, Stall, StallRun } from '../../session/types.ts';
import { AsTable } from '../as-table.tsx';
import { Button } from '../button.tsx';
import { DataTable } from '../data-table.tsx';
import { ms, plural, slowerInWords } from '../format.ts';
import { leastFont, reducedMotion } from '../palette.ts';
import { plainly } from '../plain-words.ts';
import { Surface } from '../surface.tsx';
import { type Domain, spanOf } from '../timeline/time-scale.ts';
import { WithoutStore } from '../without-store.tsx';
import { drawStall, layoutStall } from './draw-stall.ts';
import { figuresOf, sameCount, stallDomain, stallVerdict } from './stall.ts';

/** The replay takes about this long. */
const SHOWN_MS = 10_000;

const SIDES = [
  ['alone', 'One engine', 'reads and writes'],
  ['split', 'P and D', 'P reads, D writes'],
] as const;

export function StallView({ session: { state, actions } }: { session: Session }) {
  const ofConversation = useComputed(() => {
    const last = state.stall.value;
    return last && last.startedMs >= state.beganMs.value ? last : null;
  });
  const stall = ofConversation.value;
  const domain = useComputed(() => ofConversation.value && stallDomain(ofConversation.value));
  const speed = SPEEDS[state.settings.value.speed];
  const verdict = stall && stallVerdict(stall);
  const clock = useShownClock(verdict ? domain.value : null, speed);
  const slower = verdict && slowerInWords(clock.slower);
  const running = stall !== null && stall.error === null && verdict === null;
  const { phase } = state.status.value;
  const recorded = state.replay.value !== null;
  return (
    <section class="panel stall" aria-label="The stall">
      <div class="panel-head">
        <h2>Two users at once: who waits?</h2>
        {(stall || !recorded) && <WithoutStore state={state} />}
        {slower && <span class="quiet-text">shown {slower}</span>}
        {verdict && !reducedMotion.value && (
          <button type="button" onClick={clock.again}>
            Show it again
          </button>
        )}
        {!recorded && (
          <Button class="primary" off={phase !== 'ready' || running} onClick={() => void actions.runStall()}>
            {running ? `Run ${runsOf(stall) + 1} of ${2 * RUNS}…` : 'Let two users ask'}
          </Button>
        )}
      </div>
      {stall ? (
        SIDES.map(([name, title, about]) => (
          <Side
            key={name}
            name={name}
            title={title}
            about={about}
            stall={stall}
            domain={domain}
            atMs={clock.atMs}
          />
        ))
      ) : (
        <p class="quiet-text">
          {recorded && 'Not in the recording so far. '}
          One user gets an answer while another pastes a long text. Three runs on one engine and three on P
          and D show when each token of the first user arrives.
        </p>
      )}
      {stall?.error && <p class="problem">{plainly(stall.error)}</p>}
      {verdict && (
        // Not a live region: the page's headline has the result too.
        <p class="race-verdict">
          {verdict.headline}. {verdict.sentence}{' '}
          {sameCount(stall) ? 'Both gave the same count.' : 'The two counts differ.'}
        </p>
      )}
      {stall && <RunTable stall={stall} />}
    </section>
  );
}

const runsOf = ({ alone, split }: Stall): number => alone.runs.length + split.runs.length;

interface SideProps {
  name: 'alone' | 'split';
  title: string;
  about: string;
  stall: Stall;
  domain: ReadonlySignal<Domain | null>;
  atMs: ReadonlySignal<number>;
}

function Side({ name, title, about, stall, domain, atMs }: SideProps) {
  const side = stall[name];
  const figures = figuresOf(side);
  return (
    <div class="stall-side" data-side={name}>
      <p class="race-name">
        <strong>{title}</strong>
        <span class="race-tokens">{about}</span>
        {figures && (
          <span class="race-tokens">
            longest pause of {plural(figures.longestRunsMs.length, 'run')}:{' '}
            {ms(Math.min(...figures.longestRunsMs))} to {ms(Math.max(...figures.longestRunsMs))}; median of
            all pauses {ms(figures.typicalMs)}
          </span>
        )}
        <span class="race-time number">{figures ? ms(figures.longestMs) : '–'}</span>
      </p>
      <Surface
        name={`stall ${name}`}
        heightFor={(width) => layoutStall(width, leastFont.peek()).height}
        watch={() => {
          atMs.value;
          domain.value;
        }}
        draw={({ context, width, palette }) => {
          const shown = domain.peek();
          if (!figures || !shown) return false;
          const model = {
            run: figures.shown,
            domain: shown,
            atMs: atMs.peek(),
            pastedTokens: stall.pastedTokens,
          };
          drawStall(context, width, layoutStall(width, palette.least), model, palette);
          return false;
        }}
      />
      <Count pieces={side.pieces} run={figures?.shown} atMs={atMs} />
    </div>
  );
}

interface CountProps {
  pieces: readonly string[];
  run: StallRun | undefined;
  atMs: ReadonlySignal<number>;
}

/** The first user's answer so far. The rest is invisible but takes its space, so that nothing below moves. */
function Count({ pieces, run, atMs }: CountProps) {
  const many = run?.tokensMs.filter((at) => at <= atMs.value).length ?? 0;
  return (
    <p class="stall-said">
      {pieces.slice(0, many).join('')}
      <span class="stall-to-come">{pieces.slice(many).join('')}</span>
    </p>
  );
}

function RunTable({ stall }: { stall: Stall }) {
  return (
    <AsTable summary="The runs as a table">
      <DataTable
        columns={[
          'engines',
          'longest pause of each run',
          'median of all pauses',
          'first token for the pasted text',
        ]}
        rows={SIDES.map(([name, title]) => {
          const figures = figuresOf(stall[name]);
          return {
            key: name,
            cells: [
              title,
              figures?.longestRunsMs.map(ms).join(', '),
              figures && ms(figures.typicalMs),
              figures && ms(figures.pastedFirstMs),
            ],
          };
        })}
      />
    </AsTable>
  );
}

interface ShownClock {
  /** Milliseconds from the paste. */
  atMs: ReadonlySignal<number>;
  slower: number;
  again: () => void;
}

/** Plays over `shown` once when it is known, and on each `again`. With reduced motion it stays at the end. */
function useShownClock(shown: Domain | null, chosen: number | null): ShownClock {
  const atMs = useSignal(Number.POSITIVE_INFINITY);
  const plays = useSignal(0);
  const spanMs = shown ? spanOf(shown) : 0;
  const speed = chosen ?? Math.min(1, spanMs / SHOWN_MS);
  useEffect(() => {
    if (!shown || reducedMotion.peek()) {
      atMs.value = Number.POSITIVE_INFINITY;
      return;
    }
    const begun = performance.now();
    let pending = requestAnimationFrame(function tick() {
      atMs.value = shown.startMs + (performance.now() - begun) * speed;
      if (atMs.value < shown.endMs) pending = requestAnimationFrame(tick);
    });
    return () => cancelAnimationFrame(pending);
  }, [shown?.startMs, shown?.endMs, plays.value, speed]);
  return {
    atMs,
    slower: speed > 0 ? 1 / speed : 1,
    again: () => {
      plays.value++;
    },
  };
}
