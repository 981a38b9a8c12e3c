const form = document.getElementById("login");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const answer = await fetch("/login", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token: form.elements.token.value }),
  });
  if (answer.ok) location.assign("/");
  else document.getElementById("told").textContent = (await answer.json()).error;
});
