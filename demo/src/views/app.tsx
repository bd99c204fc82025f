/**
 * The page's plan: who stands where. Chat and controls come from outside (they act), the drawings stand here (they show).
 * On a wide screen the conversation stays beside the engines; on a narrow one all is one column.
 */
import type { ComponentChildren } from 'preact';
import { fleetShown } from '../session/shown.ts';
import type { Session } from '../session/types.ts';
import { CrossoverView } from './crossover-view.tsx';
import { EnginesView } from './engines-view.tsx';
import { Foot } from './foot.tsx';
import { NumbersView } from './numbers-view.tsx';
import { RaceView } from './race-view.tsx';
import { StallView } from './stall-view.tsx';
import { StoryView } from './story-view.tsx';
import { TimelineView } from './timeline-view.tsx';

export interface AppProps {
  session: Session;
  /** Right side of the head: share, recordings, theme. */
  tools: ComponentChildren;
  /** Play, pause, step, reset and the mode: above the drawings. */
  transport: ComponentChildren;
  /** The clock of what is shown: below the engines. */
  time: ComponentChildren;
  /** The conversation and its field. */
  chat: ComponentChildren;
  /** All settings, in a drawer over the page. */
  settings: ComponentChildren;
  /** Replay's bar, or what is missing; null when there is nothing to say. */
  banner: ComponentChildren;
  /** The running lesson, over all that it points at; null without one. */
  lesson: ComponentChildren;
  /** In place of all below the head. */
  fleet: ComponentChildren;
}

export function App({ session, tools, transport, time, chat, settings, banner, lesson, fleet }: AppProps) {
  const stallFirst = session.state.settings.value.lesson === 1;
  return (
    <div class="page">
      {/* No link: the address holds the settings. */}
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
          Two engines share one conversation, and ferry its KV both ways. All of it runs in this page.
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
