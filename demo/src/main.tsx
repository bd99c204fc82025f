/** The page's entry point: creates the session and renders the views. */
import './styles/index.css';
import { effect } from '@preact/signals';
import { render } from 'preact';
import { FleetHolder } from './fleet/fleet-holder.tsx';
import { LessonHolder } from './lessons/lesson-holder.tsx';
import { LessonMenu } from './lessons/lesson-menu.tsx';
import { Banner } from './panels/banner.tsx';
import { Chat } from './panels/chat.tsx';
import { watchDrops } from './panels/drops.ts';
import { SettingsDrawer } from './panels/settings-drawer.tsx';
import { TimeBar } from './panels/time-bar.tsx';
import { Tools } from './panels/tools.tsx';
import { Transport } from './panels/transport.tsx';
import { watchCode } from './session/fetch-code.ts';
import { createSession } from './session/session.ts';
import { watchShown } from './session/shown.ts';
import { App } from './views/app.tsx';
import { watchFocus } from './views/focus.ts';
import { watchOpening } from './views/opening.ts';
import { project, watchTheme } from './views/palette.ts';
import { takeKeptTheme } from './views/theme.ts';

watchCode();
watchDrops();
watchFocus();
takeKeptTheme();
watchTheme();
watchShown();
const session = createSession();
watchOpening(session);
effect(() => project(session.state.settings.value.projector));

render(
  <App
    session={session}
    tools={
      <>
        <LessonMenu session={session} />
        <Tools session={session} />
      </>
    }
    transport={<Transport session={session} />}
    time={<TimeBar session={session} />}
    chat={<Chat session={session} />}
    settings={<SettingsDrawer session={session} />}
    banner={<Banner session={session} />}
    lesson={<LessonHolder session={session} />}
    fleet={<FleetHolder session={session} />}
  />,
  document.getElementById('app')!,
);

// Not part of the first load. Without it, the page is printed as it is on the screen.
import('./views/print.ts').catch(() => {});

// For the console and for tests: the session that the views use.
Object.assign(globalThis, { kvferry: session });
