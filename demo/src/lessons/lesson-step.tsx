/** One step of a lesson: predict, run, see. Frames the object that it is about. */
import { effect, type Signal, signal, useSignal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import type { Session, TurnView } from '../session/types.ts';
import { Button } from '../views/button.tsx';
import { lookAt } from './conditions.ts';
import { type Lesson, OBJECTS, type PageObject, type Seen, type Task } from './types.ts';

interface Said {
  came: number | null;
  figures: string | null;
}

/** The reader's progress in one step. */
export interface Progress {
  /** Index of the chosen prediction; null before one is chosen. */
  predicted: Signal<number | null>;
  /** Stays true, even if a later step changes the state. */
  seen: Signal<boolean>;
  /** The outcome when the step was seen; kept because the next step may end the conversation. */
  said: Signal<Said>;
  look: () => Seen;
  /** Makes the current turns the next step's `earlier` turns. */
  keep: () => void;
}

/** The progress of each step of a lesson, counted from now. */
export function useProgress(lesson: Lesson, { state }: Session): readonly Progress[] {
  const progress = useMemo(() => {
    // Everything in a recording belongs to its lesson.
    const sinceMs = state.replay.peek() ? Number.NEGATIVE_INFINITY : state.nowMs();
    let earlier: readonly TurnView[] = [];
    const look = () => lookAt(state, sinceMs, earlier);
    const keep = () => {
      earlier = look().turns;
    };
    return lesson.tasks.map(() => ({
      predicted: signal<number | null>(null),
      seen: signal(false),
      said: signal<Said>({ came: null, figures: null }),
      look,
      keep,
    }));
  }, []);
  useEffect(() => {
    const stops = lesson.tasks.map((task, i) =>
      effect(() => {
        const { seen, said, look, keep } = progress[i]!;
        if (seen.peek() || !task.happened(look())) return;
        const figures = task.figures?.(look()) ?? null;
        said.value = { came: task.predict.cameTrue(look()), figures };
        keep();
        seen.value = true;
      }),
    );
    return () => {
      for (const stop of stops) stop();
    };
  }, []);
  return progress;
}

interface StepProps {
  task: Task;
  session: Session;
  progress: Progress;
  onNext: () => void;
}

export function Step({ task, session: { state, actions }, progress, onNext }: StepProps) {
  const running = useSignal(false);
  const { predicted, seen, said, look } = progress;
  const replayed = state.replay.value !== null;
  const ready = replayed ? !state.time.value.playing : state.status.value.phase === 'ready';
  usePointer(task.look);
  const goOn = useFocusAfterwards(seen.value);
  const run = async () => {
    showObject(task.look);
    if (state.replay.peek() !== null) {
      watchUntil(
        () => task.happened(look()) && state.turns.peek().every(({ endMs }) => endMs !== null),
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
      // The object may have grown out of view.
      requestAnimationFrame(() => showObject(task.look));
    }
  };
  return (
    <ol class="lesson-task" data-seen={seen.value}>
      <li class="lesson-part">
        <h3>Predict</h3>
        <p translate>{task.predict.ask}</p>
        <ul class="lesson-choices" translate aria-label="Your prediction">
          {task.predict.choices.map((choice, i) => (
            <li key={choice}>
              <button
                type="button"
                aria-pressed={predicted.value === i}
                disabled={seen.value}
                onClick={() => {
                  predicted.value = i;
                }}
              >
                {choice}
              </button>
            </li>
          ))}
        </ul>
      </li>
      <li class="lesson-part">
        <h3>Run</h3>
        <Button
          class="primary lesson-run"
          translate
          off={!ready || running.value || predicted.value === null || (replayed && seen.value)}
          onClick={() => void run()}
        >
          {task.todo}
        </Button>
        <p class="lesson-look">
          {predicted.value === null && !seen.value ? 'Predict first. ' : ''}Look at {task.look}.
        </p>
      </li>
      <li class="lesson-part" aria-live="polite">
        <h3>See</h3>
        {seen.value ? (
          <>
            <Told task={task} progress={progress} />
            <p class="lesson-see" translate>
              {task.see}
            </p>
            {said.value.figures && <p class="lesson-figures">{said.value.figures}</p>}
            <button type="button" class="lesson-on" ref={goOn} onClick={onNext}>
              Continue
            </button>
          </>
        ) : (
          <p class="quiet-text">Not yet.</p>
        )}
      </li>
    </ol>
  );
}

/** Compares the prediction with what happened. */
function Told({ task, progress }: { task: Task; progress: Progress }) {
  const predicted = progress.predicted.value;
  const came = progress.said.value.came ?? task.predict.cameTrue(progress.look());
  const choice = came === null ? undefined : task.predict.choices[came];
  if (choice === undefined) return null;
  const right = predicted === came;
  return (
    <p class="lesson-told" data-right={predicted === null ? undefined : right}>
      <span aria-hidden="true">{predicted === null ? '' : right ? '✓ ' : '✗ '}</span>
      {predicted === null ? '' : right ? 'As you predicted: ' : 'It was: '}
      <strong>{choice}</strong>
    </p>
  );
}

/** Frames the object while the step is shown. */
function usePointer(object: PageObject): void {
  useEffect(() => {
    const element = document.querySelector(OBJECTS[object]);
    element?.setAttribute('data-pointed', '');
    return () => element?.removeAttribute('data-pointed');
  });
}

/** Once the step is seen, the focus goes on from the run button to the continue button. */
function useFocusAfterwards(seen: boolean) {
  const goOn = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (seen && document.activeElement?.matches('.lesson-run')) goOn.current?.focus({ preventScroll: true });
  }, [seen]);
  return goOn;
}

function showObject(object: PageObject): void {
  document.querySelector(OBJECTS[object])?.scrollIntoView({ block: 'nearest' });
}

/** Plays the recording until `isThere` is true. */
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
