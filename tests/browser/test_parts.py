"""Tables, forms, dialogs and marked texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.browser.watched import assert_accessible
from tests.support.lazy import lazy

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = lazy("playwright.sync_api", "expect")

SCHEMA = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "description": "The name of the model."},
        "mu": {"type": "number", "minimum": 0, "maximum": 10, "default": 0.5, "description": "The price."},
        "rounds": {"type": "integer", "exclusiveMinimum": 0, "default": 100},
        "kernel": {"enum": ["linear", "rbf"], "type": "string", "default": "linear"},
        "gamma": {
            "anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"enum": ["scale"], "type": "string"}],
            "default": "scale",
        },
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        "calibrate": {"type": "boolean", "default": True},
        "tags": {"type": "array", "items": {"type": "string"}},
        "search": {"$ref": "#/$defs/Search"},
    },
    "$defs": {"Search": {"type": "object", "properties": {"folds": {"type": "integer", "default": 5}}}},
}


def test_a_thousand_rows_are_sorted_filtered_and_shown_in_pages(elements: Page) -> None:
    elements.evaluate(
        """() => {
          const rows = Array.from({ length: 1000 }, (_, i) => ({ label: `label ${i}`, f1: i % 10 === 0 ? null : (i * 7919 % 1000) / 1000, drift: i % 3 }));
          const columns = [{ key: 'label', title: 'Label' }, { key: 'f1', title: 'F1', numeric: true },
            { key: 'drift', title: 'Drift', sortable: false, format: (value) => parts.dom.h('button', {}, `mute ${value}`) }];
          add('ml-table', { caption: 'Labels' }).set(columns, rows, { key: 'label' });
          globalThis.rows = rows;
        }"""
    )
    table = elements.locator("ml-table")
    body = table.locator("tbody tr")
    assert body.count() == 100
    header = table.get_by_role("columnheader", name="F1")
    elements.keyboard.press("Tab")  # the filter
    expect(table.get_by_role("searchbox")).to_be_focused()
    table.get_by_role("button", name="F1").focus()
    elements.keyboard.press("Enter")
    expect(header).to_have_attribute("aria-sort", "descending")
    assert body.first.locator("td").first.inner_text() == "0.999"
    elements.keyboard.press("Enter")
    expect(header).to_have_attribute("aria-sort", "ascending")
    assert body.first.locator("td").first.inner_text() == "0.001"
    expect(table.get_by_role("columnheader", name="Label")).to_have_attribute("aria-sort", "none")
    expect(table.get_by_role("columnheader", name="Drift").get_by_role("button")).to_have_count(0)

    for shown in range(200, 1001, 100):
        table.get_by_role("button", name="Show 100 more").click()
        expect(body).to_have_count(shown)
    expect(table.get_by_role("button", name="more")).to_be_hidden()
    assert body.last.locator("td").first.inner_text() == "–"  # rows without a value come last in either order
    assert body.nth(899).locator("td").first.inner_text() == "0.999"

    table.get_by_role("searchbox").fill("label 99")
    expect(table.get_by_role("status")).to_have_text("11 of 11 shown")
    table.get_by_role("searchbox").fill("no such label")
    expect(body).to_have_text(["No row has this text."])
    assert_accessible(elements)


def test_remaining_rows_keep_their_focus_when_a_table_changes(elements: Page) -> None:
    elements.evaluate(
        """() => {
          const columns = [{ key: 'name', title: 'Model', format: (name) => parts.dom.h('a', { href: `#${name}` }, name) },
            { key: 'updates', title: 'Updates', numeric: true }];
          add('ml-table', { caption: 'Models' }).set(columns, [{ name: 'a', updates: 1 }, { name: 'b', updates: 2 }], { sort: 'updates', descending: true });
        }"""
    )
    table = elements.locator("ml-table")
    table.get_by_role("link", name="a", exact=True).focus()
    elements.evaluate(
        "() => document.querySelector('ml-table').update([{ name: 'c', updates: 9 }, { name: 'b', updates: 2 }, { name: 'a', updates: 1.5 }])"
    )
    assert table.locator("tbody tr").all_inner_texts() == ["c\t9", "b\t2", "a\t1.5"]
    expect(table.get_by_role("link", name="a", exact=True)).to_be_focused()
    elements.evaluate("() => document.querySelector('ml-table').update([])")
    expect(table.locator("tbody")).to_have_text("Nothing here yet.")


def add_form(page: Page, options: dict[str, Any]) -> None:
    page.evaluate(
        "([schema, options]) => { globalThis.form = parts.form.schemaForm(schema, options); document.querySelector('main').append(form.element); }",
        [SCHEMA, options],
    )


@pytest.mark.smoke
def test_a_form_sends_changed_fields_and_shows_errors_beside_them(elements: Page) -> None:
    add_form(elements, {"legend": "Train"})
    assert elements.evaluate("() => [form.check(), form.value()]") == [False, {}]
    expect(elements.get_by_label("name (required)")).to_have_attribute("aria-invalid", "true")
    assert elements.get_by_label("mu").input_value() == "0.5"
    assert elements.get_by_label("mu").get_attribute("max") == "10"
    expect(
        elements.get_by_text("The price. Allowed: a number at least 0 and at most 10. Default: 0.5.")
    ).to_be_visible()

    elements.get_by_label("name (required)").fill("yeast")
    elements.get_by_label("mu").fill("0.25")
    elements.get_by_label("kernel").select_option("rbf")
    elements.get_by_label("gamma").fill("0.5")
    elements.get_by_label("limit").fill("7")
    elements.get_by_label("calibrate").uncheck()
    elements.get_by_label("tags").fill("one, two")
    elements.get_by_label("folds").fill("3")
    assert elements.evaluate("() => [form.check(), form.value()]") == [
        True,
        {
            "name": "yeast",
            "mu": 0.25,
            "kernel": "rbf",
            "gamma": 0.5,
            "limit": 7,
            "calibrate": False,
            "tags": ["one", "two"],
            "search": {"folds": 3},
        },
    ]
    elements.get_by_label("limit").fill("")
    elements.get_by_label("gamma").fill("0,5")
    assert elements.evaluate("() => form.check()") is False
    expect(elements.get_by_text("Expected a number or one of scale")).to_be_visible()

    problem = {
        "errors": [
            {"pointer": "/params/mu", "detail": "must be above the other"},
            {"pointer": "/params/search/folds", "detail": "must be at least 2"},
            {"pointer": "/data", "detail": "required"},
        ]
    }
    left = elements.evaluate("(problem) => form.show(problem, '/params')", problem)
    assert left == problem["errors"][2:]
    expect(elements.get_by_label("mu")).to_be_focused()
    expect(elements.get_by_label("mu")).to_have_accessible_description(
        "The price. Allowed: a number at least 0 and at most 10. Default: 0.5. must be above the other"
    )
    expect(elements.get_by_label("folds")).to_have_attribute("aria-invalid", "true")
    assert_accessible(elements)
    elements.get_by_label("mu").fill("1")
    expect(elements.get_by_text("must be above the other")).to_have_count(0)


def test_fields_of_a_search_take_several_values(elements: Page) -> None:
    add_form(elements, {"several": True, "only": ["mu", "gamma", "kernel"], "value": {"mu": [0.1, 1]}})
    elements.get_by_label("gamma").fill("scale, 0.5")
    elements.get_by_label("kernel").fill("rbf, linear")
    assert elements.evaluate("() => [form.check(), form.value()]") == [
        True,
        {"mu": [0.1, 1], "gamma": ["scale", 0.5], "kernel": ["rbf", "linear"]},
    ]


def test_a_dialog_confirms_or_cancels(elements: Page) -> None:
    elements.evaluate(
        """() => {
          globalThis.runs = 0;
          globalThis.answers = [];
          const run = async () => { runs += 1; if (runs === 1) throw Object.assign(new Error('no'), { title: 'Storage gone', detail: 'try later' }); };
          document.querySelector('main').append(parts.dom.h('button', { onclick: async () => answers.push(await parts.dialog.ask(
            { title: 'Roll back?', text: 'What was learnt since is forgotten.', action: 'Roll back', danger: true, run })) }, 'Go'));
        }"""
    )
    go, dialog = elements.get_by_role("button", name="Go"), elements.get_by_role("dialog")
    go.click()
    expect(dialog).to_have_accessible_name("Roll back?")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    elements.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(go).to_be_focused()
    elements.keyboard.press("Enter")
    dialog.get_by_role("button", name="Roll back").click()
    expect(dialog.get_by_role("alert")).to_contain_text("try later")
    assert_accessible(elements)
    dialog.get_by_role("button", name="Roll back").click()
    expect(dialog).to_have_count(0)
    elements.wait_for_function("() => answers.length === 2")
    assert elements.evaluate("() => [runs, answers]") == [2, [False, True]]


def test_words_of_a_text_are_marked_with_their_sign(elements: Page) -> None:
    elements.evaluate(
        """() => document.querySelector('main').append(parts.text.markedText(
          'The CAT sat: a black cat, über-cat <b>!', new Map([['cat', 0.5], ['black cat', -0.25], ['über', 1]])))"""
    )
    marks = elements.locator("mark")
    assert marks.all_inner_texts() == ["+CAT", "−black cat", "+über", "+cat"]
    assert [each.get_attribute("title") for each in marks.all()] == ["0.5", "-0.25", "1", "0.5"]
    expect(elements.locator(".ml-text")).to_have_text("The +CAT sat: a −black cat, +über-+cat <b>!")
    assert_accessible(elements)
