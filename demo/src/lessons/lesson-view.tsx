/** The running lesson, as wide as the page: its text, its steps one after the other, and a question at the end. */
import '../styles/lessons.css';
import { useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import type { Session } from '../session/types.ts';
import { beginLesson } from './begin.ts';
import { describeSettings } from './describe-settings.ts';
import { lessonNumbered, lessons } from './index.ts';
import { Step, useProgress } from './lesson-step.tsx';
import type { Lesson } from './types.ts';
import { actionsWhile } from './while-shown.ts';

/** null while no lesson runs. */
export function LessonView({ session }: { session: Session }) {
  const lesson = lessonNumbered(session.state.settings.value.lesson);
  const before = useRef<number | null>(null);
  useLayoutEffect(() => {
    // The button that led here from another lesson is gone.
    if (lesson && before.current !== null && document.activeElement === document.body)
      document.querySelector<HTMLElement>('.lesson')?.focus({ preventScroll: true });
    before.current = lesson?.number ?? null;
  }, [lesson?.number]);
  return lesson ? <Running key={lesson.number} lesson={lesson} session={session} /> : null;
}

function Running({ lesson, session }: { lesson: Lesson; session: Session }) {
  const { state, actions } = session;
  /** Progress is reset with each attempt. */
  const attempt = useSignal(0);
  const go = (number: number) => {
    const next = lessonNumbered(number);
    if (!next) return;
    attempt.value++;
    void beginLesson(next, state, actions);
  };
  const end = () => {
    // This button goes with the lesson.
    document.querySelector<HTMLElement>('.lesson-menu summary')?.focus();
    void actions.configure({ lesson: null });
  };
  const section = useRef<HTMLElement>(null);
  useEffect(() => keepRoom(section.current!), []);
  return (
    <section
      ref={section}
      class="panel lesson"
      aria-label={`Lesson ${lesson.number}: ${lesson.title}`}
      tabIndex={-1}
    >
      <div class="lesson-head">
        <p class="lesson-count">
          Lesson {lesson.number} of {lessons.length}
        </p>
        <h2 class="lesson-title" translate>
          {lesson.title}
        </h2>
        <div class="lesson-buttons">
          {lesson.number > 1 && (
            <button type="button" class="quiet" onClick={() => go(lesson.number - 1)}>
              Back
            </button>
          )}
          <button type="button" class="quiet" onClick={() => go(lesson.number)}>
            Start over
          </button>
          <button type="button" class="quiet" onClick={end}>
            End the lesson
          </button>
        </div>
      </div>
      {/* Progress with the engines does not count for a recording, which has another clock. */}
      <Steps
        key={`${attempt.value} ${state.replay.value !== null}`}
        lesson={lesson}
        session={session}
        go={go}
      />
    </section>
  );
}

/** Keeps the CSS property `--lesson` at the lesson's height, in pixels. Returns a function that stops it. */
function keepRoom(section: HTMLElement): () => void {
  const { style } = document.documentElement;
  const resized = new ResizeObserver(() => style.setProperty('--lesson', `${section.offsetHeight}px`));
  resized.observe(section);
  return () => resized.disconnect();
}

interface StepsProps {
  lesson: Lesson;
  session: Session;
  go: (number: number) => void;
}

function Steps({ lesson, session, go }: StepsProps) {
  const { state } = session;
  const shown = useRef(true);
  const own = useMemo(
    (): Session => ({ state, actions: actionsWhile(() => shown.current, session.actions) }),
    [session],
  );
  useEffect(
    () => () => {
      shown.current = false;
    },
    [],
  );
  const replay = state.replay.value;
  const progress = useProgress(lesson, session);
  const at = useSignal(0);
  const body = useRef<HTMLDivElement>(null);
  const wentOn = useRef(false);
  // The pressed button is gone, so the focus moves to the next step.
  useLayoutEffect(() => {
    if (wentOn.current && document.activeElement === document.body)
      body.current?.querySelector<HTMLElement>(FIRST)?.focus({ preventScroll: true });
    wentOn.current = false;
  }, [at.value]);
  const last = at.value === lesson.tasks.length;
  const next = lessons[lesson.number];
  const task = lesson.tasks[at.value];
  return (
    <div class="lesson-body" ref={body}>
      <div class="lesson-about">
        <ol class="lesson-dots" aria-label="Steps">
          {[...lesson.tasks.map((_, i) => `Step ${i + 1}`), 'Think'].map((name, i) => (
            <li key={name}>
              <button
                type="button"
                aria-current={i === at.value ? 'step' : undefined}
                data-seen={progress[i]?.seen.value ?? false}
                onClick={() => {
                  at.value = i;
                }}
              >
                {name}
              </button>
            </li>
          ))}
        </ol>
        <p class="lesson-text" translate>
          {lesson.text}
        </p>
        <p class="lesson-sets">
          {replay ? 'Recorded with: ' : 'This lesson starts a new conversation, with: '}
          {describeSettings(lesson)}.{' '}
          {!replay &&
            `Other settings are the defaults, except your choice of ${lesson.settings.model ? '' : 'model, '}seed, block size and display. `}
          {replay &&
            (replay.why === null
              ? 'This is a recording: each step plays its part of it.'
              : 'This browser cannot run the engines, so each step plays a recording.')}
        </p>
      </div>
      {task ? (
        <Step
          key={at.value}
          task={task}
          session={own}
          progress={progress[at.value]!}
          onNext={() => {
            wentOn.current = true;
            at.value++;
          }}
        />
      ) : (
        <Question question={lesson.question} answer={lesson.answer} />
      )}
      {last && next && (
        <button type="button" class="primary lesson-next" onClick={() => go(next.number)}>
          Next: {next.title}
        </button>
      )}
    </div>
  );
}

/** The first control of a step or of the final question. */
const FIRST = '.lesson-task button:enabled, .lesson-question summary';

function Question({ question, answer }: { question: string; answer: string }) {
  return (
    <details class="lesson-question" translate>
      <summary>{question}</summary>
      <p>{answer}</p>
    </details>
  );
}
