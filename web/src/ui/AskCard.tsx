/** A plain question, with the answers it suggests, or one's own words. */
import { useState } from "preact/hooks";
import { summary, type OtherQuestion } from "../state/questions.ts";
import { Card, useAnswer, useCalm } from "./Questions.tsx";

export function AskCard({ question }: { question: OtherQuestion }) {
  const calm = useCalm();
  const { send, problem } = useAnswer(question);
  const [words, setWords] = useState("");
  const said = question.params["options"];
  const options = Array.isArray(said) ? said.filter((option): option is string => typeof option === "string" && option.trim() !== "") : [];
  return (
    <Card label={`${question.agent} asks`} icon="help">
      <p class="asked">{summary(question)}</p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (calm && words.trim() !== "") send({ answer: words });
        }}
      >
        <textarea aria-label="Your answer" rows={1} value={words} onInput={(event) => setWords(event.currentTarget.value)} />
        {problem && (
          <p class="fault" role="alert">
            The answer could not be sent: {problem}
          </p>
        )}
        <div class="choices">
          {options.slice(0, 100).map((option) => (
            <button type="button" key={option} disabled={!calm} onClick={() => send({ answer: option })}>
              {option}
            </button>
          ))}
          <button type="submit" class="primary" disabled={!calm || words.trim() === ""}>
            Send
          </button>
        </div>
      </form>
    </Card>
  );
}
