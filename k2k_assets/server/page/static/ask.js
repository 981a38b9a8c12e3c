// Asks the server; an answer that refuses has `ok: false` and `error`.
export async function ask(path, body) {
  const options = body && {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  };
  const answer = await fetch(path, options);
  if (answer.status === 401) location.assign("/login");
  return { ...(await answer.json()), ok: answer.ok };
}
