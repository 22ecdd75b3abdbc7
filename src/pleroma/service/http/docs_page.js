// Sends what a form of the page says, with the token from the top of the page, and shows the answer below the form.
// The token stays in this page: it is not stored, and nothing is sent to anywhere but where the page came from.
"use strict";
const MAX_SHOWN = 200_000; // characters of an answer
const underWay = new Map();

function requestOf(form) {
  let path = form.dataset.path;
  const query = new URLSearchParams();
  for (const input of form.querySelectorAll("input[name]")) {
    const place = `{${input.name}}`;
    if (path.includes(place)) path = path.replace(place, encodeURIComponent(input.value));
    else if (input.value !== "") query.append(input.name, input.value);
  }
  const token = document.getElementById("token").value.trim();
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const body = form.querySelector("textarea")?.value.trim();
  if (body) headers["Content-Type"] = "application/json";
  const search = query.toString();
  return [path + (search && `?${search}`), { method: form.dataset.method, headers, body: body || undefined }];
}

async function show(form, shown) {
  underWay.get(form)?.abort();
  const control = new AbortController();
  underWay.set(form, control);
  const [path, request] = requestOf(form);
  shown.textContent = `${request.method} ${path}\n`;
  try {
    const answer = await fetch(path, { ...request, signal: control.signal });
    const head = `${shown.textContent}${answer.status} ${answer.statusText}\n`;
    let text = "";
    if (answer.body) {
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        text = (text + part.value).slice(-MAX_SHOWN);
        shown.textContent = head + text; // a stream is shown as it comes
      }
    }
    if (answer.headers.get("content-type")?.startsWith("application/json")) text = JSON.stringify(JSON.parse(text), null, 1);
    shown.textContent = head + text;
  } catch (error) {
    if (error.name !== "AbortError") shown.textContent += `${error.message}\n`;
  }
}

for (const form of document.querySelectorAll("form")) {
  const shown = form.querySelector("output");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    show(form, shown);
  });
  form.querySelector("button[type=button]").addEventListener("click", () => underWay.get(form)?.abort());
}
