"""Charts: what and when they draw, and their descriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.browser.watched import PHONE, assert_accessible, assert_no_sideways_scrolling
from tests.support.lazy import lazy

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

expect = lazy("playwright.sync_api", "expect")

TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))"
DRAWS = "() => document.querySelector('ml-line').draws"
LINE = {"heading": "Micro-F1", "x-title": "examples learnt", "y-title": "micro-F1", "y-min": "0", "y-max": "1"}


def box_of(locator: Locator) -> dict[str, float]:
    box = locator.bounding_box()
    assert box is not None
    return dict(box)


def add_line(page: Page, xs: list[float], curves: dict[str, list[Any]], **attributes: str) -> None:
    page.evaluate(
        "([attributes, xs, curves]) => add('ml-line', attributes).set(xs, curves)", [{**LINE, **attributes}, xs, curves]
    )
    page.evaluate(TWO_FRAMES)


def test_thinning_keeps_what_each_column_of_pixels_shows(elements: Page) -> None:
    wrong = elements.evaluate(
        """() => {
          const { Ring, thin } = parts.ring;
          const wrong = [];
          for (let run = 0; run < 300; run += 1) {
            const n = Math.floor(Math.random() * 3000);
            const ring = new Ring(1 + Math.floor(Math.random() * 3000));
            let x = Math.random() * 1000;
            for (let i = 0; i < n; i += 1) {
              x += Math.random() < 0.1 ? Math.random() * 500 : Math.random();
              ring.push(x, Math.random() < 0.2 ? Math.round(Math.random() * 3) : Math.random() * 4);
            }
            if (ring.length !== Math.min(n, ring.capacity)) wrong.push([run, 'length']);
            if (!ring.length) continue;
            const columns = 1 + Math.floor(Math.random() * 400);
            const [from, to] = [ring.x(0), ring.x(ring.length - 1)];
            const kept = thin(ring, from, to, columns);
            const column = (i) => (to > from ? Math.floor((ring.x(i) - from) * (columns / (to - from))) : 0);
            const picture = (indices) => {
              const found = new Map();
              for (const i of indices) {
                const seen = found.get(column(i)) ?? { first: ring.y(i), low: Infinity, high: -Infinity };
                found.set(column(i), { first: seen.first, low: Math.min(seen.low, ring.y(i)), high: Math.max(seen.high, ring.y(i)), last: ring.y(i) });
              }
              return JSON.stringify([...found]);
            };
            if (picture(kept) !== picture(Array.from({ length: ring.length }, (_, i) => i))) wrong.push([run, 'picture']);
            if (kept.some((index, i) => i > 0 && index <= kept[i - 1])) wrong.push([run, 'order']);
            if (kept.length > 4 * (columns + 1)) wrong.push([run, 'number']);
          }
          return wrong;
        }"""
    )
    assert wrong == []


def test_a_ring_drops_the_oldest_points_and_those_after_a_rollback(elements: Page) -> None:
    assert elements.evaluate(
        """() => {
          const ring = new parts.ring.Ring(4);
          const points = () => Array.from({ length: ring.length }, (_, i) => [ring.x(i), ring.y(i)]);
          const seen = [];
          for (const x of [1, 2, 3, 4, 5, 6]) ring.push(x, x / 10);
          ring.push(7, null);
          ring.push(7, NaN);
          seen.push(points());
          ring.push(4, 9);
          seen.push(points());
          ring.push(4, 8);
          ring.push(8, 0);
          seen.push(points(), [ring.nearest(-1), ring.nearest(5.9), ring.nearest(6.1), ring.nearest(99)]);
          return seen;
        }"""
    ) == [
        [[3, 0.3], [4, 0.4], [5, 0.5], [6, 0.6]],
        [[3, 0.3], [4, 9]],
        [[3, 0.3], [4, 8], [8, 0]],
        [0, 1, 2, 2],
    ]


def test_a_curve_has_a_readout_toggles_and_a_description(elements: Page) -> None:
    xs = [float(x) for x in range(101)]
    add_line(elements, xs, {"cumulative": [x / 200 for x in xs], "window": [None, *[0.1 + 0.2 / 3] * 100]})
    line = elements.locator("ml-line")
    readout = line.locator(".ml-readout")
    assert readout.inner_text() == f"100 examples learnt · cumulative 0.5 · window {0.1 + 0.2 / 3}"
    box = box_of(line.locator("canvas"))
    elements.mouse.move(box["x"] + 52 + (box["width"] - 64) / 2, box["y"] + box["height"] / 2)
    expect(readout).to_have_text(f"50 examples learnt · cumulative 0.25 · window {0.1 + 0.2 / 3}")
    expect(line.locator(".ml-cursor")).to_be_visible()
    elements.mouse.move(0, 0)
    expect(readout).to_contain_text("100 examples learnt")

    assert line.locator("canvas").get_attribute("aria-label") == (
        "Micro-F1: micro-F1 by examples learnt. cumulative goes from 0 at 0 to 0.5 at 100; "
        f"window goes from {0.1 + 0.2 / 3} at 1 to {0.1 + 0.2 / 3} at 100."
    )
    toggle = line.get_by_role("button", name="window")
    toggle.focus()
    elements.keyboard.press("Space")
    expect(toggle).to_have_attribute("aria-pressed", "false")
    expect(readout).to_have_text("100 examples learnt · cumulative 0.5")
    line.get_by_text("Values").click()
    expect(line.locator("tbody tr").first).to_have_text("1000.5")
    assert line.locator("tbody tr").count() <= 51
    assert_accessible(elements)


def test_a_curve_is_drawn_once_a_frame_and_only_when_visible(elements: Page) -> None:
    add_line(elements, [0, 1], {"a": [0, 1]})
    before = elements.evaluate(DRAWS)
    pushed = elements.evaluate(
        """() => {
          const line = document.querySelector('ml-line');
          for (let x = 2; x < 2000; x += 1) line.push(x, { a: Math.random() });
          return line.draws;
        }"""
    )
    assert pushed == before
    elements.evaluate(TWO_FRAMES)
    assert elements.evaluate(DRAWS) == before + 1

    elements.evaluate(
        """() => {
          Object.defineProperty(document, 'hidden', { value: true, configurable: true });
          document.querySelector('ml-line').push(3000, { a: 1 });
        }"""
    )
    elements.evaluate(TWO_FRAMES)
    assert elements.evaluate(DRAWS) == before + 1
    elements.evaluate("() => { delete document.hidden; document.dispatchEvent(new Event('visibilitychange')); }")
    elements.evaluate(TWO_FRAMES)
    assert elements.evaluate(DRAWS) == before + 2
    expect(elements.locator("ml-line .ml-readout")).to_contain_text("3,000 examples learnt")


def test_a_curve_follows_the_width_and_the_colours_of_the_system(elements: Page) -> None:
    add_line(elements, [0, 1], {"a": [0.5, 0.5]})
    width = elements.evaluate("() => document.querySelector('canvas').width")
    elements.set_viewport_size(PHONE)
    elements.wait_for_function("(before) => document.querySelector('canvas').width < before", arg=width)
    assert_no_sideways_scrolling(elements)

    def colour() -> Any:
        elements.evaluate(TWO_FRAMES)
        return elements.evaluate(
            """() => {
              const canvas = document.querySelector('canvas');
              const { data } = canvas.getContext('2d').getImageData(canvas.width / 2, 0, 1, canvas.height);
              let best = [0, 0, 0, 0];
              for (let i = 0; i < data.length; i += 4) if (data[i + 3] > best[3]) best = [...data.slice(i, i + 4)];
              return best;
            }"""
        )

    assert colour() == [0x1F, 0x5F, 0xBF, 255]
    elements.emulate_media(color_scheme="dark")
    assert colour() == [0x7D, 0xB0, 0xFF, 255]


def test_a_chart_without_values_says_so(elements: Page) -> None:
    add_line(elements, [], {"window": []})
    expect(elements.locator(".ml-readout")).to_have_text("No values yet.")
    expect(elements.locator("canvas")).to_have_attribute(
        "aria-label", "Micro-F1: micro-F1 by examples learnt. No values yet."
    )
    elements.evaluate("() => document.querySelector('ml-line').push(7, { other: 0.5 })")
    expect(elements.locator(".ml-readout")).to_have_text("7 examples learnt · other 0.5 · window: no values yet")


def test_dots_are_sized_by_their_counts_beside_the_diagonal(elements: Page) -> None:
    ends = {"x-min": "0", "x-max": "1", "diagonal": "", "count-title": "labels"}
    elements.evaluate(
        "(attributes) => add('ml-line', attributes).dots([0.25, 0.75], { 'Came true': [0.2, 0.8125] }, [4000, 10])",
        {**LINE, **ends, "x-title": "mean probability"},
    )
    elements.evaluate(TWO_FRAMES)
    line = elements.locator("ml-line")
    area = elements.evaluate("() => document.querySelector('ml-line')._scale.area")
    wide, high = area["right"] - area["left"], area["bottom"] - area["top"]
    painted = """([x, y, colour]) => {
      const canvas = document.querySelector('ml-line canvas');
      const [red, , blue, alpha] = canvas.getContext('2d').getImageData(x * devicePixelRatio, y * devicePixelRatio, 1, 1).data;
      return colour ? alpha > 200 && blue > red + 50 : alpha > 0;
    }"""

    def at(x: float, y: float, dx: int = 0, colour: bool = True) -> bool:
        place = [area["left"] + x * wide + dx, area["bottom"] - y * high, colour]
        return bool(elements.evaluate(painted, place))

    assert at(0.25, 0.2)
    assert at(0.25, 0.2, dx=8), "it stands for many"
    assert at(0.75, 0.8125)
    assert not at(0.75, 0.8125, dx=8), "and it for few"
    assert any(at(0.5, 0.5, dx, colour=False) for dx in range(-9, 10)), "the diagonal"
    box = box_of(line.locator("canvas"))
    elements.mouse.move(box["x"] + area["left"] + 0.3 * wide, box["y"] + 20)
    expect(line.locator(".ml-readout")).to_have_text("0.25 mean probability · Came true 0.2 · 4,000 labels")
    line.locator("summary").click()
    expect(line.locator("tbody tr").first).to_have_text("0.750.812510")


def test_a_curve_has_marks_and_a_logarithmic_scale(elements: Page) -> None:
    add_line(elements, [1, 2, 3], {"gap": [1000, 1, 0.001]}, **{"y-scale": "log", "y-min": "-3", "y-max": "3"})
    elements.evaluate("() => { document.querySelector('ml-line').marks = [{ x: 2, text: 'drift of cars' }]; }")
    elements.evaluate(TWO_FRAMES)
    box = box_of(elements.locator("canvas"))
    elements.mouse.move(box["x"] + 52 + (box["width"] - 64) / 2, box["y"] + 20)
    expect(elements.locator(".ml-readout")).to_have_text("2 examples learnt · gap 1 · drift of cars")
    middle = elements.evaluate(
        "() => { const { _scale: s } = document.querySelector('ml-line'); return [s.toY(1), (s.area.top + s.area.bottom) / 2]; }"
    )
    assert middle[0] == pytest.approx(middle[1])
    assert elements.evaluate("() => [parts.axis.ticks(0, 1, 4), parts.axis.ticks(3, 3, 4), parts.axis.ticks(0, 3, 10, true), parts.axis.ticks(0, 19, 8, true), parts.axis.tickText(12345), parts.axis.tickText(1e-7)]") == [
        [0, 0.25, 0.5, 0.75, 1], [3], [0, 1, 2, 3], [0, 5, 10, 15], "12.35K", "1e-7",
    ]  # fmt: skip


def test_bars_have_signs_and_the_digits_of_the_interface(elements: Page) -> None:
    elements.evaluate(
        """() => {
          add('ml-bars', { heading: 'Why', 'name-title': 'Feature' }).set([
            { name: 'cat', value: 0.6200000047683716 }, { name: 'dog', value: -0.31, strong: true }, { name: 'none', value: null }]);
          add('ml-bars', { heading: 'Probabilities', max: 1 }).set([{ name: 'pets', value: 0.25, mark: 0.5 }]);
        }"""
    )
    why, likely = elements.locator("ml-bars").all()
    assert why.locator("td.number").all_inner_texts() == ["+0.6200000047683716", "-0.31", "–"]
    track, plus, minus = (
        box_of(each)
        for each in [why.locator(".ml-track").first, why.locator(".ml-plus").first, why.locator(".ml-minus")]
    )
    assert plus["width"] == pytest.approx(track["width"] / 2, abs=2)
    assert minus["width"] == pytest.approx(track["width"] / 4, abs=2)
    assert minus["x"] + minus["width"] == pytest.approx(plus["x"], abs=2)
    bar, mark, place = (box_of(likely.locator(each)) for each in (".ml-bar", ".ml-mark", ".ml-track"))
    assert bar["width"] == pytest.approx(place["width"] / 4, abs=2)
    assert mark["x"] - place["x"] == pytest.approx(place["width"] / 2, abs=2)
    assert_accessible(elements)


def test_a_heat_map_is_ordered_by_similarity(elements: Page) -> None:
    split = elements.evaluate(
        """() => {
          const found = [];
          for (let run = 0; run < 30; run += 1) { // blocks that are alike inside, shuffled, are whole again
            const n = 3 + Math.floor(Math.random() * 60);
            const block = Array.from({ length: n }, () => Math.floor(Math.random() * 4));
            const likeness = block.map((a) => block.map((b) => (a === b ? 0.8 : 0.1)));
            for (let i = 0; i < n; i += 1) for (let j = 0; j < i; j += 1) {
              likeness[i][j] = likeness[j][i] = likeness[i][j] + 0.1 * Math.random();
            }
            const order = parts.cluster.clusterOrder(likeness);
            const seen = order.map((i) => block[i]);
            const changes = seen.filter((each, i) => i === 0 || each !== seen[i - 1]).length;
            if (new Set(order).size !== n || changes !== new Set(block).size) found.push([run, seen]);
          }
          return found;
        }"""
    )
    assert split == []
    elements.evaluate(
        """() => add('ml-heat', { heading: 'Correlation', min: -1, max: 1 })
          .set(['a', 'b', 'c', 'd'], ['a', 'b', 'c', 'd'], [[1, 0, 0.9, 0], [0, 1, 0, -0.25], [0.9, 0, 1, 0], [0, -0.25, 0, 1]])"""
    )
    heat = elements.locator("ml-heat")
    elements.evaluate(TWO_FRAMES)
    order = elements.evaluate("() => document.querySelector('ml-heat').order")
    assert abs(order.index("a") - order.index("c")) == 1
    box = box_of(heat.locator("canvas"))
    place = elements.evaluate("() => document.querySelector('ml-heat')._place")
    row, column = order.index("a"), order.index("c")
    elements.mouse.move(
        box["x"] + place["left"] + (column + 0.5) * place["cell"], box["y"] + (row + 0.5) * place["cell"]
    )
    expect(heat.locator(".ml-readout")).to_have_text("a · c: 0.9")
    heat.get_by_role("button", name="Those alike together").click()
    assert elements.evaluate("() => document.querySelector('ml-heat').order") == ["a", "b", "c", "d"]
    heat.get_by_text("Largest values").click()
    assert heat.locator("tbody tr").all_inner_texts()[:2] == ["a\tc\t0.9", "b\td\t-0.25"]
    assert_accessible(elements)


def test_only_up_to_three_hundred_labels_are_clustered(elements: Page) -> None:
    order = elements.evaluate(
        """() => {
          const n = 300;
          const likeness = Array.from({ length: n }, () => new Array(n).fill(0));
          for (let i = 0; i < n; i += 1) for (let j = 0; j <= i; j += 1) likeness[i][j] = likeness[j][i] = i === j ? 1 : Math.random() * 2 - 1;
          const names = likeness.map((_, i) => `label ${i}`);
          const heat = add('ml-heat', { heading: 'Many' });
          heat.set(names, names, likeness);
          const more = [...names, 'one more'];
          const given = add('ml-heat', { heading: 'Too many' });
          given.set(more, more, more.map((_, i) => more.map((_, j) => Number(i === j))));
          return [new Set(heat.order).size, given.order.slice(0, 2)];
        }"""
    )
    assert order == [300, ["label 0", "label 1"]]


@pytest.mark.smoke
def test_elements_are_readable_on_a_phone_in_the_dark(elements: Page) -> None:
    elements.set_viewport_size(PHONE)
    elements.emulate_media(color_scheme="dark")
    add_line(elements, [0, 1, 2], {"cumulative": [0, 0.5, 0.6], "window": [0, 0.4, 0.7]})
    elements.evaluate(
        """() => {
          add('ml-bars', { heading: 'Why' }).set([{ name: 'a feature with a rather long name=and its value', value: -0.123456789 }, { name: 'b', value: 2 }]);
          const names = Array.from({ length: 40 }, (_, i) => `label ${i}`);
          add('ml-heat', { heading: 'Correlation' }).set(names, names, names.map((_, i) => names.map((_, j) => Math.cos(i * j))));
          add('ml-table', { caption: 'Labels' }).set(
            ['label', 'frequency', 'precision', 'recall', 'f1'].map((key) => ({ key, title: key, numeric: key !== 'label' })),
            names.map((label, i) => ({ label, frequency: i / 41, precision: i / 43, recall: i / 47, f1: i / 53 })));
        }"""
    )
    elements.evaluate(TWO_FRAMES)
    assert_no_sideways_scrolling(elements)
    assert_accessible(elements)
