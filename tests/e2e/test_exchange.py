"""Chats in and out of the page in chromium, and the routes behind it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.e2e.shared_page import Watch
from tests.e2e.sites import ROOT, FakeSite
from tests.e2e.steps import ask, finished, reload, send, text_of

pytestmark = pytest.mark.browser
FILES = ROOT / "tests" / "app" / "chat_files"


def export(page: Page, name: str) -> tuple[str, str]:
    """The suggested name and the text of what a button downloads."""
    with page.expect_download() as info:
        page.get_by_role("button", name=name).click()
    return info.value.suggested_filename, Path(info.value.path()).read_text(encoding="utf-8")


def refused(watch: Watch, count: int) -> None:
    """So many answers with an error, which chromium logs, and nothing else."""
    assert len(watch.errors) == count
    assert all("Failed to load resource" in error for error in watch.errors)
    watch.errors.clear()


def drop(page: Page, target: str, name: str, content: str) -> None:
    transfer = page.evaluate_handle(
        """([name, content]) => {
          const transfer = new DataTransfer();
          transfer.items.add(new File([content], name));
          return transfer;
        }""",
        [name, content],
    )
    for kind in ("dragover", "drop"):
        page.dispatch_event(target, kind, {"dataTransfer": transfer})


def test_export_and_import_again(page: Page) -> None:
    ask(page, "about <zebras>, 20 tokens")
    text = text_of(finished(page))
    page.click("#open-exchange")
    name, content = export(page, "This chat, JSON")
    assert name == "forerun-about-zebras-20-tokens.json"
    (chat,) = json.loads(content)["chats"]
    assert [one["role"] for one in chat["messages"]] == ["user", "assistant"]
    reply = chat["messages"][1]
    assert "".join(token[0] for token in reply["tokens"]) == reply["content"]
    name, content = export(page, "All chats, Markdown")
    assert name == "forerun-chats.md" and "## User\n\nabout <zebras>, 20 tokens" in content
    whole = export(page, "All chats, JSON")[1]
    payload = FilePayload(name="mine.json", mimeType="application/json", buffer=whole.encode())
    page.set_input_files("#exchange-files", payload)
    expect(page.locator(".exchange-file p")).to_contain_text("Forerun: 1 chat, 2 messages.")
    page.keyboard.press("Escape")
    expect(page.locator(".conversation")).to_have_count(2)
    page.click("#new-chat")
    page.locator(".conversation").last.click()
    assert text_of(finished(page)) == text
    figures = page.locator(".reply-figures")
    expect(figures).to_contain_text("20 tokens")


def test_drop_on_the_list_tells_what_was_left_out(page: Page, watch: Watch) -> None:
    content = (FILES / "chatgpt.json").read_text(encoding="utf-8")
    drop(page, "#sidebar", "conversations.json", content)
    row = page.locator(".exchange-file", has_text="conversations.json").first
    expect(row).to_contain_text("Imported from ChatGPT: 1 chat, 2 messages.")
    expect(row).to_contain_text("1 more came with them")
    expect(row.locator("li")).to_have_count(2)
    drop(page, "#exchange-dialog", "recipe.json", '{"pages": 3}')
    failed = page.locator(".exchange-file.failed", has_text="recipe.json")
    expect(failed).to_contain_text("Nothing was imported: no chats were found")
    refused(watch, 1)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Rivers of Europe", exact=True).click()
    expect(page.locator(".reply-body:not(.thought-body)")).to_contain_text("The Rhine")
    expect(page.locator(".thought summary")).to_contain_text("Thoughts")
    expect(page.locator(".note")).to_have_count(0)
    send(page, "go on, 15 tokens")
    assert text_of(finished(page, 2))


def test_a_chat_without_messages_cannot_be_exported(page: Page, watch: Watch) -> None:
    page.click("#open-exchange")
    expect(page.get_by_role("button", name="This chat, JSON")).to_be_disabled()
    page.get_by_role("button", name="All chats, JSON").click()
    expect(page.locator("#exchange-dialog [role=alert]")).to_have_text(
        "there are no chats to export"
    )
    refused(watch, 1)


def test_import_while_a_reply_is_written(page: Page) -> None:
    send(page, "long, 400 tokens")
    expect(page.locator(".reply-body .token").first).to_be_visible()
    drop(page, "#sidebar", "t.json", (FILES / "open_webui.json").read_text(encoding="utf-8"))
    row = page.locator(".exchange-file", has_text="t.json").first
    expect(row).to_contain_text("Imported from Open WebUI")
    page.keyboard.press("Escape")
    finished(page)
    expect(page.locator(".conversation")).to_have_count(2)


def test_routes_are_for_open_pages_only(page: Page, watch: Watch) -> None:
    session = page.evaluate("sessionStorage.getItem('forerun-session')")
    ask(page, "one, 5 tokens")
    statuses = page.evaluate(
        """async (session) => {
          const status = async (path, options) =>
            (await fetch(new URL(path, document.baseURI), options)).status;
          const post = { method: "POST", body: "{}" };
          return {
            own: await status(`chats/export?session=${session}&format=json`),
            none: await status("chats/export?format=json"),
            form: await status(`chats/export?session=${session}&format=exe`),
            chat: await status(`chats/export?session=${session}&format=json&chat=99999999999`),
            word: await status(`chats/export?session=${session}&format=json&chat=%C2%B2`),
            post: await status("chats/import?session=x&name=y", post),
            bad: await status(`chats/import?session=${session}&name=y`, post),
            card: await status("presets/import?session=x&name=y", post),
            nobody: await status(`presets/import?session=${session}&name=y`, post),
          };
        }""",
        json.loads(session) if session.startswith('"') else session,
    )
    expected = {"own": 200, "none": 403, "form": 400, "chat": 400, "word": 400}
    assert statuses == expected | {"post": 403, "bad": 400, "card": 403, "nobody": 400}
    refused(watch, 8)


def test_the_command_works_beside_the_page(page: Page, site: FakeSite, tmp_path: Path) -> None:
    ask(page, "kept, 12 tokens")
    folder = site.command[4]

    def run(*arguments: str) -> Any:
        command = [sys.executable, "-m", "app", "chats", *arguments, "--data-dir", folder]
        return subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
        ).stdout

    assert "1 chat with 3 messages" in run("import", str(FILES / "lm_studio.conversation.json"))
    reload(page)
    names = page.locator(".conversation")
    expect(names).to_have_count(2)
    assert "2 chats written" in run("export", str(tmp_path / "all.md"))
    text = (tmp_path / "all.md").read_text(encoding="utf-8")
    assert "Forty minutes." in text and "kept, 12 tokens" in text
