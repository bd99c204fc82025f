/**
 * The page's layout. The chat and controls, which act on the session, are passed in; the drawings are part of this module.
 * On a wide screen the conversation stays next to the engines; on a narrow one everything is one column.
 */
import type { ComponentChildren } from 'preact';
import { fleetShown } from '../session/shown.ts';
import type { Session } from '../session/types.ts';
import { CrossoverView } from './crossover/crossover-view.tsx';
import { Foot } from './foot.tsx';
import { NumbersView } from './numbers-view.tsx';
import { RaceView } from './race/race-view.tsx';
import { EnginesView } from './stage/engines-view.tsx';
import { StallView } from './stall/stall-view.tsx';
import { StoryView } from './story-view.tsx';
import { TimelineView } from './timeline/timeline-view.tsx';

export interface AppProps {
  session: Session;
  /** Right side of the header: lessons, settings, recordings, link, theme. */
  tools: ComponentChildren;
  /** Play, pause, step, reset and the mode; above the drawings. */
  transport: ComponentChildren;
  /** The time bar, below the engines' blocks. */
  time: ComponentChildren;
  /** The conversation and the message field. */
  chat: ComponentChildren;
  /** The settings drawer. */
  settings: ComponentChildren;
  /** The bar of a recording, failures and notes. */
  banner: ComponentChildren;
  /** The running lesson; null if none runs. */
  lesson: ComponentChildren;
  /** The fleet view, shown instead of everything below the banner. */
  fleet: ComponentChildren;
}

export function App({ session, tools, transport, time, chat, settings, banner, lesson, fleet }: AppProps) {
  const stallFirst = session.state.settings.value.lesson === 1;
  return (
    <div class="page">
      {/* Not a link: the address's hash holds the settings. */}
      <button
        type="button"
        class="skip"
        onClick={() => document.querySelector<HTMLElement>('#stage .stage, #fleet')?.focus()}
      >
        Skip to the engines
      </button>
      <header class="masthead">
        <h1 class="wordmark">
          kv<span>ferry</span>
        </h1>
        <p class="tagline">
          Two engines serve one conversation and ferry its KV both ways. Everything runs in this page.
        </p>
        <div class="tools">{tools}</div>
      </header>
      {banner}
      {fleetShown.value ? (
        fleet
      ) : (
        <>
          {lesson}
          <main class="main">
            <div class="conversation">{chat}</div>
            <div class="show" id="stage">
              <div class="lead">
                <StoryView session={session} />
                <div class="transport">{transport}</div>
              </div>
              {stallFirst && <StallView session={session} />}
              <EnginesView session={session} time={time} />
              <RaceView session={session} />
              {!stallFirst && <StallView session={session} />}
              <TimelineView session={session} />
              <CrossoverView session={session} />
              <NumbersView session={session} />
            </div>
          </main>
          {settings}
          <Foot session={session} />
        </>
      )}
    </div>
  );
}
