/** The lesson that runs: its text, what to do, marks that turn when it was seen, a question with its answer. */
import { effect, useComputed, useSignal, useSignalEffect } from '@preact/signals';
import { useRef } from 'preact/hooks';
import type { Session } from '../session/types.ts';
import { beginLesson, settingsInWords } from './begin.ts';
import { lessonNumbered, lessons } from './index.ts';
import { lookAt } from './seen.ts';
import type { Lesson, Task } from './types.ts';

/** The list of lessons, for the page's head. */
export function LessonMenu({ session }: { session: Session }) {
  const menu = useRef<HTMLDetailsElement>(null);
  const now = session.state.settings.value.lesson;
  const begin = (lesson: Lesson) => {
    menu.current!.open = false;
    void beginLesson(lesson, session.state, session.actions);
  };
  return (
    <details
      class="lesson-menu"
      ref={menu}
      onKeyDown={(event) => {
        if (event.key === 'Escape') event.currentTarget.open = false;
      }}
      onFocusOut={(event) => {
        const to = event.relatedTarget;
        if (!(to instanceof Node && event.currentTarget.contains(to))) event.currentTarget.open = false;
      }}
    >
      <summary>Eight lessons</summary>
      <nav class="lesson-list" aria-label="Lessons">
        <ol>
          {lessons.map((lesson) => (
            <li key={lesson.number}>
              <button
                type="button"
                class="quiet"
                aria-current={lesson.number === now ? 'step' : undefined}
                onClick={() => begin(lesson)}
              >
                {lesson.number}. {lesson.title}
              </button>
            </li>
          ))}
        </ol>
      </nav>
    </details>
  );
}

/** null while no lesson runs. */
export function LessonView({ session }: { session: Session }) {
  const lesson = lessonNumbered(session.state.settings.value.lesson);
  return lesson ? <Running key={lesson.number} lesson={lesson} session={session} /> : null;
}

function Running({ lesson, session }: { lesson: Lesson; session: Session }) {
  const { state, actions } = session;
  /** Marks begin anew with each. */
  const attempt = useSignal(0);
  const go = (number: number) => {
    const next = lessonNumbered(number);
    if (!next) return;
    attempt.value++;
    void beginLesson(next, state, actions);
  };
  const replayed = state.replay.value !== null;
  return (
    <section class="panel lesson" aria-label={`Lesson ${lesson.number}: ${lesson.title}`}>
      <div class="lesson-head">
        <p class="lesson-count">
          Lesson {lesson.number} of {lessons.length}
        </p>
        <button type="button" class="quiet" onClick={() => void actions.configure({ lesson: null })}>
          Leave the lesson
        </button>
      </div>
      <h2 class="lesson-title">{lesson.title}</h2>
      <p class="lesson-text">{lesson.text}</p>
      <p class="lesson-sets">
        Sets: {settingsInWords(lesson)}.{' '}
        {replayed && 'This browser runs no engines: each step plays what was recorded of it.'}
      </p>
      <Tasks key={attempt.value} lesson={lesson} session={session} />
      <Question question={lesson.question} answer={lesson.answer} />
      <div class="lesson-foot">
        <button type="button" disabled={lesson.number === 1} onClick={() => go(lesson.number - 1)}>
          Back
        </button>
        <button type="button" onClick={() => go(lesson.number)}>
          Begin again
        </button>
        <button
          type="button"
          class="primary"
          disabled={lesson.number === lessons.length}
          onClick={() => go(lesson.number + 1)}
        >
          Next{lesson.number < lessons.length ? `: ${lessons[lesson.number]!.title}` : ''}
        </button>
      </div>
    </section>
  );
}

function Tasks({ lesson, session }: { lesson: Lesson; session: Session }) {
  const { state } = session;
  const replayed = state.replay.value !== null;
  const sinceMs = useSignal(replayed ? Number.NEGATIVE_INFINITY : state.nowMs());
  const ready = replayed ? !state.time.value.playing : state.status.value.phase === 'ready';
  return (
    <ol class="lesson-tasks">
      {lesson.tasks.map((task) => (
        <TaskItem key={task.todo} task={task} session={session} sinceMs={sinceMs.value} ready={ready} />
      ))}
    </ol>
  );
}

interface TaskProps {
  task: Task;
  session: Session;
  sinceMs: number;
  ready: boolean;
}

function TaskItem({ task, session: { state, actions }, sinceMs, ready }: TaskProps) {
  const running = useSignal(false);
  // Once seen it stays seen, whatever the next task does to the state.
  const seen = useSignal(false);
  const happened = useComputed(() => task.happened(lookAt(state, sinceMs)));
  useSignalEffect(() => {
    if (happened.value) seen.value = true;
  });
  const run = async () => {
    if (state.replay.peek() !== null) {
      watchUntil(
        () => happened.peek() && state.turns.peek().every(({ endMs }) => endMs !== null),
        state,
        actions,
      );
      return;
    }
    running.value = true;
    try {
      await task.run(actions, state);
    } finally {
      running.value = false;
    }
  };
  return (
    <li class="lesson-task" data-seen={seen.value}>
      <button type="button" disabled={!ready || running.value} onClick={() => void run()}>
        {task.todo}
      </button>
      <p>
        <span class="lesson-mark" aria-hidden="true">
          {seen.value ? '✓' : '○'}
        </span>{' '}
        <strong>{seen.value ? 'Seen:' : 'To see:'}</strong> {task.see}
      </p>
    </li>
  );
}

/** Plays the recording on until then. */
function watchUntil(isThere: () => boolean, state: Session['state'], actions: Session['actions']): void {
  actions.playTime();
  const stop = effect(() => {
    if (!state.time.value.playing) queueMicrotask(() => stop());
    else if (isThere()) {
      queueMicrotask(() => {
        stop();
        actions.pauseTime();
      });
    }
  });
}

function Question({ question, answer }: { question: string; answer: string }) {
  return (
    <details class="lesson-question">
      <summary>{question}</summary>
      <p>{answer}</p>
    </details>
  );
}
