/** The lesson that runs, over the page's whole width: its text, its steps one after the other, a question at the end. */
import { useSignal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import type { Session } from '../session/types.ts';
import { beginLesson } from './begin.ts';
import { settingsInWords } from './in-words.ts';
import { lessonNumbered, lessons } from './index.ts';
import { Step, useProgress } from './lesson-step.tsx';
import type { Lesson } from './types.ts';
import { actionsWhile } from './while-shown.ts';

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
  const section = useRef<HTMLElement>(null);
  useEffect(() => keepRoom(section.current!), []);
  return (
    <section ref={section} class="panel lesson" aria-label={`Lesson ${lesson.number}: ${lesson.title}`}>
      <div class="lesson-head">
        <p class="lesson-count">
          Lesson {lesson.number} of {lessons.length}
        </p>
        <h2 class="lesson-title">{lesson.title}</h2>
        <div class="lesson-buttons">
          {lesson.number > 1 && (
            <button type="button" class="quiet" onClick={() => go(lesson.number - 1)}>
              Back
            </button>
          )}
          <button type="button" class="quiet" onClick={() => go(lesson.number)}>
            Begin again
          </button>
          <button type="button" class="quiet" onClick={() => void actions.configure({ lesson: null })}>
            Leave the lesson
          </button>
        </div>
      </div>
      {/* What was seen of engines was not seen of a recording that takes their place, whose clock is another. */}
      <Steps
        key={`${attempt.value} ${state.replay.value !== null}`}
        lesson={lesson}
        session={session}
        go={go}
      />
    </section>
  );
}

/** Tells the page's styles how much of the view the lesson takes. Returns how to stop. */
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
  // The button that was pressed is gone: the focus goes on with the reader.
  useEffect(() => {
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
        <p class="lesson-text">{lesson.text}</p>
        <p class="lesson-sets">
          {replay ? 'It was recorded with: ' : 'Beginning it starts a new conversation, with: '}
          {settingsInWords(lesson)}.{' '}
          {!replay && 'All else is as the page has it at first, but for your model and how it is shown. '}
          {replay &&
            (replay.why === null
              ? 'A recording is shown: each step plays what was recorded of it.'
              : 'This browser runs no engines: each step plays what was recorded of it.')}
        </p>
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

/** What a step, or the end, begins with. */
const FIRST = '.lesson-task button:enabled, .lesson-question summary';

function Question({ question, answer }: { question: string; answer: string }) {
  return (
    <details class="lesson-question">
      <summary>{question}</summary>
      <p>{answer}</p>
    </details>
  );
}
