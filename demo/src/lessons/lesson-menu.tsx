/** The menu of lessons in the page's header. */
import { useRef } from 'preact/hooks';
import { fleetShown } from '../session/shown.ts';
import type { Session } from '../session/types.ts';
import { beginLesson } from './begin.ts';
import { lessonList } from './list.ts';
import type { LessonHead } from './types.ts';

export function LessonMenu({ session }: { session: Session }) {
  const menu = useRef<HTMLDetailsElement>(null);
  const now = session.state.settings.value.lesson;
  if (fleetShown.value) return null;
  const close = () => {
    menu.current!.open = false;
    // The focused element is hidden now.
    menu.current!.querySelector('summary')?.focus();
  };
  const begin = (lesson: LessonHead) => {
    close();
    void beginLesson(lesson, session.state, session.actions);
  };
  return (
    <details
      class="lesson-menu"
      ref={menu}
      onKeyDown={(event) => {
        if (event.key === 'Escape') close();
      }}
      onFocusOut={(event) => {
        const to = event.relatedTarget;
        if (!(to instanceof Node && event.currentTarget.contains(to))) event.currentTarget.open = false;
      }}
    >
      <summary>Lessons</summary>
      <nav class="lesson-list" aria-label="Lessons">
        <ol>
          {lessonList.map((lesson) => (
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
