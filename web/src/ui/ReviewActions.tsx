/** Below the review: send the comments, commit the chosen files, open a pull request. */
import { useState } from "preact/hooks";
import { t } from "../messages/messages.ts";
import type { Review } from "../state/review.ts";

interface ReviewActionsProps {
  review: Review;
  /** The comments were sent to the agent. */
  onSent: () => void;
}

export function ReviewActions({ review, onSent }: ReviewActionsProps) {
  const [open, setOpen] = useState(false);
  const git = review.result.value?.git;
  const comments = review.comments.value.length;
  const send = async () => {
    if (await review.sendComments()) onSent();
  };
  return (
    <footer class="review-actions">
      {comments > 0 && (
        <button type="button" class="primary" disabled={review.busy.value} onClick={() => void send()}>
          {t("review.sendComments", { count: comments })}
        </button>
      )}
      {git && !open && <CommitForm review={review} branch={git.branch} />}
      {git?.pullRequest && !open && (
        <button type="button" onClick={() => setOpen(true)}>
          {t("review.pullRequest")}
        </button>
      )}
      {git?.pullRequest && open && (
        <PullRequestForm
          review={review}
          needsBranch={git.pullRequest.needsBranch}
          onClose={() => setOpen(false)}
        />
      )}
    </footer>
  );
}

function CommitForm({ review, branch }: { review: Review; branch: string }) {
  const [message, setMessage] = useState("");
  const count = review.chosen.value.length;
  const commit = async () => {
    if (await review.commit(message)) setMessage("");
  };
  return (
    <form
      class="commit-form"
      onSubmit={(event) => {
        event.preventDefault();
        void commit();
      }}
    >
      <input
        type="text"
        aria-label={t("review.message")}
        placeholder={branch === "" ? t("review.message") : t("review.messageOn", { branch })}
        value={message}
        onInput={(event) => setMessage(event.currentTarget.value)}
      />
      <button type="submit" disabled={review.busy.value || count === 0 || message.trim() === ""}>
        {t("review.commit", { count })}
      </button>
    </form>
  );
}

interface PullRequestFormProps {
  review: Review;
  /** The commits are on the main branch. */
  needsBranch: boolean;
  onClose: () => void;
}

/** Asks for title and text before anything leaves this machine. */
function PullRequestForm({ review, needsBranch, onClose }: PullRequestFormProps) {
  const [title, setTitle] = useState("");
  const [body, setBody] = useState("");
  const [branch, setBranch] = useState("");
  const missing = title.trim() === "" || (needsBranch && branch.trim() === "");
  const submit = async () => {
    if (await review.openPullRequest({ title, body, branch: branch.trim() })) onClose();
  };
  return (
    <form
      class="pull-request"
      aria-label={t("review.pullRequest")}
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <label>
        {t("review.prTitle")}
        <input type="text" value={title} onInput={(event) => setTitle(event.currentTarget.value)} />
      </label>
      {needsBranch && (
        <label>
          {t("review.prBranch")}
          <input type="text" value={branch} onInput={(event) => setBranch(event.currentTarget.value)} />
        </label>
      )}
      <label>
        {t("review.prBody")}
        <textarea rows={3} value={body} onInput={(event) => setBody(event.currentTarget.value)} />
      </label>
      <p class="muted">{t("review.prHint")}</p>
      <div class="button-row">
        <button type="submit" class="primary" disabled={review.busy.value || missing}>
          {t("review.prOpen")}
        </button>
        <button type="button" class="quiet" onClick={onClose}>
          {t("app.cancel")}
        </button>
      </div>
    </form>
  );
}
